//! Writes a [`Notebook`] as the bytes of Python's `nbformat.write`: `json.dumps` with `indent=1, sort_keys=True,
//! ensure_ascii=False, separators=(",", ": ")` and a final newline.
//!
//! Invariant: a known field always wins over one of the same name in an `extra` map.

use std::fmt::Write as _;
use std::io;

use serde_json::{Map, Number, Value};

use super::{Cell, CellType, MAJOR, MINOR, Notebook, Output, TRANSIENT, TRANSIENT_CELL};
use crate::jupyter::mime;

/// Bytes to collect before a write.
const CHUNK: usize = 64 << 10;

pub(super) fn notebook(notebook: &Notebook) -> String {
    let mut text = Vec::new();
    // Writing to a vector cannot fail, and all of it is text.
    let _ = stream(notebook, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// The same in pieces: a notebook can be large.
pub(super) fn stream(notebook: &Notebook, to: &mut dyn io::Write) -> io::Result<()> {
    write(notebook, &notebook.cells, to).map(|_| ())
}

/// The text before the first cell and after the last one, as if there were cells.
pub(super) fn frame(notebook: &Notebook) -> (String, String) {
    let mut text = Vec::new();
    // As above.
    let at = write(notebook, &[], &mut text).unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    let (before, after) = text.split_at_checked(at).unwrap_or_default();
    (before.to_owned(), format!("\n {after}"))
}

/// One cell as it appears among others, with the comma after the previous one.
pub(super) fn cell(cell: &Cell, is_first: bool, to: &mut dyn io::Write) -> io::Result<()> {
    let mut writer = Writer::new(to);
    if !is_first {
        writer.out.push(',');
    }
    writer.depth = 2;
    writer.new_line();
    writer.cell(cell);
    writer.pass_on();
    writer.written
}

/// Writes a notebook with these cells, and returns the offset of the first one.
fn write(notebook: &Notebook, cells: &[Cell], to: &mut dyn io::Write) -> io::Result<usize> {
    let minor = notebook.nbformat_minor.max(MINOR);
    let known = [
        ("cells", Field::Cells(cells)),
        ("metadata", Field::Object(&notebook.metadata, &TRANSIENT)),
        ("nbformat", Field::Number(MAJOR)),
        ("nbformat_minor", Field::Number(minor)),
    ];
    let mut writer = Writer::new(to);
    writer.fields(known.into(), &notebook.extra);
    writer.out.push('\n');
    writer.pass_on();
    writer.written.map(|()| writer.cells_at)
}

/// The value of a field: our types or JSON, borrowed.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    ExecutionCount(Option<i64>),
    Text(&'a str),
    /// Text written as an array of its lines.
    Lines(&'a str),
    Strings(&'a [String]),
    Json(&'a Value),
    /// An object without some of its keys.
    Object(&'a Map<String, Value>, &'static [&'static str]),
    Bundle(&'a Map<String, Value>),
    /// An object of bundles.
    Attachments(&'a Map<String, Value>),
    Cells(&'a [Cell]),
    Outputs(&'a [Output]),
}

struct Writer<'w> {
    out: String,
    depth: usize,
    to: &'w mut dyn io::Write,
    /// The first error; nothing is written after it.
    written: io::Result<()>,
    /// Bytes already written.
    passed: usize,
    /// Offset just after the opening bracket of the cells.
    cells_at: usize,
}

impl<'w> Writer<'w> {
    fn new(to: &'w mut dyn io::Write) -> Self {
        Self {
            out: String::new(),
            depth: 0,
            to,
            written: Ok(()),
            passed: 0,
            cells_at: 0,
        }
    }

    fn pass_on(&mut self) {
        if self.written.is_ok() {
            self.written = self.to.write_all(self.out.as_bytes());
        }
        self.passed += self.out.len();
        self.out.clear();
    }

    fn cell(&mut self, cell: &Cell) {
        let mut known = vec![
            ("id", Field::Text(&cell.id)),
            ("cell_type", Field::Text(cell.kind.as_str())),
            ("metadata", Field::Object(&cell.metadata, &TRANSIENT_CELL)),
        ];
        if cell.kind.has_source() {
            known.push(("source", Field::Lines(&cell.source)));
        }
        if let Some(attachments) = &cell.attachments {
            known.push(("attachments", Field::Attachments(attachments)));
        }
        match &cell.kind {
            CellType::Code {
                execution_count,
                outputs,
            } => {
                known.push(("execution_count", Field::ExecutionCount(*execution_count)));
                known.push(("outputs", Field::Outputs(outputs)));
            }
            CellType::Markdown | CellType::Raw | CellType::Other { .. } => {}
        }
        self.fields(known, &cell.extra);
    }

    fn output(&mut self, output: &Output) {
        let (output_type, mut known, extra) = match output {
            Output::Stream { name, text, extra } => (
                "stream",
                vec![("name", Field::Text(name)), ("text", Field::Lines(text))],
                extra,
            ),
            Output::DisplayData {
                data,
                metadata,
                extra,
            } => (
                "display_data",
                vec![
                    ("data", Field::Bundle(data.as_map())),
                    ("metadata", Field::Object(metadata, &[])),
                ],
                extra,
            ),
            Output::ExecuteResult {
                execution_count,
                data,
                metadata,
                extra,
            } => (
                "execute_result",
                vec![
                    ("execution_count", Field::ExecutionCount(*execution_count)),
                    ("data", Field::Bundle(data.as_map())),
                    ("metadata", Field::Object(metadata, &[])),
                ],
                extra,
            ),
            Output::Error {
                ename,
                evalue,
                traceback,
                extra,
            } => (
                "error",
                vec![
                    ("ename", Field::Text(ename)),
                    ("evalue", Field::Text(evalue)),
                    ("traceback", Field::Strings(traceback)),
                ],
                extra,
            ),
            Output::Other(whole) => return self.json(whole),
        };
        known.push(("output_type", Field::Text(output_type)));
        self.fields(known, extra);
    }

    /// Writes an object of the known fields and the others, sorted by code point as in Python.
    fn fields<'a>(&mut self, mut known: Vec<(&'a str, Field<'a>)>, extra: &'a Map<String, Value>) {
        let ours = known.len();
        for (name, value) in extra {
            if !known[..ours].iter().any(|(field, _)| field == name) {
                known.push((name, Field::Json(value)));
            }
        }
        self.object(known);
    }

    fn object(&mut self, mut fields: Vec<(&str, Field)>) {
        fields.sort_unstable_by_key(|(name, _)| *name);
        self.items('{', '}', &fields, |writer, (name, field)| {
            writer.string(name);
            writer.out.push_str(": ");
            writer.field(*field);
        });
    }

    fn field<'a>(&mut self, field: Field<'a>) {
        match field {
            Field::Number(number) => self.display(number),
            Field::ExecutionCount(Some(count)) => self.display(count),
            Field::ExecutionCount(None) => self.out.push_str("null"),
            Field::Text(text) => self.string(text),
            Field::Lines(text) => {
                self.items('[', ']', lines(text), Self::string);
            }
            Field::Strings(strings) => {
                self.items('[', ']', strings, |writer, text| writer.string(text));
            }
            Field::Json(value) => self.json(value),
            Field::Object(object, without) => {
                let kept = object
                    .iter()
                    .filter(|(name, _)| !without.contains(&name.as_str()))
                    .map(|(name, value)| (name.as_str(), Field::Json(value)));
                self.object(kept.collect());
            }
            Field::Bundle(bundle) => {
                let split = |(mime, value): (&'a String, &'a Value)| match value {
                    Value::String(text) if is_split(mime) => (mime.as_str(), Field::Lines(text)),
                    _ => (mime.as_str(), Field::Json(value)),
                };
                self.object(bundle.iter().map(split).collect());
            }
            Field::Attachments(files) => {
                let bundles = files.iter().map(|(name, value)| match value {
                    Value::Object(bundle) => (name.as_str(), Field::Bundle(bundle)),
                    _ => (name.as_str(), Field::Json(value)),
                });
                self.object(bundles.collect());
            }
            Field::Cells(cells) => {
                self.cells_at = self.passed + self.out.len() + 1;
                self.items('[', ']', cells, Self::cell);
            }
            Field::Outputs(outputs) => self.items('[', ']', outputs, Self::output),
        }
    }

    fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.string(text),
            Value::Array(values) => self.items('[', ']', values, Self::json),
            Value::Object(object) => self.field(Field::Object(object, &[])),
        }
    }

    /// The items of an array or object, each on its own line, one space deeper. An empty one is `[]` or `{}`.
    fn items<T>(
        &mut self,
        open: char,
        close: char,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Self, T),
    ) {
        self.out.push(open);
        self.depth += 1;
        let mut is_first = true;
        for item in items {
            if !is_first {
                self.out.push(',');
            }
            is_first = false;
            self.new_line();
            write(self, item);
            if self.out.len() >= CHUNK {
                self.pass_on();
            }
        }
        self.depth -= 1;
        if !is_first {
            self.new_line();
        }
        self.out.push(close);
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', self.depth));
    }

    /// A string with the escapes of Python's `ensure_ascii=False`: quote, backslash and the control
    /// characters below 0x20, nothing else.
    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        while let Some(at) = rest
            .bytes()
            .position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))
        {
            let (plain, special) = rest.split_at(at);
            self.out.push_str(plain);
            match special.as_bytes()[0] {
                b'"' => self.out.push_str("\\\""),
                b'\\' => self.out.push_str("\\\\"),
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                0x08 => self.out.push_str("\\b"),
                0x0c => self.out.push_str("\\f"),
                control => self.display(format_args!("\\u{control:04x}")),
            }
            rest = &special[1..];
        }
        self.out.push_str(rest);
        self.out.push('"');
    }

    fn number(&mut self, number: &Number) {
        match number.as_f64() {
            Some(float) if number.is_f64() => self.out.push_str(&python_float(float)),
            _ => self.display(number),
        }
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.out, "{value}");
    }
}

/// The lines of `text` with their ends, as split by Python's `str.splitlines(True)`.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = line_end(rest);
        let (line, after) = rest.split_at(end);
        rest = after;
        Some(line)
    })
}

fn line_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        let length = match byte {
            b'\r' if bytes.get(at + 1) == Some(&b'\n') => 2,
            b'\n' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1e => 1,
            // U+0085, the next-line control.
            0xc2 if bytes.get(at + 1) == Some(&0x85) => 2,
            // U+2028 and U+2029, the line and paragraph separators.
            0xe2 if matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])) => 3,
            _ => continue,
        };
        return at + length;
    }
    text.len()
}

/// Whether a MIME type's text is written as lines (nbformat, `v4/rwbase.py`).
fn is_split(mime: &str) -> bool {
    mime.starts_with("text/") || mime == mime::APPLICATION_JAVASCRIPT || mime == mime::IMAGE_SVG
}

/// Python's `repr` of a float: the shortest digits that parse back to it, in scientific notation below 1e-4 and from
/// 1e16, with a sign and two digits in the exponent.
fn python_float(float: f64) -> String {
    let shortest = format!("{float:e}");
    let digits = shortest.bytes().take_while(|byte| *byte != b'e');
    let digits = digits.filter(u8::is_ascii_digit).count();
    // Rust's shortest digits may round a tie up (…429.625 to …429.63); Python's round it to even, as Rust does too with
    // an explicit precision.
    let scientific = format!("{float:.*e}", digits.saturating_sub(1));
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent @ -4..16) => {
            let decimals = i32::try_from(digits).unwrap_or(i32::MAX) - 1 - exponent;
            format!("{float:.*}", usize::try_from(decimals).unwrap_or(0).max(1))
        }
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
        }
        Err(_) => scientific,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jupyter::mime::MimeBundle;

    #[test]
    fn an_empty_notebook() {
        let expected = "{\n \"cells\": [],\n \"metadata\": {},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";
        assert_eq!(Notebook::new().to_json(), expected);
    }

    #[test]
    fn keys_are_sorted_and_text_is_split() {
        let mut cell = Cell::code("a", "x = 1\nx");
        let data = MimeBundle::new()
            .with("text/plain", "1\n2")
            .with("image/png", "AA\n")
            .with("application/json", json!({"b": "x\ny", "a": []}));
        cell.kind = CellType::Code {
            execution_count: Some(3),
            outputs: vec![Output::result(Some(3), data, Map::new())],
        };
        let mut notebook = Notebook::new();
        notebook.cells.push(cell);
        notebook.extra.insert("zz".to_owned(), json!({}));
        notebook.extra.insert("nbformat".to_owned(), json!(9));
        insta::assert_snapshot!(notebook.to_json(), @r#"
        {
         "cells": [
          {
           "cell_type": "code",
           "execution_count": 3,
           "id": "a",
           "metadata": {},
           "outputs": [
            {
             "data": {
              "application/json": {
               "a": [],
               "b": "x\ny"
              },
              "image/png": "AA\n",
              "text/plain": [
               "1\n",
               "2"
              ]
             },
             "execution_count": 3,
             "metadata": {},
             "output_type": "execute_result"
            }
           ],
           "source": [
            "x = 1\n",
            "x"
           ]
          }
         ],
         "metadata": {},
         "nbformat": 4,
         "nbformat_minor": 5,
         "zz": {}
        }
        "#);
    }

    #[test]
    fn the_pieces_are_the_whole() {
        let mut notebook = Notebook::new();
        notebook.extra.insert("aa".to_owned(), json!("[]"));
        notebook.extra.insert("zz".to_owned(), json!({"cells": []}));
        for number in 0..3 {
            let mut cell = Cell::code(format!("c{number}"), "x = 1\nx");
            cell.kind = CellType::Code {
                execution_count: Some(number),
                outputs: vec![Output::stream("stdout", "a".repeat(2 * CHUNK))],
            };
            notebook.cells.push(cell);
            let (before, after) = frame(&notebook);
            let mut text = before.into_bytes();
            for (at, one) in notebook.cells.iter().enumerate() {
                super::cell(one, at == 0, &mut text).unwrap();
            }
            text.extend_from_slice(after.as_bytes());
            assert!(text == notebook.to_json().into_bytes(), "{number}");
        }
    }

    #[test]
    fn transient_metadata_stays_out() {
        let mut notebook = Notebook::new();
        let mut cell = Cell::raw("a", "");
        cell.metadata.insert("trusted".to_owned(), json!(true));
        notebook.cells.push(cell);
        let plain = notebook.clone();
        for name in TRANSIENT {
            notebook.metadata.insert(name.to_owned(), json!(4));
        }
        let mut expected = plain;
        expected.cells[0].metadata.clear();
        assert_eq!(notebook.to_json(), expected.to_json());
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        let cases: [(&str, &[&str]); 8] = [
            ("", &[]),
            ("a", &["a"]),
            ("a\n", &["a\n"]),
            ("\n\na", &["\n", "\n", "a"]),
            ("a\r\nb\rc\n\rd", &["a\r\n", "b\r", "c\n", "\r", "d"]),
            (
                "a\x0bb\x0cc\x1cd\x1de\x1ef\x1fg",
                &["a\x0b", "b\x0c", "c\x1c", "d\x1d", "e\x1e", "f\x1fg"],
            ),
            (
                "a\u{85}b\u{2028}c\u{2029}d\u{2027}",
                &["a\u{85}", "b\u{2028}", "c\u{2029}", "d\u{2027}"],
            ),
            ("\u{e9}\u{105}\u{a0}", &["\u{e9}\u{105}\u{a0}"]),
        ];
        for (text, expected) in cases {
            assert_eq!(lines(text).collect::<Vec<_>>(), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_as_python_prints_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "5e-324"),
            (233_891_771_783_429.62, "233891771783429.62"),
            (-1_870_629_149_791_785.2, "-1870629149791785.2"),
            (0.0001, "0.0001"),
            (0.000_123, "0.000123"),
            (0.000_01, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
        ];
        for (float, expected) in cases {
            assert_eq!(python_float(float), expected);
        }
    }

    #[test]
    fn escapes_as_python_writes_them() {
        let mut nowhere = std::io::sink();
        let mut writer = Writer::new(&mut nowhere);
        writer.string("\"\\/\u{8}\u{c}\n\r\t\0\u{1f}\u{7f}é\u{2028}😀");
        let expected = "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}é\u{2028}😀\"";
        assert_eq!(writer.out, expected);
    }
}
