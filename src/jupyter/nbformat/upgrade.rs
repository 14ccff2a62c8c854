//! Converts notebooks of version 2 and 3 to version 4.0 (nbformat, `v3/rwbase.py` and `v4/convert.py`). The reader adds
//! what 4.0 lacks, above all cell ids.
//!
//! Deliberately not here: version 1, which no released tool has written since 2011.

use serde_json::{Map, Value};

use super::NbformatError;
use super::read_output::malformed;

/// Converts the root of a version 2 or 3 notebook to version 4; `nbformat` is already removed. Worksheets are
/// concatenated.
pub(super) fn from_v3(mut root: Map<String, Value>) -> Result<Map<String, Value>, NbformatError> {
    let worksheets = match root.shift_remove("worksheets") {
        Some(Value::Array(worksheets)) => worksheets,
        other => {
            let path = "worksheets".to_owned();
            return Err(malformed(path, "an array", other.as_ref()));
        }
    };
    let mut cells = Vec::new();
    for (index, worksheet) in worksheets.into_iter().enumerate() {
        let found = match worksheet {
            Value::Object(mut worksheet) => worksheet.shift_remove("cells"),
            other => Some(other),
        };
        let Some(Value::Array(found)) = found else {
            let path = format!("worksheets[{index}].cells");
            return Err(malformed(path, "an array", found.as_ref()));
        };
        cells.extend(found.into_iter().map(|value| match value {
            Value::Object(fields) => Value::Object(cell(fields)),
            other => other,
        }));
    }
    root.insert("cells".to_owned(), Value::Array(cells));
    root.shift_remove("orig_nbformat");
    root.shift_remove("orig_nbformat_minor");
    if let Some(Value::Object(metadata)) = root.get_mut("metadata") {
        metadata.shift_remove("name");
    }
    Ok(root)
}

fn cell(mut fields: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = match fields.shift_remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    match fields.get("cell_type").and_then(Value::as_str) {
        Some("code") => {
            fields.shift_remove("language");
            if let Some(collapsed) = fields.shift_remove("collapsed") {
                metadata.insert("collapsed".to_owned(), collapsed);
            }
            join(&mut fields, "input");
            rename(&mut fields, "input", "source", || "".into());
            rename(&mut fields, "prompt_number", "execution_count", || {
                Value::Null
            });
            if let Some(Value::Array(outputs)) = fields.get_mut("outputs") {
                for value in outputs {
                    if let Value::Object(fields) = value {
                        output(fields);
                    }
                }
            }
        }
        Some("heading") => {
            join(&mut fields, "source");
            join(&mut fields, "rendered");
            let level = fields
                .shift_remove("level")
                .and_then(|level| level.as_u64());
            // HTML has six levels; a larger number in the file is capped.
            let level = usize::try_from(level.unwrap_or(1)).map_or(6, |level| level.min(6));
            let text = fields
                .get("source")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let words: Vec<&str> = super::write::lines(text).map(without_end).collect();
            let heading = format!("{} {}", "#".repeat(level), words.join(" "));
            fields.insert("source".to_owned(), heading.into());
            fields.insert("cell_type".to_owned(), "markdown".into());
        }
        other => {
            if other == Some("html") {
                fields.insert("cell_type".to_owned(), "markdown".into());
            }
            join(&mut fields, "source");
            join(&mut fields, "rendered");
        }
    }
    fields.insert("metadata".to_owned(), Value::Object(metadata));
    fields
}

/// The short names of MIME types in version 3.
const ALIASES: [(&str, &str); 8] = [
    ("text", "text/plain"),
    ("html", "text/html"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpeg", "image/jpeg"),
    ("latex", "text/latex"),
    ("json", "application/json"),
    ("javascript", "application/javascript"),
];

fn output(fields: &mut Map<String, Value>) {
    for name in ["text", "html", "svg", "latex", "javascript", "json"] {
        join(fields, name);
    }
    let output_type = fields.get("output_type").and_then(Value::as_str);
    match output_type.unwrap_or_default() {
        "pyout" => {
            fields.insert("output_type".to_owned(), "execute_result".into());
            rename(fields, "prompt_number", "execution_count", || Value::Null);
            gather_data(fields);
        }
        "display_data" => gather_data(fields),
        "pyerr" => drop(fields.insert("output_type".to_owned(), "error".into())),
        "stream" => rename(fields, "stream", "name", || "stdout".into()),
        _ => {}
    }
}

/// Version 3 has the representations beside the other fields; version 4 has them in an object of their own.
fn gather_data(fields: &mut Map<String, Value>) {
    let mut kept = Map::new();
    let mut data = Map::new();
    for (name, value) in std::mem::take(fields) {
        if matches!(
            name.as_str(),
            "output_type" | "execution_count" | "metadata"
        ) {
            kept.insert(name, value);
        } else {
            data.insert(name, value);
        }
    }
    to_mime(&mut data);
    // Version 3 has JSON as text. Text that is not JSON is kept as it is, so that the file can still be read.
    if let Some(Value::String(text)) = data.get("application/json")
        && let Ok(parsed) = serde_json::from_str(text)
    {
        data.insert("application/json".to_owned(), parsed);
    }
    let metadata = kept.entry("metadata").or_insert_with(|| Map::new().into());
    if let Value::Object(metadata) = metadata {
        to_mime(metadata);
    }
    kept.insert("data".to_owned(), Value::Object(data));
    *fields = kept;
}

fn to_mime(data: &mut Map<String, Value>) {
    for (alias, mime) in ALIASES {
        if let Some(value) = data.shift_remove(alias) {
            data.insert(mime.to_owned(), value);
        }
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str, default: fn() -> Value) {
    let value = fields.shift_remove(from).unwrap_or_else(default);
    fields.insert(to.to_owned(), value);
}

/// Joins an array of lines. Old files have lines with or without line ends; the first line tells which.
fn join(fields: &mut Map<String, Value>, name: &str) {
    let Some(Value::Array(lines)) = fields.get(name) else {
        return;
    };
    let Some(lines) = lines.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else {
        return;
    };
    let ends = lines
        .first()
        .is_some_and(|line| line.ends_with(['\n', '\r']));
    let text = lines.join(if ends { "" } else { "\n" });
    fields.insert(name.to_owned(), Value::String(text));
}

/// A line as returned by Python's `splitlines()`.
fn without_end(line: &str) -> &str {
    let ends = [
        '\n', '\r', '\x0b', '\x0c', '\x1c', '\x1d', '\x1e', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    line.strip_suffix("\r\n")
        .or_else(|| line.strip_suffix(ends))
        .unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn upgraded(value: &Value) -> Value {
        let root = value.as_object().unwrap().clone();
        Value::Object(from_v3(root).unwrap())
    }

    #[test]
    fn every_kind_of_cell_and_output() {
        let old = json!({
            "metadata": {"name": "old", "kept": 1},
            "worksheets": [
                {"metadata": {}, "cells": [
                    {"cell_type": "heading", "level": 2, "source": ["Two", "lines"], "metadata": {}},
                    {"cell_type": "markdown", "source": ["a\n", "b"]},
                ]},
                {"cells": [{
                    "cell_type": "code",
                    "language": "python",
                    "collapsed": true,
                    "input": ["x", "y"],
                    "prompt_number": 4,
                    "outputs": [
                        {"output_type": "stream", "stream": "stderr", "text": ["a\n"]},
                        {"output_type": "pyout", "prompt_number": 4, "text": ["4"], "png": "AA=="},
                        {"output_type": "display_data", "json": "{\"a\": 1}", "metadata": {"png": {}}},
                        {"output_type": "pyerr", "ename": "E", "evalue": "", "traceback": []},
                    ],
                }]},
            ],
        });
        let new = json!({
            "metadata": {"kept": 1},
            "cells": [
                {"cell_type": "markdown", "source": "## Two lines", "metadata": {}},
                {"cell_type": "markdown", "source": "a\nb", "metadata": {}},
                {
                    "cell_type": "code",
                    "metadata": {"collapsed": true},
                    "source": "x\ny",
                    "execution_count": 4,
                    "outputs": [
                        {"output_type": "stream", "name": "stderr", "text": "a\n"},
                        {
                            "output_type": "execute_result",
                            "execution_count": 4,
                            "metadata": {},
                            "data": {"text/plain": "4", "image/png": "AA=="},
                        },
                        {
                            "output_type": "display_data",
                            "metadata": {"image/png": {}},
                            "data": {"application/json": {"a": 1}},
                        },
                        {"output_type": "error", "ename": "E", "evalue": "", "traceback": []},
                    ],
                },
            ],
        });
        assert_eq!(upgraded(&old), new);
    }

    #[test]
    fn a_skeleton_that_is_broken() {
        let cases = [
            (json!({}), "`worksheets` should be an array, found nothing"),
            (
                json!({"worksheets": [{}]}),
                "`worksheets[0].cells` should be an array, found nothing",
            ),
            (
                json!({"worksheets": [{"cells": []}, {"cells": {}}]}),
                "`worksheets[1].cells` should be an array, found an object",
            ),
        ];
        for (value, expected) in cases {
            let root = value.as_object().unwrap().clone();
            assert_eq!(from_v3(root).unwrap_err().to_string(), expected);
        }
    }
}
