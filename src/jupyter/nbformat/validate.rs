//! The rules of the 4.5 schema that our types do not enforce and our own writer could break.
//!
//! Deliberately not here: the whole JSON schema. What the types make impossible (outputs outside code cells, text that
//! is not text) needs no rule; metadata belongs to other tools.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value};

use super::{Cell, CellType, MINOR, Notebook, Output};
use crate::jupyter::mime::{self, json_type};

/// One rule that a notebook breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where, as in `cells[3].outputs[0].data["text/plain"]`.
    pub path: String,
    /// What is wrong there.
    pub rule: Rule,
}

/// The rules of [`validate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// A cell id is 1 to 64 of `[a-zA-Z0-9-_]`.
    CellIdForm,
    /// A cell id is unique.
    CellIdUnique,
    /// An execution count is not negative.
    ExecutionCount,
    /// A MIME value is text, unless its type is JSON; some metadata are objects.
    WrongType {
        /// The JSON type found.
        found: &'static str,
    },
    /// A field that 4.5 does not define.
    UnknownField,
    /// A type of cell or output that 4.5 does not define.
    UnknownType,
    /// Required in this object: `name` in `language_info`, `name` and `display_name` in
    /// `kernelspec`.
    Missing {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`: ", self.path)?;
        match self.rule {
            Rule::CellIdForm => write!(out, "a cell id has 1 to 64 letters, digits, `-` and `_`"),
            Rule::CellIdUnique => write!(out, "another cell has the same id"),
            Rule::ExecutionCount => write!(out, "an execution count is not negative"),
            Rule::WrongType { found } => write!(out, "of the wrong type: {found}"),
            Rule::UnknownField => write!(out, "not a field of this format"),
            Rule::UnknownType => write!(out, "not a type of this format"),
            Rule::Missing { field } => write!(out, "lacks `{field}`"),
        }
    }
}

/// Everything in `notebook` that the types allow but a strict reader would refuse. Empty if it is valid.
pub fn validate(notebook: &Notebook) -> Vec<Problem> {
    let mut found = Validation {
        // What 4.5 does not define may be valid in a newer version.
        newer: notebook.nbformat_minor > MINOR,
        problems: Vec::new(),
    };
    found.unknown("", &notebook.extra);
    found.required(&notebook.metadata, "kernelspec", &["name", "display_name"]);
    found.required(&notebook.metadata, "language_info", &["name"]);
    let mut seen = HashSet::new();
    for (index, cell) in notebook.cells.iter().enumerate() {
        let path = format!("cells[{index}]");
        if !is_cell_id(&cell.id) {
            found.add(format!("{path}.id"), Rule::CellIdForm);
        } else if !seen.insert(cell.id.as_str()) {
            found.add(format!("{path}.id"), Rule::CellIdUnique);
        }
        found.cell(&path, cell);
    }
    found.problems
}

/// Whether `id` has the form of a cell id (JEP 62).
pub fn is_cell_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=64).contains(&id.len()) && id.bytes().all(allowed)
}

struct Validation {
    newer: bool,
    problems: Vec<Problem>,
}

impl Validation {
    fn add(&mut self, path: String, rule: Rule) {
        self.problems.push(Problem { path, rule });
    }

    fn cell(&mut self, path: &str, cell: &Cell) {
        self.unknown(path, &cell.extra);
        for (name, value) in cell.attachments.iter().flatten() {
            let path = format!("{path}.attachments[{name:?}]");
            match value {
                Value::Object(bundle) => self.bundle(&path, bundle),
                other => self.add(
                    path,
                    Rule::WrongType {
                        found: json_type(other),
                    },
                ),
            }
        }
        match &cell.kind {
            CellType::Code {
                execution_count,
                outputs,
            } => {
                self.count(path, *execution_count);
                if cell.attachments.is_some() {
                    self.add(format!("{path}.attachments"), Rule::UnknownField);
                }
                for (index, output) in outputs.iter().enumerate() {
                    self.output(&format!("{path}.outputs[{index}]"), output);
                }
            }
            CellType::Markdown | CellType::Raw => {}
            CellType::Other { .. } => self.unknown_type(path),
        }
    }

    fn output(&mut self, path: &str, output: &Output) {
        match output {
            Output::Stream { extra, .. } | Output::Error { extra, .. } => {
                self.unknown(path, extra);
            }
            Output::DisplayData { data, extra, .. } => {
                self.bundle(&format!("{path}.data"), data.as_map());
                self.unknown(path, extra);
            }
            Output::ExecuteResult {
                execution_count,
                data,
                extra,
                ..
            } => {
                self.count(path, *execution_count);
                self.bundle(&format!("{path}.data"), data.as_map());
                self.unknown(path, extra);
            }
            Output::Other(_) => self.unknown_type(path),
        }
    }

    fn bundle(&mut self, path: &str, bundle: &Map<String, Value>) {
        for (mime, value) in bundle {
            if !mime::is_json(mime) && mime::joined(value).is_none() {
                let found = json_type(value);
                self.add(format!("{path}[{mime:?}]"), Rule::WrongType { found });
            }
        }
    }

    fn count(&mut self, path: &str, count: Option<i64>) {
        if count.is_some_and(|count| count < 0) {
            self.add(format!("{path}.execution_count"), Rule::ExecutionCount);
        }
    }

    fn required(
        &mut self,
        metadata: &Map<String, Value>,
        name: &str,
        fields: &'static [&'static str],
    ) {
        let path = format!("metadata.{name}");
        match metadata.get(name) {
            None => {}
            Some(Value::Object(object)) => {
                for field in fields {
                    if !object.contains_key(*field) {
                        self.add(path.clone(), Rule::Missing { field });
                    }
                }
            }
            Some(other) => {
                let found = json_type(other);
                self.add(path, Rule::WrongType { found });
            }
        }
    }

    fn unknown(&mut self, path: &str, extra: &Map<String, Value>) {
        if self.newer {
            return;
        }
        let dot = if path.is_empty() { "" } else { "." };
        for name in extra.keys() {
            self.add(format!("{path}{dot}{name}"), Rule::UnknownField);
        }
    }

    fn unknown_type(&mut self, path: &str) {
        if !self.newer {
            self.add(path.to_owned(), Rule::UnknownType);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jupyter::mime::MimeBundle;

    #[test]
    fn a_good_notebook_has_no_problems() {
        let mut notebook = Notebook::new();
        notebook.metadata.insert(
            "kernelspec".to_owned(),
            json!({"name": "python3", "display_name": "Python 3"}),
        );
        notebook.cells = vec![Cell::code("a-1_B", "1"), Cell::markdown("b", "# 1")];
        assert_eq!(validate(&notebook), []);
    }

    #[test]
    fn every_rule() {
        let mut notebook = Notebook::new();
        notebook.extra.insert("new".to_owned(), json!(1));
        notebook
            .metadata
            .insert("kernelspec".to_owned(), json!({"name": "x"}));
        notebook
            .metadata
            .insert("language_info".to_owned(), json!(3));
        let mut code = Cell::code("a", "");
        code.kind = CellType::Code {
            execution_count: Some(-1),
            outputs: vec![
                Output::display(
                    MimeBundle::new()
                        .with("text/plain", json!({}))
                        .with("application/json", json!({})),
                    Map::new(),
                ),
                Output::Other(json!({"output_type": "new"})),
            ],
        };
        notebook.cells = vec![code, Cell::raw("a", ""), Cell::raw("a b", "")];
        notebook.cells.push(Cell::raw("x".repeat(65), ""));
        let told: Vec<String> = validate(&notebook).iter().map(Problem::to_string).collect();
        let expected = [
            "`new`: not a field of this format",
            "`metadata.kernelspec`: lacks `display_name`",
            "`metadata.language_info`: of the wrong type: a number",
            "`cells[0].execution_count`: an execution count is not negative",
            "`cells[0].outputs[0].data[\"text/plain\"]`: of the wrong type: an object",
            "`cells[0].outputs[1]`: not a type of this format",
            "`cells[1].id`: another cell has the same id",
            "`cells[2].id`: a cell id has 1 to 64 letters, digits, `-` and `_`",
            "`cells[3].id`: a cell id has 1 to 64 letters, digits, `-` and `_`",
        ];
        assert_eq!(told, expected);
    }
}
