//! A conversation that gets too long for its model's window is compacted: first old outputs and pictures become
//! notes, then old cells become one summary.
//!
//! A compaction is a cell like any other: its words are what the model reads, and it says which cells it stands for.
//! So the prompt stays a pure function of the transcript, the notebook keeps both the whole conversation and what
//! became of it, and whatever copies or shortens a transcript copies its compactions too. What a summary must never
//! lose is put together here without a model: the person's own words, the files written, the kernel's variables.
//! Deliberately not here: when to compact, and asking a model or a kernel (the agent).

mod files;
mod plan;
mod record;
mod rules;
mod text;

use super::summarize::{self, Budget};
use super::transcript::{Cell, CodeCell};

pub use super::sent::{SentResult, SentResults};
pub use files::written as files_written;
pub use plan::{CompactionKind, Need, Plan, Scale, plan};
pub use record::{Compaction, Measure, Writer};
pub(super) use record::{metadata, of_metadata};
pub use rules::{as_text, work_so_far};
pub use text::{Inventory, Parts, PersonWords, Variables, outputs_note, person_words, summary};

impl SentResults {
    /// The model is told about these cells now, and will be told the same from here on.
    pub fn tell(&mut self, cells: &[&Cell], budget: Budget<'_>) {
        for cell in cells {
            if let Some(code) = cell.code() {
                self.0.insert(cell.id.clone(), told(&cell.id, code, budget));
            }
        }
    }
}

/// What a model gets to read about `code`, the cell `id`: what it was told before, or what it is told first.
pub(super) fn told(id: &str, code: &CodeCell, budget: Budget<'_>) -> SentResult {
    if let Some(told) = budget.said.and_then(|said| said.of(id)) {
        return told.clone();
    }
    let (parts, is_error) = summarize::result(id, code, budget);
    SentResult {
        parts,
        is_error,
        is_folded: false,
    }
}
