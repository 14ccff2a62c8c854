//! A notebook without its conversation: answers and code, as if written by hand.
//!
//! Removes questions, notes, other text only for the model, replies that broke off, declined and malformed code, and
//! Sponde's metadata. Failed code is removed too, unless a later cell uses a name that only it defines: then it stays
//! without its outputs, tagged as raising.

use serde_json::{Map, Value, json};

use super::cells::{Fate, Part, part};
use crate::jupyter::mime::CHART;
use crate::jupyter::nbformat::{Cell, CellType, Notebook, Output};

/// The clean notebook.
pub(super) fn clean(notebook: &Notebook) -> Notebook {
    let mut clean = notebook.clone();
    clean.cells = Vec::new();
    for (index, cell) in notebook.cells.iter().enumerate() {
        match part(cell) {
            Part::Question
            | Part::Note
            | Part::CutOff
            | Part::Broken
            | Part::Code(Fate::Declined | Fate::NotRun)
                if cell.metadata.contains_key("sponde") => {}
            Part::Code(Fate::Failed) if cell.metadata.contains_key("sponde") => {
                let later = notebook.cells.get(index + 1..).unwrap_or_default();
                if is_needed(cell, later) {
                    clean.cells.push(without_outputs(cell));
                }
            }
            _ => clean.cells.push(cell.clone()),
        }
    }
    for cell in &mut clean.cells {
        cell.metadata.shift_remove("sponde");
        let CellType::Code { outputs, .. } = &mut cell.kind else {
            continue;
        };
        for output in outputs {
            if let Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } = output {
                data.remove(CHART);
            }
        }
    }
    clean.metadata.shift_remove("sponde");
    clean
}

fn without_outputs(cell: &Cell) -> Cell {
    let mut cell = cell.clone();
    cell.kind = CellType::Code {
        execution_count: None,
        outputs: Vec::new(),
    };
    match cell.metadata.get_mut("tags") {
        Some(Value::Array(tags)) => tags.push("raises-exception".into()),
        _ => {
            cell.metadata
                .insert("tags".to_owned(), json!(["raises-exception"]));
        }
    }
    cell
}

/// Whether a later cell that ran uses a name from this one before another cell defines it.
fn is_needed(cell: &Cell, later: &[Cell]) -> bool {
    let mut given: Map<String, Value> = names(&cell.source)
        .into_iter()
        .map(|name| (name.to_owned(), Value::Null))
        .collect();
    for cell in later {
        if part(cell) != Part::Code(Fate::Ran) {
            continue;
        }
        let again = names(&cell.source);
        let uses =
            words(&cell.source).any(|word| given.contains_key(word) && !again.contains(&word));
        if uses {
            return true;
        }
        for name in again {
            given.shift_remove(name);
        }
    }
    false
}

fn words(source: &str) -> impl Iterator<Item = &str> {
    source
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() || c == '_'))
}

/// Names that code defines at its top level, in the syntax of common languages: `a = `, `a, b = `, `a <- `, `def a`,
/// `import a as b`.
fn names(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for line in source.lines() {
        if line.starts_with([' ', '\t', '#', '@', '%', '!']) {
            continue;
        }
        let mut parts = words(line);
        match parts.next() {
            Some("def" | "class" | "function" | "let" | "const" | "var" | "async" | "val") => {
                names.extend(parts.find(|word| !matches!(*word, "def" | "function" | "mut")));
            }
            Some("import" | "from") => {
                let given = line.rsplit_once("import ").map_or("", |(_, given)| given);
                for one in given.split(',') {
                    let one = one.rsplit_once(" as ").map_or(one, |(_, name)| name);
                    names.extend(words(one).next());
                }
            }
            Some(_) => {
                let target = line
                    .split_once("<-")
                    .or_else(|| line.split_once('='))
                    .filter(|(target, value)| {
                        !value.starts_with('=')
                            && !target.ends_with(['!', '<', '>', '+', '-', '*', '/', '|', '&', '%'])
                    });
                if let Some((target, _)) = target
                    && !target.contains(['(', '[', '.', '"', '\''])
                {
                    names.extend(words(target));
                }
            }
            None => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::nbformat::Output;
    use crate::session::compaction::{Compaction, Measure, Writer};
    use crate::session::transcript::Reading;
    use crate::session::{Edit, Transcript};

    #[test]
    fn names_that_code_gives() {
        for (source, expected) in [
            (
                "a = b\nc, d = 1, 2\nif x == 1:\n    e = 2",
                vec!["a", "c", "d"],
            ),
            (
                "import pandas as pd, os.path\nfrom a.b import c as d, e",
                vec!["pd", "os", "d", "e"],
            ),
            (
                "def f(x):\n  y = 1\nasync def g(): pass\nclass C: pass",
                vec!["f", "g", "C"],
            ),
            (
                "x <- 3\nlet y = 2\nx += 1\ndf['a'] = 1\nprint(a=1)",
                vec!["x", "y"],
            ),
        ] {
            assert_eq!(names(source), expected, "{source}");
        }
    }

    #[test]
    fn answers_and_code_are_left() {
        let ours = |mut cell: Cell, role: &str, status: Option<&str>| {
            let mut ours = json!({ "role": role });
            if let Some(status) = status {
                ours["status"] = status.into();
            }
            cell.metadata.insert("sponde".to_owned(), ours);
            cell
        };
        let code = |id: &str, source: &str, status: &str| {
            let mut cell = Cell::code(id, source);
            cell.kind = CellType::Code {
                execution_count: Some(1),
                outputs: vec![Output::stream("stdout", "x")],
            };
            ours(cell, "assistant", Some(status))
        };
        let mut notebook = Notebook::new();
        notebook.metadata.insert("sponde".to_owned(), json!({}));
        notebook.cells = vec![
            Cell::markdown("title", "# T"),
            ours(Cell::markdown("q", "why?"), "user", None),
            ours(Cell::markdown("n", "files"), "note", None),
            ours(Cell::markdown("a", "because"), "assistant", None),
            ours(Cell::raw("b", "{"), "assistant", Some("not run")),
            code("typo", "df = load()\nprint(dff)", "error"),
            code("again", "df = load()\nprint(df)", "ok"),
            code("half", "x = 1\ny = 1 / 0", "error"),
            code("uses", "print(x)", "ok"),
            code("no", "rm()", "declined"),
        ];
        let clean = clean(&notebook);
        let mut half = Cell::code("half", "x = 1\ny = 1 / 0");
        half.metadata
            .insert("tags".to_owned(), json!(["raises-exception"]));
        let ran = |id: &str, source: &str| {
            let mut cell = Cell::code(id, source);
            cell.kind = CellType::Code {
                execution_count: Some(1),
                outputs: vec![Output::stream("stdout", "x")],
            };
            cell
        };
        assert_eq!(
            clean.cells,
            [
                Cell::markdown("title", "# T"),
                Cell::markdown("a", "because"),
                ran("again", "df = load()\nprint(df)"),
                half,
                ran("uses", "print(x)"),
            ]
        );
        assert!(clean.metadata.is_empty());
    }

    #[test]
    fn nothing_that_the_person_said_is_left() {
        let secret = "the merger with Acme";
        let compaction = Compaction {
            through: "a".to_owned(),
            measure: Measure::Summary {
                by: Writer::Rules,
                work: format!("# {secret}"),
            },
            before: 2,
            after: 1,
        };
        let cell = str::to_owned;
        let mut transcript = Transcript::default();
        for edit in [
            Edit::Say {
                cell: cell("u"),
                text: format!("# {secret}"),
            },
            Edit::Note {
                cell: cell("n"),
                text: secret.to_owned(),
            },
            Edit::AppendText {
                cell: cell("x"),
                step: 1,
                text: format!("# {secret}"),
            },
            Edit::CutOff {
                cell: cell("x"),
                reason: "no network".to_owned(),
            },
            Edit::AppendText {
                cell: cell("a"),
                step: 2,
                text: "An answer.".to_owned(),
            },
            Edit::Read {
                cell: cell("r"),
                arguments: secret.to_owned(),
                reading: Reading {
                    step: 2,
                    call_id: "1".to_owned(),
                    answer: format!("# {secret}"),
                    is_error: false,
                },
            },
            Edit::Compact {
                cell: cell("c"),
                text: format!("# {secret}"),
                compaction,
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        let mut notebook = crate::session::notebook::render(&transcript);
        // A role that this version does not know.
        let mut newer = Cell::markdown("f", format!("# {secret}"));
        newer
            .metadata
            .insert("sponde".to_owned(), json!({"role": "newer"}));
        notebook.cells.push(newer);
        assert_eq!(clean(&notebook).cells, [Cell::markdown("a", "An answer.")]);
        let roles: Vec<Part> = notebook.cells.iter().map(part).collect();
        assert_eq!(
            roles,
            [
                Part::Question,
                Part::Note,
                Part::CutOff,
                Part::Answer,
                Part::Note,
                Part::Note,
                Part::Note,
            ]
        );
    }
}
