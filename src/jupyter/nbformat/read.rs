//! Parses bytes into a [`Notebook`]: strict about the structure, tolerant about the contents.
//!
//! Invariant: a field of the wrong type is repaired with a warning, or kept unchanged as unknown; it is never dropped
//! silently.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::read_output::{NOTHING, Report, count, malformed, object, output, text};
use super::{Cell, CellType, Loaded, MAJOR, MINOR, NbformatError, Notebook, Warning};
use super::{TRANSIENT, TRANSIENT_CELL, lexical, upgrade};
use crate::jupyter::mime::{MimeBundle, json_type};

pub(super) fn read(
    bytes: &[u8],
    new_id: &mut dyn FnMut() -> String,
) -> Result<Loaded, NbformatError> {
    let text = decode(bytes)?;
    let mut warnings = Vec::new();
    let root = match parse(text, &mut warnings)? {
        Value::Object(root) => root,
        other => {
            return Err(NbformatError::NotANotebook {
                found: json_type(&other).to_owned(),
            });
        }
    };
    let (root, minor) = to_v4(root, &mut warnings)?;
    let notebook = from_v4(root, minor, &mut warnings, new_id)?;
    Ok(Loaded { notebook, warnings })
}

fn decode(bytes: &[u8]) -> Result<&str, NbformatError> {
    // Editors on Windows leave a byte order mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let last_line = before.rsplit(|byte| *byte == b'\n').next();
        NbformatError::NotUtf8 {
            line: before.split(|byte| *byte == b'\n').count(),
            column: last_line.unwrap_or_default().len() + 1,
        }
    })?;
    if text.trim().is_empty() {
        return Err(NbformatError::Empty);
    }
    Ok(text)
}

fn parse(text: &str, warnings: &mut Vec<Warning>) -> Result<Value, NbformatError> {
    let value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let Some((clean, count)) = lexical::without_non_finite(text) else {
                return Err(not_json(text, &error));
            };
            // Report the second error: the first was probably the NaN, which is gone.
            let value = serde_json::from_str(&clean).map_err(|error| not_json(&clean, &error))?;
            warnings.push(Warning::NotFinite { count });
            value
        }
    };
    let (count, first) = lexical::big_integers(text);
    if count > 0 {
        let (line, _) = lexical::position(text, first);
        warnings.push(Warning::BigIntegers { count, line });
    }
    Ok(value)
}

fn not_json(text: &str, error: &serde_json::Error) -> NbformatError {
    if let Some(line) = lexical::merge_conflict(text) {
        return NbformatError::MergeConflict { line };
    }
    let line_start = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    // The parser counts bytes; 0 is the newline before.
    let offset = text.floor_char_boundary(line_start + error.column().saturating_sub(1));
    if let Some((at, unit)) = lexical::lone_surrogate(text)
        && at <= offset
    {
        let (line, column) = lexical::position(text, at);
        return NbformatError::LoneSurrogate { line, column, unit };
    }
    if error.is_eof() {
        let (line, _) = lexical::position(text, text.len());
        return NbformatError::CutShort { line };
    }
    let reason = error.to_string();
    let rest = text[offset..].lines().next().unwrap_or_default();
    let (line, column) = lexical::position(text, offset);
    NbformatError::NotJson {
        line,
        column,
        reason: reason
            .split_once(" at line ")
            .map_or(reason.as_str(), |(reason, _)| reason)
            .to_owned(),
        found: rest.chars().take(40).collect(),
    }
}

/// Converts the root to version 4; returns it with its minor version.
fn to_v4(
    mut root: Map<String, Value>,
    warnings: &mut Vec<Warning>,
) -> Result<(Map<String, Value>, u64), NbformatError> {
    let Some(major) = root.shift_remove("nbformat") else {
        let keys = root.keys().take(5).map(|key| format!("`{key}`"));
        let found = match keys.collect::<Vec<_>>().join(", ") {
            keys if keys.is_empty() => "an empty object".to_owned(),
            keys => format!("an object without `nbformat`, with {keys}"),
        };
        return Err(NbformatError::NotANotebook { found });
    };
    let minor = root.shift_remove("nbformat_minor");
    match major.as_u64() {
        Some(MAJOR) => {}
        Some(2 | 3) => return Ok((upgrade::from_v3(root)?, 0)),
        _ => {
            return Err(NbformatError::UnknownVersion {
                major: major.to_string().chars().take(40).collect(),
            });
        }
    }
    let minor = match minor {
        None | Some(Value::Null) => {
            warnings.push(Warning::NoMinor);
            0
        }
        Some(minor) => minor.as_u64().unwrap_or_else(|| {
            warnings.push(repaired("nbformat_minor".to_owned(), json_type(&minor)));
            0
        }),
    };
    if minor > MINOR {
        warnings.push(Warning::NewerMinor { minor });
    }
    Ok((root, minor))
}

fn from_v4(
    root: Map<String, Value>,
    minor: u64,
    warnings: &mut Vec<Warning>,
    new_id: &mut dyn FnMut() -> String,
) -> Result<Notebook, NbformatError> {
    let mut notebook = Notebook {
        nbformat_minor: minor,
        ..Notebook::new()
    };
    let mut metadata = None;
    let mut cells = None;
    for (name, value) in root {
        match name.as_str() {
            "metadata" => metadata = Some(value),
            "cells" => cells = Some(value),
            _ => drop(notebook.extra.insert(name, value)),
        }
    }
    notebook.metadata = object(metadata, "metadata", &mut |name, found| {
        warnings.push(repaired(name.to_owned(), found));
    });
    strip(&mut notebook.metadata, &TRANSIENT);
    let mut ids = Vec::new();
    let cells = match cells {
        Some(Value::Array(cells)) => cells,
        other => return Err(malformed("cells".to_owned(), "an array", other.as_ref())),
    };
    for (index, value) in cells.into_iter().enumerate() {
        let Value::Object(fields) = value else {
            let path = format!("cells[{index}]");
            return Err(malformed(path, "an object", Some(&value)));
        };
        let (id, read) = cell(fields, &mut |name, found| {
            warnings.push(repaired(format!("cells[{index}].{name}"), found));
        });
        ids.push(id);
        notebook.cells.push(read);
    }
    let ids = unique_ids(ids, minor, warnings, new_id);
    for (cell, id) in notebook.cells.iter_mut().zip(ids) {
        cell.id = id;
    }
    Ok(notebook)
}

/// One id per cell. Before 4.5 a field `id` is not a cell id, as in nbformat's `upgrade`; then missing ids are created,
/// then duplicates replaced, in the order of its `normalize`.
fn unique_ids(
    found: Vec<Option<Value>>,
    minor: u64,
    warnings: &mut Vec<Warning>,
    new_id: &mut dyn FnMut() -> String,
) -> Vec<String> {
    let mut ids = Vec::with_capacity(found.len());
    for (index, id) in found.into_iter().enumerate() {
        ids.push(match id {
            Some(Value::String(id)) if minor >= MINOR => id,
            other => {
                if minor >= MINOR {
                    let found = other.as_ref().map_or(NOTHING, json_type);
                    warnings.push(repaired(format!("cells[{index}].id"), found));
                }
                new_id()
            }
        });
    }
    let mut seen = HashSet::new();
    for id in &mut ids {
        if !seen.insert(id.clone()) {
            warnings.push(Warning::DuplicateId { id: id.clone() });
            let fresh = new_id();
            let mut unique = fresh.clone();
            let mut number = 2_u64;
            while !seen.insert(unique.clone()) {
                unique = format!("{fresh}-{number}");
                number += 1;
            }
            *id = unique;
        }
    }
    ids
}

fn cell(fields: Map<String, Value>, report: &mut Report) -> (Option<Value>, Cell) {
    let mut id = None;
    let mut cell_type = None;
    let mut source = None;
    let mut metadata = None;
    let mut attachments = None;
    let mut extra = Map::new();
    for (name, value) in fields {
        match name.as_str() {
            "id" => id = Some(value),
            "cell_type" => cell_type = Some(value),
            "source" => source = Some(value),
            "metadata" => metadata = Some(value),
            "attachments" => attachments = Some(value),
            _ => drop(extra.insert(name, value)),
        }
    }
    let mut metadata = object(metadata, "metadata", report);
    strip(&mut metadata, &TRANSIENT_CELL);
    let attachments = match attachments {
        None => None,
        Some(Value::Object(files)) => Some(join_attachments(files)),
        Some(Value::Null) => {
            report("attachments", "null");
            None
        }
        Some(other) => {
            extra.insert("attachments".to_owned(), other);
            None
        }
    };
    let kind = match cell_type.as_ref().and_then(Value::as_str) {
        Some("code") => code(&mut extra, report),
        Some("markdown") => CellType::Markdown,
        Some("raw") => CellType::Raw,
        Some(other) => CellType::Other {
            cell_type: other.to_owned(),
            has_source: source.is_some(),
        },
        None => {
            report("cell_type", cell_type.as_ref().map_or(NOTHING, json_type));
            if extra.contains_key("outputs") {
                code(&mut extra, report)
            } else {
                CellType::Raw
            }
        }
    };
    let source = match source {
        None if !kind.has_source() => String::new(),
        source => text(source, "source", report),
    };
    let cell = Cell {
        id: String::new(),
        kind,
        source,
        metadata,
        attachments,
        extra,
    };
    (id, cell)
}

fn code(extra: &mut Map<String, Value>, report: &mut Report) -> CellType {
    let execution_count = count(extra, report);
    let outputs = match extra.shift_remove("outputs") {
        Some(Value::Array(outputs)) => outputs,
        other => {
            report("outputs", other.as_ref().map_or(NOTHING, json_type));
            // A lone object is an output that is missing its list.
            other.into_iter().filter(Value::is_object).collect()
        }
    };
    let outputs = outputs.into_iter().enumerate().map(|(index, value)| {
        output(value, &mut |name, found| {
            let dot = if name.is_empty() { "" } else { "." };
            report(&format!("outputs[{index}]{dot}{name}"), found);
        })
    });
    CellType::Code {
        execution_count,
        outputs: outputs.collect(),
    }
}

/// Removes metadata that Jupyter keeps out of files, on reading and on writing.
fn strip(metadata: &mut Map<String, Value>, transient: &[&str]) {
    for name in transient {
        metadata.shift_remove(*name);
    }
}

fn join_attachments(files: Map<String, Value>) -> Map<String, Value> {
    let join = |(name, value)| match value {
        Value::Object(bundle) => {
            let mut bundle = MimeBundle::from(bundle);
            bundle.join_lines();
            (name, Value::Object(bundle.into_map()))
        }
        other => (name, other),
    };
    files.into_iter().map(join).collect()
}

fn repaired(path: String, found: &'static str) -> Warning {
    Warning::Repaired { path, found }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jupyter::nbformat::Output;

    fn read_with_counter(bytes: &[u8]) -> Result<Loaded, NbformatError> {
        let mut count = 0;
        read(bytes, &mut || {
            count += 1;
            format!("new-{count}")
        })
    }

    fn read_value(value: &Value) -> Loaded {
        read_with_counter(value.to_string().as_bytes()).unwrap()
    }

    fn warned(path: &str, found: &'static str) -> Warning {
        repaired(path.to_owned(), found)
    }

    #[test]
    fn a_valid_notebook_warns_of_nothing() {
        let loaded = read_value(&json!({
            "cells": [
                {
                    "cell_type": "code", "id": "a", "metadata": {"tags": ["x"]},
                    "source": ["x\n", "y"], "execution_count": 2,
                    "outputs": [
                        {"output_type": "stream", "name": "stdout", "text": ["1\n", "2"]},
                        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
                        {"output_type": "display_data", "metadata": {}, "data": {"text/plain": ["p"]}},
                    ],
                },
                {
                    "cell_type": "markdown", "id": "b", "metadata": {}, "source": "# B",
                    "attachments": {"f.png": {"image/png": ["AA", "=="]}},
                },
            ],
            "metadata": {}, "nbformat": 4, "nbformat_minor": 5, "future": [1],
        }));
        let mut code = Cell::code("a", "x\ny");
        code.metadata.insert("tags".to_owned(), json!(["x"]));
        code.kind = CellType::Code {
            execution_count: Some(2),
            outputs: vec![
                Output::stream("stdout", "1\n2"),
                Output::error("E", "v", vec!["t".to_owned()]),
                Output::display(MimeBundle::text("p"), Map::new()),
            ],
        };
        let mut markdown = Cell::markdown("b", "# B");
        let files = json!({"f.png": {"image/png": "AA=="}});
        markdown.attachments = files.as_object().cloned();
        let mut notebook = Notebook::new();
        notebook.cells = vec![code, markdown];
        notebook.extra.insert("future".to_owned(), json!([1]));
        let warnings = Vec::new();
        assert_eq!(loaded, Loaded { notebook, warnings });
    }

    #[test]
    fn oddities_are_repaired_and_told() {
        let loaded = read_value(&json!({
            "cells": [
                {"cell_type": "code", "outputs": null, "source": 7, "id": "a"},
                {"cell_type": "raw", "source": null, "metadata": {}, "id": "a"},
                {"outputs": [{"output_type": "stream"}, 5, {"output_type": "stream", "name": 1}],
                 "execution_count": 3.0, "metadata": {}, "source": ""},
            ],
            "metadata": [], "nbformat": 4, "nbformat_minor": 5,
        }));
        let mut third = Cell::code("new-1", "");
        third.kind = CellType::Code {
            execution_count: Some(3),
            outputs: vec![
                Output::stream("stdout", ""),
                Output::Other(json!(5)),
                Output::Other(json!({"output_type": "stream", "name": 1})),
            ],
        };
        let mut notebook = Notebook::new();
        notebook.cells = vec![Cell::code("a", "7"), Cell::raw("new-2", ""), third];
        let misfit = "an output whose fields do not fit its type";
        let warnings = vec![
            warned("metadata", "an array"),
            warned("cells[0].metadata", NOTHING),
            warned("cells[0].execution_count", NOTHING),
            warned("cells[0].outputs", "null"),
            warned("cells[0].source", "a number"),
            warned("cells[1].source", NOTHING),
            warned("cells[2].cell_type", NOTHING),
            warned("cells[2].outputs[0].name", NOTHING),
            warned("cells[2].outputs[0].text", NOTHING),
            warned("cells[2].outputs[1]", "a number"),
            warned("cells[2].outputs[2]", misfit),
            warned("cells[2].id", NOTHING),
            Warning::DuplicateId { id: "a".to_owned() },
        ];
        assert_eq!(loaded, Loaded { notebook, warnings });
    }

    #[test]
    fn ids_are_new_before_4_5_and_unique_after() {
        let cell = |id: &str| json!({"cell_type": "raw", "id": id, "metadata": {}, "source": ""});
        let ids = |minor: u64, cells: &[&str]| {
            let cells: Vec<Value> = cells.iter().map(|id| cell(id)).collect();
            let loaded = read_value(
                &json!({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": minor}),
            );
            let ids = loaded.notebook.cells.into_iter().map(|cell| cell.id);
            ids.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(4, &["a", "b"]), "new-1 new-2");
        assert_eq!(ids(5, &["a", "b"]), "a b");
        assert_eq!(ids(5, &["a", "new-1", "a"]), "a new-1 new-1-2");
    }

    #[test]
    fn versions() {
        let root = |major: Value, minor: Value| json!({"cells": [], "metadata": {}, "nbformat": major, "nbformat_minor": minor});
        let warnings = |minor: Value| read_value(&root(json!(4), minor)).warnings;
        assert_eq!(warnings(json!(0)), []);
        assert_eq!(warnings(json!(6)), [Warning::NewerMinor { minor: 6 }]);
        assert_eq!(warnings(json!(null)), [Warning::NoMinor]);
        assert_eq!(warnings(json!("5")), [warned("nbformat_minor", "a string")]);
        let unknown = |major: Value| {
            read_with_counter(root(major, json!(0)).to_string().as_bytes()).unwrap_err()
        };
        for major in [json!(1), json!(5), json!("4"), json!(-4)] {
            let expected = major.to_string();
            assert_eq!(
                unknown(major),
                NbformatError::UnknownVersion { major: expected }
            );
        }
    }

    #[test]
    fn numbers_that_json_or_we_cannot_hold() {
        let text = r#"{"cells": [], "nbformat": 4, "nbformat_minor": 5,
            "metadata": {"a": [NaN, -Infinity, "NaN"], "b": 18446744073709551616}}"#;
        let loaded = read_with_counter(text.as_bytes()).unwrap();
        let mut notebook = Notebook::new();
        notebook
            .metadata
            .insert("a".to_owned(), json!([null, null, "NaN"]));
        notebook
            .metadata
            .insert("b".to_owned(), json!(18_446_744_073_709_551_616.0));
        let warnings = vec![
            Warning::NotFinite { count: 2 },
            Warning::BigIntegers { count: 1, line: 2 },
        ];
        assert_eq!(loaded, Loaded { notebook, warnings });
    }

    #[test]
    fn a_byte_order_mark_is_no_harm() {
        let text =
            "\u{feff}{\"cells\": [], \"metadata\": {}, \"nbformat\": 4, \"nbformat_minor\": 5}";
        let expected = Loaded {
            notebook: Notebook::new(),
            warnings: Vec::new(),
        };
        assert_eq!(read_with_counter(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn what_is_not_a_notebook_is_told_with_its_place() {
        let cases: [(&[u8], &str); 15] = [
            (b"", "the file is empty"),
            (b" \n\t", "the file is empty"),
            (b"{\n \"a\xff\"", "not UTF-8 text (line 2, byte 4 of it)"),
            (
                b"print(1)\nprint(2)",
                "not JSON: expected value, at line 1, column 1: `print(1)`",
            ),
            (
                b"{\n \"cells\": [\n  {]\n }",
                "not JSON: key must be a string, at line 3, column 4: `]`",
            ),
            (
                "{\n \"é\": x}".as_bytes(),
                "not JSON: expected value, at line 2, column 7: `x}`",
            ),
            (
                b"{\"cells\": [{\"source\": \"abc",
                "not JSON: the file ends in the middle of it, in line 1",
            ),
            (
                b"{\n \"cells\": [\n<<<<<<< HEAD\n]}",
                "an unresolved merge conflict begins at line 3",
            ),
            (
                br#"{"cells": ["\ud83d\ude00 \ud83d"]}"#,
                "`\\ud83d` at line 1, column 26 is half a character",
            ),
            (b"[1]", "JSON, but not a notebook: an array"),
            (b"{}", "JSON, but not a notebook: an empty object"),
            (
                br#"{"name": "x", "version": 1}"#,
                "JSON, but not a notebook: an object without `nbformat`, with `name`, `version`",
            ),
            (
                br#"{"nbformat": 1, "cells": []}"#,
                "notebook format 1 cannot be read (known are 2, 3 and 4)",
            ),
            (
                br#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}}"#,
                "`cells` should be an array, found nothing",
            ),
            (
                br#"{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "raw"}, 3]}"#,
                "`cells[1]` should be an object, found a number",
            ),
        ];
        for (bytes, expected) in cases {
            let told = read_with_counter(bytes).unwrap_err().to_string();
            assert_eq!(told, expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
