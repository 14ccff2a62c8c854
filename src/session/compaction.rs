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
mod rules;
mod text;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::summarize::{self, Budget};
use super::transcript::{Cell, CodeCell};
use crate::llm::types::Part;

pub use files::written as files_written;
pub use plan::{Kind, Need, Plan, Scale, plan};
pub use rules::{as_text, work_so_far};
pub use text::{Inventory, Parts, PersonWords, Variables, outputs_note, person_words, summary};

/// What was done so that a conversation fits its model's window again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// Id of the last cell it stands for.
    pub through: String,
    /// What became of these cells.
    pub measure: Measure,
    /// Tokens of the prompt before, as estimated.
    pub before: u64,
    /// Tokens of the prompt after, as estimated.
    pub after: u64,
}

/// What becomes of old cells in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Their outputs are short notes, their pictures are gone.
    Outputs,
    /// One summary stands for all of them.
    Summary {
        /// Who wrote what was done.
        by: Writer,
        /// What was done: the part of the summary that is not put together from the transcript and the kernel.
        work: String,
    },
}

impl Compaction {
    /// For people.
    pub(super) fn title(&self) -> String {
        format!(
            "Compacted for the model: {} to {} tokens",
            self.before, self.after
        )
    }
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The model that the summary is for.
    Model,
    /// We, by rules ([`work_so_far`]).
    Rules,
}

impl Writer {
    /// Its name in notebooks and events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Rules => "rules",
        }
    }
}

/// What a model was told of a code cell.
#[derive(Debug, Clone, PartialEq)]
pub struct SentResult {
    /// The answer to the call.
    pub parts: Vec<Part>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether of its outputs there is only a note.
    pub is_folded: bool,
}

/// What a model was told of code cells: said once, it is said again byte for byte, whatever comes of them later.
#[derive(Debug, Default)]
pub struct SentResults(HashMap<String, SentResult>);

impl SentResults {
    /// What was said of a cell.
    pub fn of(&self, cell: &str) -> Option<&SentResult> {
        self.0.get(cell)
    }

    /// The model is told about these cells now, and will be told the same from here on.
    pub fn tell(&mut self, cells: &[&Cell], budget: Budget<'_>) {
        for cell in cells {
            if let Some(code) = cell.code() {
                self.0.insert(cell.id.clone(), told(&cell.id, code, budget));
            }
        }
    }

    /// There is more to be said of a cell.
    pub fn again(&mut self, cell: &str) {
        self.0.remove(cell);
    }

    /// Cells up to the one named `through` were compacted: pictures need not wait in memory any more.
    pub fn compacted(&mut self, cells: &[Cell], compaction: &Compaction) {
        for cell in cells {
            match compaction.measure {
                Measure::Summary { .. } => {
                    self.0.remove(&cell.id);
                }
                Measure::Outputs => {
                    if let Some(told) = self.0.get_mut(&cell.id).filter(|told| !told.is_folded) {
                        told.parts = folded(&told.parts);
                        told.is_folded = true;
                    }
                }
            }
            if cell.id == compaction.through {
                break;
            }
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Bytes of a result that are short enough to stay.
const SHORT: usize = 240;
/// Bytes of a longer one's first and last line that stay.
const LINE: usize = 100;

/// A result as a short note.
pub(super) fn folded(parts: &[Part]) -> Vec<Part> {
    let mut text = String::new();
    let mut pictures = 0;
    for part in parts {
        match part {
            Part::Text(more) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(more);
            }
            Part::Image { .. } => pictures += 1,
        }
    }
    if text.len() > SHORT {
        let cut = |line: &str| {
            let end = line.floor_char_boundary(LINE);
            let more = if end < line.len() { "…" } else { "" };
            format!("{}{more}", line.get(..end).unwrap_or_default())
        };
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = cut(lines.next().unwrap_or_default());
        let last = cut(lines.next_back().unwrap_or_default());
        text = format!(
            "{first}\n[{} bytes of older output left out here]\n{last}",
            text.len()
        );
    }
    if pictures > 0 {
        text.push_str("\n[older pictures left out here]");
    }
    vec![Part::Text(text.trim().to_owned())]
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

/// What a notebook says of a compaction.
pub(super) fn metadata(compaction: &Compaction) -> Map<String, Value> {
    let mut ours = Map::new();
    let mut put = |key: &str, value: Value| ours.insert(key.to_owned(), value);
    put("role", "compaction".into());
    put("through", compaction.through.clone().into());
    put("tokens_before", compaction.before.into());
    put("tokens_after", compaction.after.into());
    match &compaction.measure {
        Measure::Outputs => {
            put("measure", "outputs".into());
        }
        Measure::Summary { by, work } => {
            put("measure", "summary".into());
            put("by", by.name().into());
            put("work", work.clone().into());
        }
    }
    ours
}

/// The way back from [`metadata`].
pub(super) fn of_metadata(ours: &Value) -> Option<Compaction> {
    let text = |key: &str| ours.get(key)?.as_str();
    let number = |key: &str| ours.get(key).and_then(Value::as_u64).unwrap_or_default();
    let measure = match text("measure")? {
        "outputs" => Measure::Outputs,
        "summary" => Measure::Summary {
            by: match text("by")? {
                "model" => Writer::Model,
                _ => Writer::Rules,
            },
            work: text("work")?.to_owned(),
        },
        _ => return None,
    };
    Some(Compaction {
        through: text("through")?.to_owned(),
        measure,
        before: number("tokens_before"),
        after: number("tokens_after"),
    })
}
