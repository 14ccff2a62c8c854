//! Describes changes by others to a notebook, for the model.

use std::fmt::Write as _;

use super::Change;
use crate::session::outputs::floor_boundary;
use crate::session::transcript::{Author, CellKind, Transcript};

/// Bytes of a changed cell's code that the model is shown.
const TOLD: usize = 2000;
/// Maximum changes listed one by one.
const CHANGES: usize = 20;

/// What to tell the model about others' changes; empty if there are none.
pub fn words(changes: &[Change], transcript: &Transcript) -> String {
    if changes.is_empty() {
        return String::new();
    }
    let mut words = "The user changed the notebook outside of this conversation. The cells above are the current \
                     version; changed code has not been rerun in this kernel."
        .to_owned();
    let mut deleted = 0;
    for change in changes.iter().take(CHANGES) {
        let (id, what) = match change {
            Change::Deleted { .. } => {
                deleted += 1;
                continue;
            }
            Change::Added { id } => (id, "was added"),
            Change::Edited {
                id, source: true, ..
            } => (id, "was changed"),
            Change::Edited { id, .. } => (id, "was run elsewhere and has other outputs"),
        };
        let Some(cell) = transcript.cell(id) else {
            continue;
        };
        let kind = match &cell.kind {
            CellKind::User => "A text cell of the user",
            CellKind::Note | CellKind::Reading(_) | CellKind::Compaction(_) => "A note",
            CellKind::Assistant { .. } | CellKind::Cut => "One of your text cells",
            CellKind::Code(code) if code.author == Author::Person => "A code cell of the user",
            CellKind::Code(_) => "A code cell of yours",
        };
        let kind = match cell.is_foreign() {
            true if matches!(cell.kind, CellKind::Code(_)) => "A code cell",
            true => "A text cell",
            false => kind,
        };
        let end = floor_boundary(&cell.source, TOLD);
        let shown = cell.source.get(..end).unwrap_or_default();
        let dots = if end < cell.source.len() {
            " [...]"
        } else {
            ""
        };
        let _ = write!(words, "\n- {kind} {what}. It is now:\n{shown}{dots}");
    }
    match deleted {
        0 => {}
        1 => words.push_str("\n- One cell was deleted."),
        many => {
            let _ = write!(words, "\n- {many} cells were deleted.");
        }
    }
    if let more @ 1.. = changes.len().saturating_sub(CHANGES) {
        let _ = write!(words, "\n- And {more} more changes.");
    }
    words
}

/// The number of changes of each kind, in words.
pub fn summary(changes: &[Change]) -> String {
    let count = |test: fn(&Change) -> bool| changes.iter().filter(|change| test(change)).count();
    let parts = [
        (
            count(|change| matches!(change, Change::Edited { .. })),
            "changed",
        ),
        (
            count(|change| matches!(change, Change::Added { .. })),
            "added",
        ),
        (
            count(|change| matches!(change, Change::Deleted { .. })),
            "deleted",
        ),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, what)| {
            let cells = if *count == 1 { "cell" } else { "cells" };
            format!("{count} {cells} {what}")
        })
        .collect();
    parts.join(", ")
}
