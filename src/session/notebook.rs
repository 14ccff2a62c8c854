//! Transcript -> notebook (nbformat 4.5), with Sponde's data under `metadata.sponde`, and reading that data back.
//!
//! Text is written as Markdown; executed code as code with its outputs and timing (in nbclient's keys). Code that a
//! person declined is tagged `skip-execution` and code that failed `raises-exception`, so that re-running the notebook
//! repeats what happened. Keys and paths of the person's home are never written. A person's cells, from a notebook that
//! the session continues, are written as they were read, and other tools' metadata on Sponde's cells stays.
//! [`super::open`] is the way back.
//!
//! A notebook has one kernel. A cell of another language is marked with its kernel (`sponde.kernel`, `sponde.language`,
//! and for VS Code's highlighting `vscode.languageId`) and also tagged `skip-execution`, which nbclient, nbconvert and
//! papermill honour; replays use [`foreign`] to run it in its own kernel. A cell magic such as `%%bash` would run
//! there, but in a new process each time: other state, other results.

use serde_json::{Map, Value, json};

use super::carried::{Carried, Shape};
use super::compaction;
use super::fold::fold;
use super::marks;
use super::transcript::{
    Author, Cell as SessionCell, CellKind, CellStatus, CodeCell, CodeStatus, Reading, Spent,
    Transcript,
};
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::kernel::Verdict;

/// The session as a notebook.
pub fn render(transcript: &Transcript) -> Notebook {
    render_from(transcript, 0)
}

/// Renders only the cells from index `first` on.
pub fn render_from(transcript: &Transcript, first: usize) -> Notebook {
    let mut notebook = Notebook::new();
    notebook.metadata = metadata(transcript);
    notebook.cells = (first..transcript.cells().len())
        .filter_map(|index| render_cell(transcript, index))
        .collect();
    let file = transcript.file();
    notebook.extra.clone_from(&file.extra);
    notebook.nbformat_minor = notebook.nbformat_minor.max(file.minor);
    notebook
}

/// The notebook's metadata. The file stores it after the cells.
pub fn metadata(transcript: &Transcript) -> Map<String, Value> {
    let file = transcript.file();
    let mut metadata = file.metadata.clone();
    if let Some(kernel) = transcript.kernel() {
        let is_the_same = metadata
            .get("kernelspec")
            .is_some_and(|spec| spec.get("name").and_then(Value::as_str) == Some(&kernel.name));
        if !is_the_same {
            metadata.insert(
                "kernelspec".to_owned(),
                json!({ "name": kernel.name, "display_name": kernel.display_name, "language": kernel.language }),
            );
        }
        let mut language_info = kernel.language_info.clone();
        if !language_info.contains_key("name") {
            language_info.insert("name".to_owned(), kernel.language.clone().into());
        }
        metadata.insert("language_info".to_owned(), Value::Object(language_info));
    }
    let mut ours = file.ours.clone();
    ours.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
    ours.insert("model".to_owned(), json!(transcript.model()));
    if let models @ [_, _, ..] = transcript.models() {
        let models: Vec<Value> = models
            .iter()
            .map(|(name, step)| json!({ "model": name, "from_step": step }))
            .collect();
        ours.insert("models".to_owned(), models.into());
    }
    ours.insert("usage".to_owned(), transcript.spent().to_json());
    if file.is_foreign {
        ours.insert("continues".to_owned(), true.into());
    }
    let cells = transcript.cells();
    let foreign: Vec<Cell> = (0..cells.len())
        .filter(|&at| cells.get(at).is_some_and(SessionCell::is_foreign))
        .filter_map(|at| render_cell(transcript, at))
        .collect();
    let last = cells.last().map(|cell| &*cell.id);
    marks::of_notebook(last, foreign.iter(), &mut ours);
    metadata.insert("sponde".to_owned(), Value::Object(ours));
    metadata
}

/// Renders the cell at `index`. The result depends only on the cell and the id of the one before it.
pub fn render_cell(transcript: &Transcript, index: usize) -> Option<Cell> {
    let cell = transcript.cells().get(index)?;
    let carried = cell.carried.as_deref();
    if let Some(Carried {
        shape: Some(shape), ..
    }) = carried
    {
        return Some(foreign_cell(cell, shape));
    }
    let (mut rendered, mut ours) = match &cell.kind {
        CellKind::User => {
            let mut ours = role("user");
            let spent = transcript.spent_on(&cell.id);
            if spent != Spent::default() {
                ours.insert("usage".to_owned(), spent.to_json());
            }
            (Cell::markdown(&cell.id, &cell.source), ours)
        }
        CellKind::Reading(reading) => reading_cell(cell, reading),
        CellKind::Assistant { step } => {
            let mut ours = role("assistant");
            ours.insert("step".to_owned(), (*step).into());
            (Cell::markdown(&cell.id, &cell.source), ours)
        }
        CellKind::Cut => (Cell::markdown(&cell.id, &cell.source), role(CUT_OFF)),
        CellKind::Note => {
            let folded = fold("Note to the model", &cell.source);
            (Cell::markdown(&cell.id, folded), role("note"))
        }
        CellKind::Compaction(compaction) => {
            let folded = fold(&compaction.title(), &cell.source);
            let ours = compaction::metadata(compaction);
            (Cell::markdown(&cell.id, folded), ours)
        }
        CellKind::Code(code) => code_cell(cell, code, transcript),
    };
    if let Some(carried) = carried {
        rendered.metadata = merged(&carried.metadata, rendered.metadata);
        rendered.attachments.clone_from(&carried.attachments);
        rendered.extra.clone_from(&carried.extra);
    }
    let before = index
        .checked_sub(1)
        .and_then(|at| transcript.cells().get(at));
    // The first cell of a reply stores what its provider needs back when the session is resumed.
    let step = cell.step();
    if let Some(native) = step.and_then(|step| transcript.native(step))
        && before.and_then(SessionCell::step) != step
    {
        ours.insert("reply".to_owned(), native.value().clone());
    }
    marks::mark(&rendered, before.map(|cell| &*cell.id), &mut ours);
    rendered
        .metadata
        .insert("sponde".to_owned(), Value::Object(ours));
    Some(rendered)
}

fn role(role: &str) -> Map<String, Value> {
    Map::from_iter([("role".to_owned(), role.into())])
}

/// What the model read, in a fence longer than any inside it, and Sponde's metadata for it.
fn reading_cell(cell: &SessionCell, reading: &Reading) -> (Cell, Map<String, Value>) {
    let Reading {
        step,
        call_id,
        answer,
        is_error,
    } = reading;
    let longest = answer.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let folded = format!(
        "<details><summary>The model read more of an output</summary>\n\n{fence}text\n{answer}\n{fence}\n\n</details>"
    );
    let mut ours = role("reading");
    ours.insert("step".to_owned(), (*step).into());
    ours.insert("call_id".to_owned(), call_id.clone().into());
    ours.insert("arguments".to_owned(), cell.source.clone().into());
    ours.insert("answer".to_owned(), answer.clone().into());
    ours.insert("is_error".to_owned(), (*is_error).into());
    (Cell::markdown(&cell.id, folded), ours)
}

/// Restores a person's cell as it was in the file.
fn foreign_cell(cell: &SessionCell, shape: &Shape) -> Cell {
    let mut rendered = match shape {
        Shape::Markdown => Cell::markdown(&cell.id, &cell.source),
        Shape::Code | Shape::Raw | Shape::Other { .. } => Cell::raw(&cell.id, &cell.source),
    };
    if let Shape::Other {
        cell_type,
        has_source,
    } = shape
    {
        rendered.kind = CellType::Other {
            cell_type: cell_type.clone(),
            has_source: *has_source,
        };
    }
    let mut metadata = Map::new();
    if let CellKind::Code(code) = &cell.kind {
        rendered.kind = CellType::Code {
            execution_count: code.count,
            outputs: code.outputs.to_notebook(),
        };
        metadata = timing(code);
    }
    if let Some(carried) = &cell.carried {
        rendered.metadata = merged(&carried.metadata, metadata);
        rendered.attachments.clone_from(&carried.attachments);
        rendered.extra.clone_from(&carried.extra);
    }
    rendered
}

/// Merges `new` into the file's metadata: times are added to other times, tags to other tags, the rest replaced.
fn merged(carried: &Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    let mut merged = carried.clone();
    for (name, value) in new {
        match (merged.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (Some(Value::Array(old)), Value::Array(new)) => {
                for value in new {
                    if !old.contains(&value) {
                        old.push(value);
                    }
                }
            }
            (_, value) => {
                merged.insert(name, value);
            }
        }
    }
    merged
}

/// Role of text from a reply that broke off.
pub const CUT_OFF: &str = "cut off";

/// When the code ran, under nbclient's keys.
fn timing(code: &CodeCell) -> Map<String, Value> {
    let mut timing = Map::new();
    if let Some(at) = &code.started {
        timing.insert("iopub.execute_input".to_owned(), at.clone().into());
        if let Some(at) = &code.finished {
            timing.insert("shell.execute_reply".to_owned(), at.clone().into());
        }
    }
    if timing.is_empty() {
        return timing;
    }
    Map::from_iter([("execution".to_owned(), Value::Object(timing))])
}

/// A code cell of the session, and Sponde's metadata for it.
fn code_cell(
    cell: &SessionCell,
    code: &CodeCell,
    transcript: &Transcript,
) -> (Cell, Map<String, Value>) {
    let (author, call_of_model) = match &code.author {
        Author::Person => ("user", None),
        Author::Model {
            step,
            call_id,
            broken,
        } => ("assistant", Some((step, call_id, broken))),
    };
    let mut ours = role(author);
    if let Some((step, call_id, _)) = call_of_model {
        ours.insert("step".to_owned(), (*step).into());
        ours.insert("call_id".to_owned(), call_id.clone().into());
    }
    ours.insert(
        "status".to_owned(),
        CellStatus::from(&code.status).as_str().into(),
    );
    if let Some(reason) = reason(&code.status) {
        ours.insert("reason".to_owned(), reason.into());
    }
    if let Some((_, _, Some(broken))) = call_of_model {
        // Not valid code, so it must not run when the notebook does.
        return (Cell::raw(&cell.id, broken), ours);
    }
    if let Some(original) = &code.original {
        ours.insert("original_source".to_owned(), original.clone().into());
    }
    if let Some(hint) = &code.hint {
        ours.insert("hint".to_owned(), hint.clone().into());
    }
    if code.pictures.iter().any(Option::is_some) {
        let files = code.pictures.iter();
        let files = files.map(|place| place.as_ref().map(|place| place.beside_notebook.clone()));
        ours.insert("pictures".to_owned(), files.collect());
    }
    if let Some(files) = &code.files {
        ours.insert("files".to_owned(), json!(files));
    }
    let mut metadata = timing(code);
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
    let ran = matches!(code.status, CodeStatus::Finished(_) | CodeStatus::Running);
    let failed = matches!(code.status, CodeStatus::Finished(Verdict::Error { .. }));
    let tags: Vec<&str> = [
        ("skip-execution", !ran || code.language.is_some()),
        // A model's mistake must not stop a replay before the cells that follow.
        ("raises-exception", failed),
    ]
    .into_iter()
    .filter_map(|(tag, holds)| holds.then_some(tag))
    .collect();
    if !tags.is_empty() {
        metadata.insert("tags".to_owned(), json!(tags));
    }
    let mut rendered = Cell::code(&cell.id, &cell.source);
    rendered.metadata = metadata;
    rendered.kind = CellType::Code {
        execution_count: code.count,
        outputs: code.outputs.to_notebook(),
    };
    (rendered, ours)
}

/// The reason for a status, where status and outputs do not show it.
fn reason(status: &CodeStatus) -> Option<String> {
    match status {
        CodeStatus::Declined(words) => words.clone(),
        CodeStatus::NotRun(reason) => Some(reason.clone()),
        CodeStatus::Finished(Verdict::KernelDied(reason)) => Some(reason.to_string()),
        CodeStatus::Proposed | CodeStatus::Running | CodeStatus::Finished(_) => None,
    }
}

/// Where a cell ran, if in another kernel than the notebook's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign<'a> {
    /// The cell's language.
    pub language: &'a str,
    /// The kernelspec's name, if known.
    pub kernel: Option<&'a str>,
}

/// Where the cell ran, if our metadata says that it ran in another kernel than the notebook's. `None` also for a cell
/// that never ran.
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

/// VS Code's identifier for the language.
fn vscode_language(language: &str) -> &str {
    match language {
        "bash" | "sh" | "zsh" => "shellscript",
        "c++" => "cpp",
        other => other,
    }
}

/// The name of a verdict in notebooks.
pub fn verdict_name(verdict: &Verdict) -> &'static str {
    CellStatus::from(verdict).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::nbformat::validate;
    use crate::session::Edit;
    use crate::session::transcript::KernelIdentity;

    /// A cell's metadata without its mark.
    fn without_mark(cell: &Cell) -> Value {
        let mut metadata = Value::Object(cell.metadata.clone());
        let ours = metadata["sponde"].as_object_mut().unwrap();
        assert!(ours.remove("saved").is_some());
        metadata
    }

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
        let metadata: Vec<Value> = notebook.cells.iter().map(without_mark).collect();
        assert_eq!(
            metadata,
            [
                json!({"sponde": {"role": "user"}}),
                json!({"sponde": {"role": "assistant", "step": 1}}),
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
            without_mark(&notebook.cells[0]),
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
