//! The role of a notebook's cell in a conversation, from Sponde's metadata, or its cell type in any other notebook.

use serde_json::Value;

use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::session::notebook::{CUT_OFF, foreign};

/// The role of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The person's text.
    Question,
    /// The model's text.
    Answer,
    /// Text only for the model: a note, a part of an output, a summary of older cells.
    Note,
    /// The beginning of a reply that broke off.
    CutOff,
    /// Markdown of an ordinary notebook.
    Text,
    /// Code.
    Code(Fate),
    /// A malformed call by the model.
    Broken,
    /// A raw cell.
    Raw,
}

/// The outcome of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It ran.
    Ran,
    /// It ran and failed, was stopped, or its kernel died.
    Failed,
    /// The person declined it.
    Declined,
    /// It did not run for another reason.
    NotRun,
}

/// The role of a cell.
pub(super) fn part(cell: &Cell) -> Part {
    let role = text(cell, "role");
    match (&cell.kind, role) {
        (CellType::Markdown, Some("user")) => Part::Question,
        (CellType::Markdown, Some("assistant")) => Part::Answer,
        (CellType::Markdown, Some(CUT_OFF)) => Part::CutOff,
        // An unknown role from a newer version is not document text either: it may contain what a person said.
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

/// A string from Sponde's metadata of a cell.
pub(super) fn text<'c>(cell: &'c Cell, key: &str) -> Option<&'c str> {
    cell.metadata.get("sponde")?.get(key)?.as_str()
}

/// Whether other programs skip the cell when they run the notebook.
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

/// The title shown above a note.
pub(super) fn note_title(cell: &Cell) -> &'static str {
    match text(cell, "role") {
        Some("compaction") => "Older cells, compacted for the model",
        Some("reading") => "The model read more of an output",
        _ => "Note to the model",
    }
}

/// The text of a note, unfolded.
pub(super) fn note_text(cell: &Cell) -> &str {
    let text = cell
        .source
        .split_once("```text\n")
        .map_or(&*cell.source, |(_, text)| text);
    text.rsplit_once("\n```").map_or(text, |(text, _)| text)
}
