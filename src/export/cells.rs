//! What a cell of a notebook is in a conversation, read from our metadata; of a notebook that is not ours, what it is.

use serde_json::Value;

use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::session::notebook::{CUT_OFF, foreign};

/// What a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The person's words.
    Question,
    /// The model's words.
    Answer,
    /// What only the model reads: a note, a part of an output, what stands for older cells.
    Note,
    /// The beginning of a reply that broke off.
    CutOff,
    /// Text of a notebook.
    Text,
    /// Code.
    Code(Fate),
    /// A call of the model that was none.
    Broken,
    /// Neither text nor code.
    Raw,
}

/// What became of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ran.
    Ran,
    /// It ran and failed, was stopped, or its kernel died.
    Failed,
    /// A person said no.
    Declined,
    /// It did not run for another reason.
    NotRun,
}

/// What a cell is.
pub(super) fn part(cell: &Cell) -> Part {
    let role = text(cell, "role");
    match (&cell.kind, role) {
        (CellType::Markdown, Some("user")) => Part::Question,
        (CellType::Markdown, Some("assistant")) => Part::Answer,
        (CellType::Markdown, Some(CUT_OFF)) => Part::CutOff,
        // A role that a newer version has is no text of a document either: it may hold what a person said.
        (CellType::Markdown, Some(_)) => Part::Note,
        (CellType::Markdown, None) => Part::Text,
        (CellType::Raw, Some("assistant")) => Part::Broken,
        (CellType::Raw | CellType::Other { .. }, _) => Part::Raw,
        (CellType::Code { outputs, .. }, _) => Part::Code(match text(cell, "status") {
            Some("declined") => Fate::Declined,
            Some("not run" | "proposed") => Fate::NotRun,
            Some("ok" | "running") => Fate::Ran,
            Some(_) => Fate::Failed,
            None if is_skipped(cell) => Fate::NotRun,
            None if outputs
                .iter()
                .any(|output| matches!(output, crate::jupyter::nbformat::Output::Error { .. })) =>
            {
                Fate::Failed
            }
            None => Fate::Ran,
        }),
    }
}

/// A text of our metadata of a cell.
pub(super) fn text<'c>(cell: &'c Cell, key: &str) -> Option<&'c str> {
    cell.metadata.get("sponde")?.get(key)?.as_str()
}

/// Whether others leave the cell out when they run the notebook.
pub(super) fn is_skipped(cell: &Cell) -> bool {
    has_tag(cell, "skip-execution") && foreign(cell).is_none()
}

pub(super) fn has_tag(cell: &Cell, tag: &str) -> bool {
    cell.metadata
        .get("tags")
        .and_then(Value::as_array)
        .is_some_and(|tags| tags.iter().any(|one| one == tag))
}

/// The notebook's language, in lower case.
pub(super) fn language(notebook: &Notebook) -> String {
    ["language_info", "kernelspec"]
        .iter()
        .zip(["name", "language"])
        .find_map(|(object, key)| notebook.metadata.get(*object)?.get(key)?.as_str())
        .unwrap_or("python")
        .to_lowercase()
}

/// The language of a cell: its own, or the notebook's.
pub(super) fn language_of<'c>(cell: &'c Cell, notebooks: &'c str) -> &'c str {
    text(cell, "language").unwrap_or(notebooks)
}

/// What a note is, above its text.
pub(super) fn note_title(cell: &Cell) -> &'static str {
    match text(cell, "role") {
        Some("compaction") => "Older cells, compacted for the model",
        Some("reading") => "The model read more of an output",
        _ => "Note to the model",
    }
}

/// The text of a note, without its folding.
pub(super) fn note_text(cell: &Cell) -> &str {
    let text = cell
        .source
        .split_once("```text\n")
        .map_or(&*cell.source, |(_, text)| text);
    text.rsplit_once("\n```").map_or(text, |(text, _)| text)
}
