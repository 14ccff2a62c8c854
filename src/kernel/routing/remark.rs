//! Our own remarks about running cells.

use super::Table;
use crate::kernel::execution::{ExecutionEvent, OutputEvent};

/// Most remarks for one cell. Programs retry again and again what is refused.
const REMARKS: usize = 10;

impl Table {
    /// Adds `words` to the outputs of the running cells, once for each.
    pub(in crate::kernel) fn remark(&mut self, words: &str) {
        let any_started = self.entries.iter().any(|entry| entry.started);
        for (n, entry) in self.entries.iter_mut().enumerate() {
            // The first sign of its start may be in flight.
            let is_meant = entry.started || (n == 0 && !any_started);
            if is_meant
                && entry.remarks.len() < REMARKS
                && !entry.remarks.iter().any(|it| it == words)
            {
                entry.remarks.push(words.to_owned());
                entry.send(ExecutionEvent::Output(OutputEvent::Lost(words.to_owned())));
            }
        }
    }
}
