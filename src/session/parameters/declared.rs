//! The parameters that a notebook declares: the assignments in its cell tagged `parameters` (papermill's
//! `--help-notebook`).
//!
//! Scanned line by line as papermill does, without parsing the language: one assignment per line; a value over several
//! lines is joined.

use std::sync::LazyLock;

use regex::Regex;

use super::{PARAMETERS, ParamValue, has_tag};
use crate::jupyter::nbformat::Notebook;

/// A parameter that a notebook declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// Its name.
    pub name: String,
    /// Its type, if annotated.
    pub annotation: Option<String>,
    /// The code of its default.
    pub default: String,
    /// The comment after it.
    pub help: String,
}

impl Declared {
    /// Its default, if it is a number, a boolean or a quoted string, which all languages write alike.
    pub fn literal(&self) -> Option<ParamValue> {
        let text = self.default.as_str();
        for quote in ['"', '\''] {
            let inner = text
                .strip_prefix(quote)
                .and_then(|it| it.strip_suffix(quote));
            if let Some(inner) = inner {
                let is_plain = !inner.contains(['\\', quote, '$']);
                return is_plain.then(|| ParamValue::Text(inner.to_owned()));
            }
        }
        match ParamValue::typed(text) {
            ParamValue::Text(word) => matches!(&*word, "true" | "false" | "TRUE" | "FALSE")
                .then_some(ParamValue::Text(word)),
            value => Some(value),
        }
    }
}

/// `name: type = value  # type: type help`
static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"^(?:(?:val|var|let|const|my) +)?\$?(\w[\w.]*)\s*(?::\s*["']?(\w[\w\[\],\s]*)["']?\s*)?(?:=|<-)\s*(.*?);?(?:\s*(?:#|//)\s*(?:type:\s*(\S*)\s*)?(.*))?$"#,
    )
    .ok()
});

/// The parameters of `notebook`; `None` if no cell has the tag.
pub fn declared(notebook: &Notebook) -> Option<Vec<Declared>> {
    let cell = notebook
        .cells
        .iter()
        .find(|cell| has_tag(cell, PARAMETERS))?;
    let pattern = ASSIGNMENT.as_ref()?;
    let found = definitions(&cell.source).into_iter().filter_map(|line| {
        let parts = pattern.captures(&line)?;
        let part = |at: usize| parts.get(at).map(|part| part.as_str().trim().to_owned());
        Some(Declared {
            name: part(1)?,
            annotation: part(2).or_else(|| part(4)).filter(|text| !text.is_empty()),
            default: part(3)?,
            help: part(5).unwrap_or_default(),
        })
    });
    Some(found.collect())
}

/// The assignments, each joined to one line.
fn definitions(source: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in source.lines() {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || text.starts_with("//") {
            continue;
        }
        let begins = !line.starts_with(|c: char| c.is_whitespace() || ")]}".contains(c));
        match all.last_mut() {
            Some(last) if !begins => {
                // A comment counts only on the last line.
                if let Some(at) = last.find('#') {
                    last.truncate(at);
                }
                last.truncate(last.trim_end().len());
                last.push_str(text);
            }
            _ => all.push(text.to_owned()),
        }
    }
    all
}
