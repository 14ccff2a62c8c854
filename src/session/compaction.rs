//! A conversation that gets too long for its model's window is compacted: first old outputs and pictures become
//! notes, then old cells become one summary.
//!
//! A compaction is a cell like any other: its text is what the model reads, and it names the cells that it replaces. So
//! the prompt stays a pure function of the transcript, the notebook keeps the whole conversation as well as its
//! compactions, and copying or shortening a transcript keeps them too. The parts that a summary must not lose are built
//! here without a model: the person's own words, the files written, the kernel's variables. Not here: when to compact,
//! and asking a model or a kernel (the agent).

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
    /// Records what the model is told about these cells; later prompts repeat it unchanged.
    pub fn tell(&mut self, cells: &[&Cell], budget: Budget<'_>) {
        for cell in cells {
            if let Some(code) = cell.code() {
                self.results
                    .insert(cell.id.clone(), told(&cell.id, code, budget));
            }
        }
    }
}

/// What the model reads about `code`, the cell `id`: the recorded result, or a new one if there is none.
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
