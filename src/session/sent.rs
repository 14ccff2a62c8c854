//! What the model was sent of the results of cells: sent once, it is sent again byte for byte.

use std::collections::HashMap;

use super::compaction::{Compaction, Measure};
use super::transcript::Cell;
use crate::llm::types::Part;

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
pub struct SentResults(pub(super) HashMap<String, SentResult>);

impl SentResults {
    /// What was said of a cell.
    pub fn of(&self, cell: &str) -> Option<&SentResult> {
        self.0.get(cell)
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
