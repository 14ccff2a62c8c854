//! What code does, as lines of JSON.
//!
//! Their clients split lines where Python does and decode each chunk by itself, so a line is ASCII; a blank line, a value
//! that is no JSON and an error without a traceback break them.

use std::io;
use std::time::SystemTime;

use bytes::Bytes;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};

use crate::app::sandboxes::{RunEvent, moment};
use crate::jupyter::mime::MimeBundle;

/// The fields of a result, by types.
const FIELDS: [(&str, &str); 12] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
    ("e2b/chart", "chart"),
];
/// Those that are JSON, and not text.
const JSON: [&str; 3] = ["json", "data", "chart"];

/// The line that says nothing, so that a connection that is gone is seen.
pub(super) fn keepalive() -> Bytes {
    line(&json!({ "type": "keepalive" }))
}

/// The last line.
pub(super) fn end() -> Bytes {
    line(&json!({ "type": "end_of_execution" }))
}

/// An event as a line.
pub(super) fn of(event: RunEvent, now: SystemTime) -> Bytes {
    let text =
        |kind: &str, text: String| json!({ "type": kind, "text": text, "timestamp": moment(now) });
    line(&match event {
        RunEvent::Count(count) => {
            json!({ "type": "number_of_executions", "execution_count": count })
        }
        RunEvent::Stdout(written) => text("stdout", written),
        RunEvent::Stderr(written) => text("stderr", written),
        RunEvent::Result(data, is_main) => result(&data, is_main),
        RunEvent::Error {
            name,
            value,
            traceback,
        } => json!({ "type": "error", "name": name, "value": value, "traceback": traceback }),
    })
}

fn result(data: &MimeBundle, is_main: bool) -> Value {
    let mut fields = Map::new();
    fields.insert("type".to_owned(), Value::from("result"));
    let mut extra = Map::new();
    for (mime, value) in data.iter() {
        let field = FIELDS.iter().find(|(own, _)| *own == mime);
        let Some((_, field)) = field else {
            extra.insert(mime.to_owned(), value.clone());
            continue;
        };
        let value = if JSON.contains(field) {
            value.clone()
        } else {
            match data.text_of(mime) {
                Some(text) if *field == "text" => Value::from(unquoted(&text)),
                Some(text) => Value::from(text),
                None => value.clone(),
            }
        };
        fields.insert((*field).to_owned(), value);
    }
    // The Python SDK reads other types there, the JavaScript SDK beside the known ones.
    for (mime, value) in &extra {
        fields.insert(mime.clone(), value.clone());
    }
    fields.insert("extra".to_owned(), Value::Object(extra));
    fields.insert("is_main_result".to_owned(), Value::from(is_main));
    Value::Object(fields)
}

/// Text values come without the quotes that a language shows them in.
fn unquoted(text: &str) -> &str {
    let within = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    within('\'').or_else(|| within('"')).unwrap_or(text)
}

fn line(value: &Value) -> Bytes {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Ascii);
    // A `Vec` takes everything.
    let _ = serde::Serialize::serialize(value, &mut serializer);
    bytes.push(b'\n');
    bytes.into()
}

/// JSON without a byte beyond ASCII.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut units = [0; 2];
        for c in fragment.chars() {
            if c.is_ascii() {
                writer.write_all(&[u8::try_from(c).unwrap_or(b'?')])?;
            } else {
                for unit in c.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(event: RunEvent) -> String {
        let bytes = of(event, SystemTime::UNIX_EPOCH);
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn lines_are_ascii_and_whole() {
        assert_eq!(
            told(RunEvent::Stdout(
                "h\u{e9}llo\n\u{2028}\u{85}\u{1f600}".to_owned()
            )),
            "{\"type\":\"stdout\",\"text\":\"h\\u00e9llo\\n\\u2028\\u0085\\ud83d\\ude00\",\
             \"timestamp\":\"1970-01-01T00:00:00.000000+00:00\"}\n"
        );
        assert_eq!(
            told(RunEvent::Count(2)),
            "{\"type\":\"number_of_executions\",\"execution_count\":2}\n"
        );
    }

    #[test]
    fn a_result_has_a_field_for_each_type() {
        let data = MimeBundle::text("'a'")
            .with("e2b/data", json!({"a": [1]}))
            .with("text/html", json!(["<b>", "x"]))
            .with("application/vnd.x+json", json!({"k": 1}));
        assert_eq!(
            result(&data, true),
            json!({
                "type": "result", "text": "a", "data": {"a": [1]}, "html": "<b>x",
                "application/vnd.x+json": {"k": 1}, "extra": {"application/vnd.x+json": {"k": 1}},
                "is_main_result": true,
            })
        );
        for (text, expected) in [
            ("'", "'"),
            ("\"a\"", "a"),
            ("'a\"", "'a\""),
            ("''", ""),
            ("1", "1"),
        ] {
            assert_eq!(unquoted(text), expected);
        }
    }
}
