//! The results of cells as they were sent to the model; they are sent again byte for byte.

use std::collections::HashMap;

use bytes::Bytes;

use super::compaction::{Compaction, Measure};
use super::transcript::Cell;
use crate::llm::types::Part;

/// The result of one code cell as sent.
#[derive(Debug, Clone, PartialEq)]
pub struct SentResult {
    /// The content of the tool result.
    pub parts: Vec<Part>,
    /// Whether the call failed.
    pub is_error: bool,
    /// Whether the outputs were reduced to a note.
    pub is_folded: bool,
}

/// Results sent so far. A result is repeated byte for byte, even if the cell changes later.
#[derive(Debug, Default)]
pub struct SentResults {
    pub(super) results: HashMap<String, SentResult>,
    /// Encoded pictures that the person gave, by the note that goes with them.
    given: HashMap<String, Vec<Bytes>>,
}

/// Bytes of given pictures that are kept; those of earlier notes are dropped for new ones.
const GIVEN: usize = 64 << 20;

impl SentResults {
    /// What was sent for a cell.
    pub fn of(&self, cell: &str) -> Option<&SentResult> {
        self.results.get(cell)
    }

    /// Forgets a cell's result, because there is more to send.
    pub fn again(&mut self, cell: &str) {
        self.results.remove(cell);
    }

    /// Cells up to the one named `through` were compacted: their pictures are dropped from memory.
    pub fn compacted(&mut self, cells: &[Cell], compaction: &Compaction) {
        for cell in cells {
            match compaction.measure {
                Measure::Summary { .. } => {
                    self.results.remove(&cell.id);
                    self.given.remove(&cell.id);
                }
                Measure::Outputs => {
                    if let Some(told) = self
                        .results
                        .get_mut(&cell.id)
                        .filter(|told| !told.is_folded)
                    {
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

    /// Forgets what was sent. Given pictures are not: another model is shown them too.
    pub fn clear(&mut self) {
        self.results.clear();
    }

    /// The person gave these pictures with a note.
    pub fn give(&mut self, note: &str, pictures: Vec<Bytes>) {
        let size = |all: &[Bytes]| all.iter().map(Bytes::len).sum::<usize>();
        let kept: usize = self.given.values().map(|all| size(all)).sum();
        if kept + size(&pictures) > GIVEN {
            self.given.clear();
        }
        self.given.insert(note.to_owned(), pictures);
    }

    /// The pictures that came with a note.
    pub fn given(&self, note: &str) -> &[Bytes] {
        self.given.get(note).map_or(&[], Vec::as_slice)
    }
}

/// Results up to this many bytes are kept whole.
const SHORT: usize = 240;
/// Bytes kept of a longer result's first and last line.
const LINE: usize = 100;

/// Reduces a result to a short note.
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
