//! Notebook -> transcript: the way back from [`super::notebook`].
//!
//! A notebook that Sponde wrote comes back as the conversation it was; any other becomes cells of the person, which are
//! written back unchanged. Changes that others made to our file since we wrote it are listed ([`super::marks`]), so
//! that the model can be told.

mod words;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::carried::{Carried, CarriedFile, Shape};
use super::compaction;
use super::fold::unfold;
use super::limits::{OutputFolderPath, OutputLimits};
use super::marks::is_copy;
use super::notebook::CUT_OFF;
use super::outputs::Outputs;
use super::transcript::{
    Accounts, Author, Cell, CellKind, CodeCell, CodeStatus, KernelIdentity, Reading, Restored,
    Transcript,
};
use crate::jupyter::nbformat::{self, CellType, MINOR, Notebook, Output};
use crate::kernel::{ExitReason, Verdict};

pub use super::marks::{Change, changes, is_marked};
pub use words::{summary, words};

/// A notebook as a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The conversation; its revision is 0.
    pub transcript: Transcript,
    /// Changes by others since a session wrote the notebook.
    pub changes: Vec<Change>,
    /// Whether no session wrote the notebook, or it began that way.
    pub is_foreign: bool,
}

/// Opens a notebook. Its outputs are kept in full; `limits` apply to later ones.
pub fn open(notebook: Notebook, limits: OutputLimits) -> Opened {
    let changes = changes(&notebook);
    let (cells, file, ours) = take_apart(notebook);
    let mut others: Vec<KernelIdentity> = Vec::new();
    for cell in &cells {
        if let Some(other) = other_kernel(cell)
            && !others.iter().any(|known| known.language == other.language)
        {
            others.push(other);
        }
    }
    let (accounts, natives) = Accounts::read(&ours, &cells);
    let cells: Vec<Cell> = cells.into_iter().map(|(cell, _)| cell).collect();
    let is_foreign = file.is_foreign;
    let restored = Restored {
        cells,
        // Known once the kernel has started; until then the file's metadata stands.
        kernel: None,
        others,
        models: models(&ours),
        accounts,
        natives,
        file,
    };
    Opened {
        transcript: Transcript::restored(restored, limits),
        changes,
        is_foreign,
    }
}

/// The models that answered, with the first step of each.
fn models(ours: &Map<String, Value>) -> Vec<(String, u32)> {
    let one = |entry: &Value| {
        let name = entry.get("model")?.as_str()?.to_owned();
        let step = u32::try_from(entry.get("from_step")?.as_u64()?).ok()?;
        Some((name, step))
    };
    if let Some(all) = ours.get("models").and_then(Value::as_array) {
        return all.iter().filter_map(one).collect();
    }
    let model = ours.get("model").and_then(Value::as_str);
    model.map(|name| (name.to_owned(), 1)).into_iter().collect()
}

/// Adopts changes that others made to the file: their cells in their order, then the cells we added since. Cells whose
/// code waits or runs keep their state.
pub(super) fn reload(transcript: &mut Transcript, notebook: Notebook) {
    let changes = changes(&notebook);
    let last = saved(&notebook, "last").map(str::to_owned);
    let (theirs, file, _) = take_apart(notebook);
    let ours = transcript.take_cells();
    // Others knew our cells up to the one that was last in the file they edited.
    let known = last.and_then(|last| ours.iter().position(|cell| cell.id == last));
    let known = known.map_or(0, |at| at + 1);
    let edited: HashSet<&str> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Edited { id, .. } | Change::Added { id } => Some(id.as_str()),
            Change::Deleted { .. } => None,
        })
        .collect();
    let mut rest: Vec<Option<Cell>> = ours.into_iter().map(Some).collect();
    let mut cells = Vec::with_capacity(rest.len());
    for (mut cell, _) in theirs {
        let own = rest
            .iter_mut()
            .find(|own| own.as_ref().is_some_and(|own| own.id == cell.id))
            .and_then(Option::take);
        cells.push(match own {
            Some(own) if is_live(&own) || !edited.contains(&*cell.id) => Cell {
                carried: cell.carried,
                ..own
            },
            Some(own) => {
                keep_original(&own, &mut cell);
                cell
            }
            None => cell,
        });
    }
    let later = rest.into_iter().enumerate().filter_map(|(at, cell)| {
        let cell = cell?;
        (at >= known || is_live(&cell)).then_some(cell)
    });
    cells.extend(later);
    transcript.replace(cells, file);
}

/// Whether its code waits for a decision, or runs.
fn is_live(cell: &Cell) -> bool {
    cell.code()
        .is_some_and(|code| matches!(code.status, CodeStatus::Proposed | CodeStatus::Running))
}

/// Keeps the model's code on record when a person has edited the cell.
fn keep_original(own: &Cell, theirs: &mut Cell) {
    if let (CellKind::Code(old), CellKind::Code(new)) = (&own.kind, &mut theirs.kind)
        && own.source != theirs.source
        && matches!(old.author, Author::Model { .. })
    {
        let original = old.original.as_ref().unwrap_or(&own.source);
        new.original = Some(original.clone());
    }
}

fn saved<'a>(notebook: &'a Notebook, key: &str) -> Option<&'a str> {
    notebook
        .metadata
        .get("sponde")?
        .get("saved")?
        .get(key)?
        .as_str()
}

/// Each cell with Sponde's metadata for it, then the file's other content, then Sponde's metadata for the file.
fn take_apart(notebook: Notebook) -> (Vec<(Cell, Value)>, CarriedFile, Map<String, Value>) {
    let Notebook {
        mut metadata,
        cells,
        nbformat_minor,
        extra,
    } = notebook;
    let ours = match metadata.shift_remove("sponde") {
        Some(Value::Object(ours)) => ours,
        Some(other) => {
            // This `sponde` entry is not an object, so it is kept as foreign metadata.
            metadata.insert("sponde".to_owned(), other);
            Map::new()
        }
        None => Map::new(),
    };
    let mut unknown = ours.clone();
    for known in ["version", "model", "usage", "continues", "saved"] {
        unknown.shift_remove(known);
    }
    let file = CarriedFile {
        is_foreign: ours.is_empty() || ours.contains_key("continues"),
        metadata,
        ours: unknown,
        extra,
        minor: nbformat_minor.max(MINOR),
    };
    let mut steps = Steps::default();
    let cells = cells.into_iter().map(|cell| restore(cell, &mut steps));
    (cells.collect(), file, ours)
}

/// Assigns step numbers to replies of notebooks that lack them (before 0.2).
#[derive(Default)]
struct Steps {
    last: u32,
    /// Whether the last cell was the model's text.
    spoke: bool,
}

impl Steps {
    fn of(&mut self, ours: &Value, speaks: bool) -> u32 {
        let said = ours.get("step").and_then(Value::as_u64);
        let step = match said.and_then(|step| u32::try_from(step).ok()) {
            Some(step) => step,
            None if self.spoke && !speaks => self.last,
            None => self.last + 1,
        };
        self.last = self.last.max(step);
        self.spoke = speaks;
        step
    }
}

fn restore(mut cell: nbformat::Cell, steps: &mut Steps) -> (Cell, Value) {
    let ours = match cell.metadata.get("sponde") {
        Some(ours) if ours.get("role").is_some() && !is_copy(&cell, ours) => ours.clone(),
        _ => return (foreign(cell), Value::Null),
    };
    let role = ours.get("role").and_then(Value::as_str).unwrap_or_default();
    let text = |key: &str| ours.get(key).and_then(Value::as_str).map(str::to_owned);
    let model = |steps: &mut Steps, broken| Author::Model {
        step: steps.of(&ours, false),
        call_id: text("call_id").unwrap_or_else(|| format!("call-{}", cell.id)),
        broken,
    };
    let mut source = std::mem::take(&mut cell.source);
    let kind = match (role, &mut cell.kind) {
        ("user", CellType::Markdown) => CellKind::User,
        ("assistant", CellType::Markdown) => CellKind::Assistant {
            step: steps.of(&ours, true),
        },
        (CUT_OFF, CellType::Markdown) => CellKind::Cut,
        ("note", CellType::Markdown) => {
            if let Some(inner) = unfold(&source) {
                source = inner;
            }
            CellKind::Note
        }
        ("reading", CellType::Markdown) if ours.get("arguments").is_some() => {
            source = text("arguments").unwrap_or_default();
            CellKind::Reading(Box::new(Reading {
                step: steps.of(&ours, false),
                call_id: text("call_id").unwrap_or_else(|| format!("call-{}", cell.id)),
                answer: text("answer").unwrap_or_default(),
                is_error: ours.get("is_error").and_then(Value::as_bool) == Some(true),
            }))
        }
        ("compaction", CellType::Markdown) => {
            let compaction = compaction::of_metadata(&ours);
            match (compaction, unfold(&source)) {
                (Some(compaction), Some(inner)) => {
                    source = inner;
                    CellKind::Compaction(Box::new(compaction))
                }
                _ => CellKind::Note,
            }
        }
        ("assistant", CellType::Raw) => {
            let author = model(steps, Some(std::mem::take(&mut source)));
            CellKind::Code(Box::new(code(author, &ours, &cell, Vec::new())))
        }
        ("user" | "assistant", CellType::Code { outputs, .. }) if ours.get("status").is_some() => {
            let outputs = std::mem::take(outputs);
            let author = match role {
                "user" => Author::Person,
                _ => model(steps, None),
            };
            CellKind::Code(Box::new(code(author, &ours, &cell, outputs)))
        }
        // A person turned the cell into something else.
        _ => {
            cell.source = source;
            return (foreign(cell), Value::Null);
        }
    };
    if matches!(kind, CellKind::User | CellKind::Note) {
        steps.spoke = false;
    }
    let mut metadata = cell.metadata;
    metadata.shift_remove("sponde");
    let carried = Carried {
        shape: None,
        metadata,
        attachments: cell.attachments,
        extra: cell.extra,
    };
    let cell = Cell {
        id: cell.id,
        kind,
        source,
        carried: Some(Box::new(carried)),
    };
    (cell, ours)
}

/// A session's code cell, with the state that the file records.
fn code(author: Author, ours: &Value, cell: &nbformat::Cell, outputs: Vec<Output>) -> CodeCell {
    let text = |key: &str| ours.get(key).and_then(Value::as_str).map(str::to_owned);
    let ended = "the session ended before it";
    let status = match text("status").as_deref() {
        Some("declined") => CodeStatus::Declined(text("reason")),
        Some("proposed") => CodeStatus::NotRun(ended.to_owned()),
        Some("not run") => match text("reason") {
            Some(reason) => CodeStatus::NotRun(reason),
            None => CodeStatus::Finished(Verdict::Aborted),
        },
        Some("error") => CodeStatus::Finished(raised(&outputs).unwrap_or(Verdict::Error {
            ename: String::new(),
            evalue: String::new(),
        })),
        Some("interrupted") => CodeStatus::Finished(Verdict::Interrupted),
        Some("timed out") => CodeStatus::Finished(Verdict::TimedOut),
        Some("kernel died") => CodeStatus::Finished(Verdict::KernelDied(
            text("reason").map_or(ExitReason::Unknown, ExitReason::Gone),
        )),
        Some("running") => CodeStatus::Finished(Verdict::KernelDied(ExitReason::Gone(
            "the session ended while it ran".to_owned(),
        ))),
        _ => CodeStatus::Finished(Verdict::Ok),
    };
    CodeCell {
        author,
        language: text("language"),
        status,
        count: count(cell),
        outputs: Outputs::from_notebook(outputs),
        started: timing(cell, "iopub.execute_input"),
        finished: timing(cell, "shell.execute_reply"),
        original: text("original_source"),
        hint: text("hint"),
        pictures: OutputFolderPath::read(ours.get("pictures")),
        files: ours
            .get("files")
            .and_then(|files| serde_json::from_value(files.clone()).ok()),
    }
}

/// A cell of the person.
fn foreign(cell: nbformat::Cell) -> Cell {
    let count = count(&cell);
    let started = timing(&cell, "iopub.execute_input");
    let finished = timing(&cell, "shell.execute_reply");
    let nbformat::Cell {
        id,
        kind,
        source,
        mut metadata,
        attachments,
        extra,
    } = cell;
    let is_copy = metadata
        .get("sponde")
        .is_some_and(|ours| ours.get("role").is_some());
    if is_copy {
        metadata.shift_remove("sponde");
    }
    let (shape, kind) = match kind {
        CellType::Markdown => (Shape::Markdown, CellKind::User),
        CellType::Raw => (Shape::Raw, CellKind::Note),
        CellType::Other {
            cell_type,
            has_source,
        } => {
            let shape = Shape::Other {
                cell_type,
                has_source,
            };
            (shape, CellKind::Note)
        }
        CellType::Code { outputs, .. } => {
            let status = if let Some(verdict) = raised(&outputs) {
                CodeStatus::Finished(verdict)
            } else if count.is_some() || !outputs.is_empty() {
                CodeStatus::Finished(Verdict::Ok)
            } else {
                CodeStatus::NotRun("the notebook has no output for this cell".to_owned())
            };
            let code = CodeCell {
                author: Author::Person,
                language: None,
                status,
                count,
                outputs: Outputs::from_notebook(outputs),
                started,
                finished,
                original: None,
                hint: None,
                pictures: Vec::new(),
                files: None,
            };
            (Shape::Code, CellKind::Code(Box::new(code)))
        }
    };
    let carried = Carried {
        shape: Some(shape),
        metadata,
        attachments,
        extra,
    };
    Cell {
        id,
        kind,
        source,
        carried: Some(Box::new(carried)),
    }
}

/// The error among the outputs, if any.
fn raised(outputs: &[Output]) -> Option<Verdict> {
    outputs.iter().rev().find_map(|output| match output {
        Output::Error { ename, evalue, .. } => Some(Verdict::Error {
            ename: ename.clone(),
            evalue: evalue.clone(),
        }),
        Output::Stream { .. }
        | Output::DisplayData { .. }
        | Output::ExecuteResult { .. }
        | Output::Other(_) => None,
    })
}

fn count(cell: &nbformat::Cell) -> Option<i64> {
    match &cell.kind {
        CellType::Code {
            execution_count, ..
        } => *execution_count,
        CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
    }
}

fn timing(cell: &nbformat::Cell, key: &str) -> Option<String> {
    let at = cell.metadata.get("execution")?.get(key)?.as_str()?;
    Some(at.to_owned())
}

/// The kernel of another language in which a cell ran.
fn other_kernel((_, ours): &(Cell, Value)) -> Option<KernelIdentity> {
    let text = |key: &str| ours.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("kernel")?;
    Some(KernelIdentity {
        display_name: name.clone(),
        name,
        language: text("language")?,
        language_info: Map::new(),
    })
}

#[cfg(test)]
mod tests;
