//! What we have to say ourselves of a cell that runs.

use super::Table;
use crate::kernel::execution::{ExecutionEvent, OutputEvent};

/// Remarks for one cell. Programs try again and again what is refused to them.
const REMARKS: usize = 10;

impl Table {
    /// Says `words` among the outputs of the cells that run, once for each.
    pub(in crate::kernel) fn remark(&mut self, words: &str) {
        let any_started = self.entries.iter().any(|entry| entry.started);
        for (n, entry) in self.entries.iter_mut().enumerate() {
            // The first sign that it has started may be on its way.
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
