//! Transcript -> notebook (nbformat 4.5), our own data under `metadata.sponde`; and what that says about a cell.
//!
//! What was said is Markdown, what was run is code with its outputs and its timing (in nbclient's keys). Code that a
//! person declined is tagged `skip-execution`, so that re-running the notebook does what was done. Keys and paths of
//! the person's home never get in.
//!
//! A notebook has one kernel. A cell of another language is marked with its kernel (`sponde.kernel`,
//! `sponde.language`, and for VS Code's highlighting `vscode.languageId`) and tagged `skip-execution` too, which
//! nbclient, nbconvert and papermill honour; [`foreign`] tells who replays it where it belongs. A cell magic such as
//! `%%bash` would run there, but in a new process each time: other state, other results.

use serde_json::{Map, Value, json};

use super::transcript::{Author, Cell as SessionCell, CellKind, CodeCell, CodeStatus, Transcript};
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::kernel::Verdict;

/// The session as a notebook.
pub fn render(transcript: &Transcript) -> Notebook {
    let mut notebook = Notebook::new();
    notebook.metadata = metadata(transcript);
    notebook.cells = transcript
        .cells()
        .iter()
        .map(|cell| render_cell(cell, transcript))
        .collect();
    notebook
}

fn metadata(transcript: &Transcript) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(kernel) = transcript.kernel() {
        metadata.insert(
            "kernelspec".to_owned(),
            json!({ "name": kernel.name, "display_name": kernel.display_name, "language": kernel.language }),
        );
        let mut language_info = kernel.language_info.clone();
        if !language_info.contains_key("name") {
            language_info.insert("name".to_owned(), kernel.language.clone().into());
        }
        metadata.insert("language_info".to_owned(), Value::Object(language_info));
    }
    let usage = transcript.usage();
    metadata.insert(
        "sponde".to_owned(),
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "model": transcript.model(),
            "usage": { "input_tokens": usage.input, "cached_tokens": usage.cached, "output_tokens": usage.output },
        }),
    );
    metadata
}

fn render_cell(cell: &SessionCell, transcript: &Transcript) -> Cell {
    let role = |role: &str| Map::from_iter([("sponde".to_owned(), json!({ "role": role }))]);
    match &cell.kind {
        CellKind::User => with(Cell::markdown(&cell.id, &cell.source), role("user")),
        CellKind::Assistant { .. } => {
            with(Cell::markdown(&cell.id, &cell.source), role("assistant"))
        }
        CellKind::Note => {
            let folded = format!(
                "<details><summary>Note to the model</summary>\n\n```text\n{}\n```\n\n</details>",
                cell.source
            );
            with(Cell::markdown(&cell.id, folded), role("note"))
        }
        CellKind::Code(code) => code_cell(cell, code, transcript),
    }
}

fn with(mut cell: Cell, metadata: Map<String, Value>) -> Cell {
    cell.metadata = metadata;
    cell
}

fn code_cell(cell: &SessionCell, code: &CodeCell, transcript: &Transcript) -> Cell {
    let mut ours = Map::new();
    let author = match &code.author {
        Author::Person => "user",
        Author::Model {
            broken: Some(broken),
            ..
        } => {
            // Not code at all, so it must not run when the notebook does.
            let note = json!({ "role": "assistant", "status": status(&code.status) });
            return with(
                Cell::raw(&cell.id, broken),
                Map::from_iter([("sponde".to_owned(), note)]),
            );
        }
        Author::Model { .. } => "assistant",
    };
    ours.insert("role".to_owned(), author.into());
    ours.insert("status".to_owned(), status(&code.status).into());
    if let Some(original) = &code.original {
        ours.insert("original_source".to_owned(), original.clone().into());
    }
    if let Some(hint) = &code.hint {
        ours.insert("hint".to_owned(), hint.clone().into());
    }
    let mut metadata = Map::new();
    let mut timing = Map::new();
    if let Some(at) = &code.started {
        timing.insert("iopub.execute_input".to_owned(), at.clone().into());
        if let Some(at) = &code.finished {
            timing.insert("shell.execute_reply".to_owned(), at.clone().into());
        }
        metadata.insert("execution".to_owned(), Value::Object(timing));
    }
    if let Some(language) = &code.language {
        ours.insert("language".to_owned(), language.clone().into());
        let kernel = transcript
            .other_kernels()
            .iter()
            .find(|kernel| kernel.language == *language);
        if let Some(kernel) = kernel {
            ours.insert("kernel".to_owned(), kernel.name.clone().into());
        }
        let id = json!({ "languageId": vscode_language(language) });
        metadata.insert("vscode".to_owned(), id);
    }
    metadata.insert("sponde".to_owned(), Value::Object(ours));
    let ran = matches!(code.status, CodeStatus::Finished(_) | CodeStatus::Running);
    if !ran || code.language.is_some() {
        metadata.insert("tags".to_owned(), json!(["skip-execution"]));
    }
    let mut rendered = with(Cell::code(&cell.id, &cell.source), metadata);
    rendered.kind = CellType::Code {
        execution_count: code.count,
        outputs: code.outputs.to_notebook(),
    };
    rendered
}

/// A cell that ran in another kernel than the notebook's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// Its language.
    pub language: &'a str,
    /// The name of its kernelspec, if it was known.
    pub kernel: Option<&'a str>,
}

/// Whether a cell of a notebook ran in another kernel than the notebook's, as our metadata says. What never ran is
/// none.
pub fn foreign(cell: &Cell) -> Option<Foreign<'_>> {
    let ours = cell.metadata.get("sponde")?;
    let text = |key: &str| ours.get(key).and_then(Value::as_str);
    let never = matches!(text("status"), Some("declined" | "not run" | "proposed"));
    let language = text("language").filter(|_| !never)?;
    Some(Foreign {
        language,
        kernel: text("kernel"),
    })
}

/// The language's name among VS Code's language identifiers.
fn vscode_language(language: &str) -> &str {
    match language {
        "bash" | "sh" | "zsh" => "shellscript",
        "c++" => "cpp",
        other => other,
    }
}

fn status(status: &CodeStatus) -> &'static str {
    match status {
        CodeStatus::Proposed => "proposed",
        CodeStatus::Running => "running",
        CodeStatus::Finished(verdict) => verdict_name(verdict),
        CodeStatus::Declined(_) => "declined",
        CodeStatus::NotRun(_) => "not run",
    }
}

/// The word for a verdict in notebooks and events.
pub fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Error { .. } => "error",
        Verdict::Interrupted => "interrupted",
        Verdict::TimedOut => "timed out",
        Verdict::Aborted => "not run",
        Verdict::KernelDied(_) => "kernel died",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::nbformat::validate;
    use crate::session::Edit;
    use crate::session::transcript::KernelIdentity;

    #[test]
    fn a_session_is_a_valid_notebook() {
        let mut transcript = Transcript::default();
        let id = |id: &str| id.to_owned();
        for edit in [
            Edit::SetModel("local/test".to_owned()),
            Edit::SetKernel(KernelIdentity {
                name: "python3".to_owned(),
                display_name: "Python 3".to_owned(),
                language: "python".to_owned(),
                language_info: Map::new(),
            }),
            Edit::Say {
                cell: id("u"),
                text: "why?".to_owned(),
            },
            Edit::AppendText {
                cell: id("a"),
                step: 1,
                text: "because".to_owned(),
            },
            Edit::Propose {
                cell: id("c"),
                author: Author::Person,
                language: None,
                source: "1".to_owned(),
            },
            Edit::Start {
                cell: id("c"),
                at: "2026-01-01T00:00:00Z".to_owned(),
            },
            Edit::Number {
                cell: id("c"),
                count: 4,
            },
            Edit::Finish {
                cell: id("c"),
                status: CodeStatus::Finished(Verdict::Ok),
                at: "2026-01-01T00:00:01Z".to_owned(),
            },
            Edit::Propose {
                cell: id("d"),
                author: Author::Person,
                language: None,
                source: "rm()".to_owned(),
            },
            Edit::Finish {
                cell: id("d"),
                status: CodeStatus::Declined(None),
                at: String::new(),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        let notebook = render(&transcript);
        assert_eq!(validate(&notebook), []);
        let metadata: Vec<Value> = notebook
            .cells
            .iter()
            .map(|cell| Value::Object(cell.metadata.clone()))
            .collect();
        assert_eq!(
            metadata,
            [
                json!({"sponde": {"role": "user"}}),
                json!({"sponde": {"role": "assistant"}}),
                json!({
                    "execution": {
                        "iopub.execute_input": "2026-01-01T00:00:00Z",
                        "shell.execute_reply": "2026-01-01T00:00:01Z",
                    },
                    "sponde": {"role": "user", "status": "ok"},
                }),
                json!({"sponde": {"role": "user", "status": "declined"}, "tags": ["skip-execution"]}),
            ]
        );
        assert_eq!(
            notebook.metadata["language_info"],
            json!({"name": "python"})
        );
    }

    #[test]
    fn a_cell_of_another_language_is_marked_and_left_out_by_others() {
        let mut transcript = Transcript::default();
        let propose = |cell: &str| Edit::Propose {
            cell: cell.to_owned(),
            author: Author::Person,
            language: Some("bash".to_owned()),
            source: "ls".to_owned(),
        };
        let finish = |cell: &str, status| Edit::Finish {
            cell: cell.to_owned(),
            status,
            at: String::new(),
        };
        for edit in [
            propose("a"),
            Edit::AddKernel(KernelIdentity {
                name: "my-bash".to_owned(),
                display_name: "Bash".to_owned(),
                language: "bash".to_owned(),
                language_info: Map::new(),
            }),
            finish("a", CodeStatus::Finished(Verdict::Ok)),
            propose("b"),
            finish("b", CodeStatus::Declined(None)),
        ] {
            transcript.apply(edit).unwrap();
        }
        let notebook = render(&transcript);
        assert_eq!(validate(&notebook), []);
        assert_eq!(
            Value::Object(notebook.cells[0].metadata.clone()),
            json!({
                "vscode": {"languageId": "shellscript"},
                "sponde": {"role": "user", "status": "ok", "language": "bash", "kernel": "my-bash"},
                "tags": ["skip-execution"],
            })
        );
        let marks: Vec<_> = notebook.cells.iter().map(foreign).collect();
        assert_eq!(
            marks,
            [
                Some(Foreign {
                    language: "bash",
                    kernel: Some("my-bash")
                }),
                None
            ]
        );
    }
}
