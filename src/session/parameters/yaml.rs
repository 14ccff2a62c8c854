//! YAML as papermill's users write it: values are typed as in PyYAML, which implements YAML 1.1.
//!
//! So `yes` is true and `0777` is 511. Where PyYAML's typing is surprising, this follows YAML 1.2: `1e-3` is a number,
//! and `12:30` and dates are text (as in papermill). Memory is bounded: every use of an alias counts.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use super::{ParamValue, float, int};

/// Maximum values in a document, and maximum nesting.
const VALUES: usize = 100_000;
const DEPTH: usize = 64;

/// Why a text cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// It is not YAML.
    #[error("{0}")]
    Syntax(#[from] ScanError),
    /// Names must be text.
    #[error("a name is neither text nor a number")]
    Key,
    /// Too many values: usually nested aliases or a generated file.
    #[error("it has more than {VALUES} values, or they are nested more than {DEPTH} deep")]
    TooLarge,
}

/// A list or map under construction.
enum Open {
    List(Vec<ParamValue>),
    Map(Vec<(String, ParamValue)>, Option<String>),
}

/// Parses the first document of `text`; an empty text is [`ParamValue::Null`].
///
/// # Errors
/// [`YamlError`].
pub fn parse(text: &str) -> Result<ParamValue, YamlError> {
    let mut open: Vec<(Open, usize)> = Vec::new();
    let mut anchors: HashMap<usize, ParamValue> = HashMap::new();
    let mut values = 0;
    for event in Parser::new_from_str(text) {
        let (value, anchor) = match event?.0 {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.is_some_and(|tag| tag.suffix == "str");
                let value = if style == ScalarStyle::Plain && !is_text {
                    plain(&text)
                } else {
                    ParamValue::Text(text.into_owned())
                };
                (value, anchor)
            }
            Event::Alias(anchor) => {
                let value = anchors.get(&anchor).cloned();
                (value.unwrap_or(ParamValue::Null), 0)
            }
            Event::SequenceStart(anchor, _) => {
                open.push((Open::List(Vec::new()), anchor));
                if open.len() > DEPTH {
                    return Err(YamlError::TooLarge);
                }
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push((Open::Map(Vec::new(), None), anchor));
                if open.len() > DEPTH {
                    return Err(YamlError::TooLarge);
                }
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some((Open::List(items), anchor)) => (ParamValue::List(items), anchor),
                Some((Open::Map(fields, _), anchor)) => (ParamValue::Map(merged(fields)), anchor),
                None => continue,
            },
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {
                continue;
            }
        };
        values += size(&value);
        if values > VALUES {
            return Err(YamlError::TooLarge);
        }
        if anchor > 0 {
            anchors.insert(anchor, value.clone());
        }
        match open.last_mut() {
            Some((Open::List(items), _)) => items.push(value),
            Some((Open::Map(fields, key), _)) => match key.take() {
                Some(name) => fields.push((name, value)),
                None => *key = Some(name(&value)?),
            },
            None => return Ok(value),
        }
    }
    Ok(ParamValue::Null)
}

fn name(value: &ParamValue) -> Result<String, YamlError> {
    match value {
        ParamValue::List(_) | ParamValue::Map(_) => Err(YamlError::Key),
        ParamValue::Null
        | ParamValue::Bool(_)
        | ParamValue::Int(_)
        | ParamValue::Float(_)
        | ParamValue::Text(_) => Ok(value.shown()),
    }
}

/// Counts the values inside, so that aliased values count each time they are used.
fn size(value: &ParamValue) -> usize {
    match value {
        ParamValue::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        ParamValue::Map(fields) => 1 + fields.iter().map(|(_, value)| size(value)).sum::<usize>(),
        ParamValue::Null
        | ParamValue::Bool(_)
        | ParamValue::Int(_)
        | ParamValue::Float(_)
        | ParamValue::Text(_) => 1,
    }
}

/// Among fields with one name the last wins, and `<<` adds the fields that are missing.
fn merged(fields: Vec<(String, ParamValue)>) -> Vec<(String, ParamValue)> {
    let mut all: Vec<(String, ParamValue)> = Vec::new();
    let mut inherited = Vec::new();
    for (name, value) in fields {
        match value {
            ParamValue::Map(more) if name == "<<" => inherited.extend(more),
            ParamValue::List(more) if name == "<<" => {
                for value in more {
                    if let ParamValue::Map(more) = value {
                        inherited.extend(more);
                    }
                }
            }
            value => match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => all.push((name, value)),
            },
        }
    }
    for (name, value) in inherited {
        if !all.iter().any(|(known, _)| *known == name) {
            all.push((name, value));
        }
    }
    all
}

/// Types a value without quotes.
fn plain(text: &str) -> ParamValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return ParamValue::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return ParamValue::Bool(true);
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return ParamValue::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return ParamValue::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => {
            return ParamValue::Float(f64::INFINITY);
        }
        "-.inf" | "-.Inf" | "-.INF" => return ParamValue::Float(f64::NEG_INFINITY),
        _ => {}
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let based = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)]
        .into_iter()
        .find_map(|(prefix, base)| {
            let digits = digits.strip_prefix(prefix)?.replace('_', "");
            i128::from_str_radix(&digits, base).ok().filter(|_| {
                digits
                    .bytes()
                    .next()
                    .is_some_and(|byte| byte.is_ascii_alphanumeric())
            })
        });
    if let Some(value) = based {
        let sign = if value == 0 { "" } else { sign };
        return ParamValue::Int(format!("{sign}{value}"));
    }
    // Rejects words that only Python's float() accepts.
    let starts_like_a_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    starts_like_a_number
        .then(|| int(text).or_else(|| float(text)))
        .flatten()
        .unwrap_or_else(|| ParamValue::Text(text.to_owned()))
}
