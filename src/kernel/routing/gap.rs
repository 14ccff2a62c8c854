//! What happens to executions when the connection to a gateway broke and was re-established. `actor::gap` tells when.

use super::Table;
use crate::jupyter::content::{ExecuteReply, ReplyStatus};

impl Table {
    /// The `msg_id`s of all executions.
    pub(in crate::kernel) fn ids(&self) -> Vec<String> {
        self.entries.iter().map(|entry| entry.id.clone()).collect()
    }

    /// Finishes the executions in `before`: the connection broke, the request sent after reconnecting has been
    /// answered, and they will get nothing more. One without a reply may have run completely, partly or not at all; we
    /// cannot know.
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
