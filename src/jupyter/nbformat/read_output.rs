//! Parses JSON into an [`Output`], and the fields that cells and outputs share.
//!
//! Invariant: nothing fails and nothing is lost: what does not fit its type is kept unchanged.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{NbformatError, Output};
use crate::jupyter::mime::{self, MimeBundle, json_type};

/// What a warning reports as found for a missing field.
pub(super) const NOTHING: &str = "nothing";

/// Called for each repaired field with its name and the type found.
pub(super) type Report<'a> = dyn FnMut(&str, &'static str) + 'a;

/// Parses one output; joins its lines.
pub(super) fn output(value: Value, report: &mut Report) -> Output {
    let Value::Object(mut fields) = value else {
        report("", json_type(&value));
        return Output::Other(value);
    };
    let Some(Value::String(output_type)) = fields.get("output_type") else {
        report(
            "output_type",
            fields.get("output_type").map_or(NOTHING, json_type),
        );
        return Output::Other(Value::Object(fields));
    };
    let read = match output_type.as_str() {
        "stream" => stream,
        "display_data" => display_data,
        "execute_result" => execute_result,
        "error" => error,
        _ => return Output::Other(Value::Object(join_unknown(fields))),
    };
    if !fits(output_type, &fields) {
        report("", "an output whose fields do not fit its type");
        return Output::Other(Value::Object(fields));
    }
    fields.shift_remove("output_type");
    read(fields, report)
}

/// Whether every field has a type that the output can hold, so that parsing loses nothing. Missing fields and null are
/// fine.
fn fits(output_type: &str, fields: &Map<String, Value>) -> bool {
    let is = |name: &str, test: fn(&Value) -> bool| {
        fields
            .get(name)
            .is_none_or(|value| value.is_null() || test(value))
    };
    match output_type {
        "stream" => is("name", Value::is_string),
        "display_data" => is("data", Value::is_object) && is("metadata", Value::is_object),
        "execute_result" => {
            is("data", Value::is_object)
                && is("metadata", Value::is_object)
                && is("execution_count", |value| as_integer(value).is_some())
        }
        "error" => is("traceback", |value| {
            value.is_string() || value.is_array() && mime::joined(value).is_some()
        }),
        _ => false,
    }
}

fn stream(mut fields: Map<String, Value>, report: &mut Report) -> Output {
    let name = if let Some(Value::String(name)) = fields.shift_remove("name") {
        name
    } else {
        report("name", NOTHING);
        "stdout".to_owned()
    };
    Output::Stream {
        name,
        text: text(fields.shift_remove("text"), "text", report),
        extra: fields,
    }
}

fn display_data(mut fields: Map<String, Value>, report: &mut Report) -> Output {
    Output::DisplayData {
        data: bundle(&mut fields, report),
        metadata: object(fields.shift_remove("metadata"), "metadata", report),
        extra: fields,
    }
}

fn execute_result(mut fields: Map<String, Value>, report: &mut Report) -> Output {
    Output::ExecuteResult {
        execution_count: count(&mut fields, report),
        data: bundle(&mut fields, report),
        metadata: object(fields.shift_remove("metadata"), "metadata", report),
        extra: fields,
    }
}

fn error(mut fields: Map<String, Value>, report: &mut Report) -> Output {
    let traceback = match fields.shift_remove("traceback") {
        Some(Value::Array(lines)) => lines
            .into_iter()
            .map(|line| text(Some(line), "traceback", report))
            .collect(),
        other => {
            report("traceback", other.as_ref().map_or(NOTHING, json_type));
            let whole = other.as_ref().and_then(Value::as_str);
            whole.map(str::to_owned).into_iter().collect()
        }
    };
    Output::Error {
        ename: text(fields.shift_remove("ename"), "ename", report),
        evalue: text(fields.shift_remove("evalue"), "evalue", report),
        traceback,
        extra: fields,
    }
}

fn bundle(fields: &mut Map<String, Value>, report: &mut Report) -> MimeBundle {
    let mut data = MimeBundle::from(object(fields.shift_remove("data"), "data", report));
    data.join_lines();
    data
}

pub(super) fn count(fields: &mut Map<String, Value>, report: &mut Report) -> Option<i64> {
    let found = match fields.shift_remove("execution_count") {
        Some(Value::Null) => return None,
        Some(value) => {
            if let Some(count) = as_integer(&value) {
                return Some(count);
            }
            json_type(&value)
        }
        None => NOTHING,
    };
    report("execution_count", found);
    None
}

/// Text as one string. Anything that is not text is converted to its JSON, so that nothing is lost.
pub(super) fn text(value: Option<Value>, name: &str, report: &mut Report) -> String {
    match value {
        Some(Value::String(text)) => text,
        Some(Value::Array(lines)) => {
            let mut whole = String::new();
            for line in lines {
                if let Value::String(line) = line {
                    whole.push_str(&line);
                } else {
                    report(name, "an array of other things than strings");
                    whole.push_str(&line.to_string());
                }
            }
            whole
        }
        None | Some(Value::Null) => {
            report(name, NOTHING);
            String::new()
        }
        Some(other) => {
            report(name, json_type(&other));
            other.to_string()
        }
    }
}

/// An object; anything else is reported and reads as empty.
pub(super) fn object(value: Option<Value>, name: &str, report: &mut Report) -> Map<String, Value> {
    match value {
        Some(Value::Object(object)) => object,
        other => {
            report(name, other.as_ref().map_or(NOTHING, json_type));
            Map::new()
        }
    }
}

/// nbformat joins the lines of `text` in unknown outputs; so do we.
fn join_unknown(mut fields: Map<String, Value>) -> Map<String, Value> {
    if let Some(value) = fields.get_mut("text")
        && let Some(Cow::Owned(text)) = mime::joined(value)
    {
        *value = Value::String(text);
    }
    fields
}

/// An integer, including one that a JavaScript tool wrote as `3.0`.
fn as_integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64()?;
        // Beyond 2^53 a float is not exact, and no kernel has counted that far.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and small, checked here"
        )]
        (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
    })
}

pub(super) fn malformed(
    path: String,
    expected: &'static str,
    found: Option<&Value>,
) -> NbformatError {
    NbformatError::Malformed {
        path,
        expected,
        found: found.map_or(NOTHING, json_type),
    }
}
