//! What becomes of executions when the connection to a gateway broke and stands again. When that is known: `actor::gap`.

use super::Table;
use crate::jupyter::content::{ExecuteReply, ReplyStatus};

impl Table {
    /// The executions there are.
    pub(in crate::kernel) fn ids(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.id.clone()).collect()
    }

    /// The connection broke, and what was asked when it stood again has been answered: those in `before` will get
    /// nothing more. Whether one without a reply ran to its end, ran in part or never came there cannot be told.
    pub(in crate::kernel) fn gap_passed(&mut self, before: &[String]) {
        for entry in &mut self.entries {
            if !before.contains(&entry.id) || (entry.reply.is_some() && entry.idle) {
                continue;
            }
            entry.reply.get_or_insert_with(|| ExecuteReply {
                status: ReplyStatus::Error,
                ename: "ConnectionLost".to_owned(),
                evalue: "the connection to the gateway broke, and with it what the kernel said about this cell: \
                    whether it ran to its end is not known"
                    .to_owned(),
                ..ExecuteReply::default()
            });
            entry.mark_lost();
        }
        self.sweep();
    }
}
