//! Parameters of a notebook, as papermill has them: typed from the command line or a file, and injected as a cell.
//!
//! Invariants: values are held as typed (integers of any size, NaN), and every value becomes code for exactly that
//! value in the kernel's language, or an error. Text is always quoted, so a value cannot inject code.
//!
//! Not here: files and the command line.

mod declared;
mod translate;
mod yaml;

use serde_json::{Map, Value, json};

use crate::jupyter::nbformat::{Cell, CellType, Notebook};
pub use declared::{Declared, declared};
pub use translate::{Untranslatable, assignments};
pub use yaml::{YamlError, parse as parse_yaml};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum ParamValue {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number of any size, in decimal digits.
    Int(String),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<ParamValue>),
    /// Values by name, in order.
    Map(Vec<(String, ParamValue)>),
}

/// Parameters by name, in the order in which they were first named.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parameters(Vec<(String, ParamValue)>);

/// Tag of the cell that declares parameters and their defaults.
pub const PARAMETERS: &str = "parameters";
/// Tag of the cell that overrides them.
pub const INJECTED: &str = "injected-parameters";

impl Parameters {
    /// Sets a parameter; a later value replaces an earlier one.
    pub fn set(&mut self, name: String, value: ParamValue) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParamValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// `text` with `{name}` replaced by the value of that parameter, as papermill does for paths. Other braces stay.
    pub fn fill(&self, text: &str) -> String {
        self.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), &value.shown())
        })
    }

    /// The placeholders in `text` that [`Parameters::fill`] would leave unfilled, each once.
    pub fn missing<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let is_name = |name: &&str| {
            let mut letters = name.chars();
            letters
                .next()
                .is_some_and(|c| c.is_alphabetic() || c == '_')
                && letters.all(|c| c.is_alphanumeric() || c == '_' || c == '.')
        };
        let mut names: Vec<&str> = Vec::new();
        for piece in text.split('{').skip(1) {
            let name = piece.split_once('}').map(|(name, _)| name).filter(is_name);
            if let Some(name) = name
                && !names.contains(&name)
                && !self.0.iter().any(|(known, _)| known == name)
            {
                names.push(name);
            }
        }
        names
    }

    /// The parameters as notebook metadata.
    fn to_json(&self) -> Value {
        let values = self.iter();
        Value::Object(
            values
                .map(|(name, value)| (name.to_owned(), value.to_json()))
                .collect(),
        )
    }
}

impl ParamValue {
    /// Types a value from the command line as papermill's `-p` does: Python's words for true, false and none, anything
    /// Python reads as a number, else text.
    pub fn typed(text: &str) -> Self {
        match text {
            "True" => Self::Bool(true),
            "False" => Self::Bool(false),
            "None" => Self::Null,
            _ => int(text)
                .or_else(|| float(text))
                .unwrap_or_else(|| Self::Text(text.to_owned())),
        }
    }

    /// From JSON.
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) if number.is_f64() => {
                Self::Float(number.as_f64().unwrap_or(f64::NAN))
            }
            Value::Number(number) => Self::Int(number.to_string()),
            Value::String(text) => Self::Text(text),
            Value::Array(values) => Self::List(values.into_iter().map(Self::from_json).collect()),
            Value::Object(fields) => Self::Map(
                fields
                    .into_iter()
                    .map(|(name, value)| (name, Self::from_json(value)))
                    .collect(),
            ),
        }
    }

    /// As JSON. A number that JSON cannot represent becomes text.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => json!(value),
            Self::Int(digits) => digits
                .parse::<i64>()
                .map(Value::from)
                .or_else(|_| digits.parse::<u64>().map(Value::from))
                .unwrap_or_else(|_| json!(digits)),
            Self::Float(value) if value.is_finite() => json!(value),
            Self::Float(value) => json!(python_float(*value)),
            Self::Text(text) => json!(text),
            Self::List(values) => values.iter().map(Self::to_json).collect(),
            Self::Map(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.to_json()))
                    .collect(),
            ),
        }
    }

    /// The value as Python prints it, for file names.
    fn shown(&self) -> String {
        match self {
            Self::Null => "None".to_owned(),
            Self::Bool(true) => "True".to_owned(),
            Self::Bool(false) => "False".to_owned(),
            Self::Int(digits) => digits.clone(),
            Self::Float(value) => python_float(*value),
            Self::Text(text) => text.clone(),
            Self::List(_) | Self::Map(_) => self.to_json().to_string(),
        }
    }
}

/// Parses what Python's `int()` accepts: digits with single underscores, a sign, surrounding space.
fn int(text: &str) -> Option<ParamValue> {
    let text = text.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = without_underscores(digits)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    Some(ParamValue::Int(if significant.is_empty() {
        "0".to_owned()
    } else {
        format!("{sign}{significant}")
    }))
}

/// Parses what Python's `float()` accepts.
fn float(text: &str) -> Option<ParamValue> {
    let text = without_underscores(text.trim())?;
    // Rust accepts the same words (`inf`, `infinity`, `nan`, in any case) and forms (`1.`, `.5`, `1e5`).
    text.parse().ok().map(ParamValue::Float)
}

/// Removes underscores; `None` if one is not between digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_digit)
    };
    let allowed = (0..bytes.len())
        .filter(|&at| bytes.get(at) == Some(&b'_'))
        .all(|at| digit(at.checked_sub(1)) && digit(Some(at + 1)));
    allowed.then(|| text.replace('_', ""))
}

/// Python's `repr` of a float.
fn python_float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let shortest = format!("{value:e}");
        let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let decimal = value.to_string();
    if decimal.contains('.') {
        decimal
    } else {
        format!("{decimal}.0")
    }
}

/// Puts a cell with `source` where papermill does: in place of an earlier injected cell, else after the cell tagged
/// `parameters`, else at the top. Returns whether one of these cells existed.
pub fn inject(
    notebook: &mut Notebook,
    source: String,
    id: String,
    parameters: &Parameters,
) -> bool {
    let mut cell = Cell::code(id, source);
    cell.metadata.insert("tags".to_owned(), json!([INJECTED]));
    let tagged = |tag: &str| notebook.cells.iter().position(|cell| has_tag(cell, tag));
    let place = match (tagged(INJECTED), tagged(PARAMETERS)) {
        (Some(at), _) => {
            notebook.cells.remove(at);
            Some(at)
        }
        (None, Some(at)) => Some(at + 1),
        (None, None) => None,
    };
    notebook.cells.insert(place.unwrap_or(0), cell);
    let papermill = notebook
        .metadata
        .entry("papermill")
        .or_insert_with(|| json!({ "default_parameters": {}, "environment_variables": {} }));
    if let Value::Object(papermill) = papermill {
        papermill.insert(PARAMETERS.to_owned(), parameters.to_json());
    }
    place.is_some()
}

/// Whether `cell` has the tag.
pub fn has_tag(cell: &Cell, tag: &str) -> bool {
    cell.metadata
        .get("tags")
        .and_then(Value::as_array)
        .is_some_and(|tags| tags.iter().any(|known| known == tag))
}

/// Hides the code of all cells, for readers of a report (papermill's `--report-mode`).
pub fn hide_code(notebook: &mut Notebook) {
    for cell in &mut notebook.cells {
        if matches!(cell.kind, CellType::Code { .. }) {
            let jupyter = cell
                .metadata
                .entry("jupyter")
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(jupyter) = jupyter {
                jupyter.insert("source_hidden".to_owned(), Value::Bool(true));
            }
        }
    }
}

#[cfg(test)]
mod tests;
