//! Detects whether messages were lost when a connection broke.
//!
//! A Jupyter server buffers what a kernel sends while no client is connected, but loses what it was just sending.
//! Kernels built on `jupyter_client.session` (ipykernel and most others in Python) number their messages: `msg_id` ends
//! with a count. So when a cell that ran during the break is over, every number since the last one before the break
//! must have been seen. Replies to the kernel's other clients are numbered too and never reach us; they look like a
//! loss, which is the safe error.

use std::collections::BTreeSet;

use crate::jupyter::content::{Content, ExecutionState};
use crate::jupyter::message::{Channel, Message};

/// Most missing numbers to track; if more are missing, the kernel does not count its messages.
const MOST: u64 = 10_000;

/// The numbers of one kernel's messages.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The part before the count.
    prefix: String,
    last: Option<u64>,
    watch: Option<Watch>,
}

/// From a break until the last cell that ran then has ended.
#[derive(Debug)]
struct Watch {
    missing: BTreeSet<u64>,
    /// Cells that ran when the connection broke: `msg_id`, whether the reply was seen, and the number of `idle`.
    cells: Vec<(String, bool, Option<u64>)>,
}

impl Numbers {
    /// The connection broke; `cells` are those that ran or waited.
    pub(super) fn broke(&mut self, cells: Vec<String>) {
        if cells.is_empty() || self.last.is_none() {
            return;
        }
        let missing = self.watch.take().map(|watch| watch.missing);
        self.watch = Some(Watch {
            missing: missing.unwrap_or_default(),
            cells: cells.into_iter().map(|id| (id, false, None)).collect(),
        });
    }

    /// Records a message. Returns `true` if it ends a cell whose messages were partly lost.
    pub(super) fn see(&mut self, channel: Channel, message: &Message) -> bool {
        let Some((prefix, number)) = numbered(&message.header.msg_id) else {
            return false;
        };
        if prefix != self.prefix {
            // Sent by another process, for example the server itself.
            if self.last.is_none() {
                prefix.clone_into(&mut self.prefix);
                self.last = Some(number);
            }
            return false;
        }
        let last = self.last.unwrap_or(number);
        self.last = Some(last.max(number));
        let Some(watch) = &mut self.watch else {
            return false;
        };
        let leap = number.saturating_sub(last);
        if leap.saturating_add(watch.missing.len() as u64) > MOST {
            self.watch = None;
            return false;
        }
        watch.missing.extend(last.saturating_add(1)..number);
        watch.missing.remove(&number);
        let Some(parent) = message.parent_id() else {
            return false;
        };
        let Some(at) = watch.cells.iter().position(|(id, ..)| id == parent) else {
            return false;
        };
        let Some((_, replied, idle)) = watch.cells.get_mut(at) else {
            return false;
        };
        match (channel, &message.content) {
            (Channel::Shell, Content::ExecuteReply(_)) => *replied = true,
            (Channel::IoPub, Content::Status(ExecutionState::Idle)) => *idle = Some(number),
            _ => {}
        }
        let (true, Some(end)) = (*replied, *idle) else {
            return false;
        };
        watch.cells.remove(at);
        let incomplete = watch.missing.range(..end).next().is_some();
        // Reported once; the next cell is charged only with later losses.
        watch.missing = watch.missing.split_off(&end);
        if watch.cells.is_empty() {
            self.watch = None;
        }
        incomplete
    }
}

/// `msg_id` as `jupyter_client.session` makes it: `<session>_<pid>_<count>`.
fn numbered(id: &str) -> Option<(&str, u64)> {
    let (prefix, number) = id.rsplit_once('_')?;
    Some((prefix, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::{ExecuteReply, Stream};
    use crate::jupyter::message::Header;

    fn message(id: &str, content: Content) -> Message {
        let parent = Header {
            msg_id: "cell".to_owned(),
            ..Header::default()
        };
        let mut message = Message::request(content, "s", "u", String::new()).answering(parent);
        id.clone_into(&mut message.header.msg_id);
        message
    }

    /// Replays one cell: outputs with these numbers after a break that followed number 10, then the end.
    fn cell(numbers: &[&str], reply: &str, idle: &str) -> bool {
        let mut kernel = Numbers::default();
        let output = |id| message(id, Content::Stream(Stream::default()));
        assert!(!kernel.see(Channel::IoPub, &output("k_1_10")));
        kernel.broke(vec!["cell".to_owned()]);
        for id in numbers {
            assert!(!kernel.see(Channel::IoPub, &output(id)));
        }
        let idle = message(idle, Content::Status(ExecutionState::Idle));
        let reply = message(reply, Content::ExecuteReply(ExecuteReply::default()));
        let first = kernel.see(Channel::IoPub, &idle);
        let second = kernel.see(Channel::Shell, &reply);
        assert!(!(first && second));
        first || second
    }

    #[test]
    fn a_number_that_never_came_is_a_loss() {
        let cases: [(&[&str], &str, &str, bool); 7] = [
            (&["k_1_11", "k_1_12"], "k_1_13", "k_1_14", false),
            (&["k_1_11", "k_1_13"], "k_1_14", "k_1_15", true),
            (&["k_1_12"], "k_1_13", "k_1_14", true),
            (&[], "k_1_11", "k_1_12", false),
            (&[], "k_1_12", "k_1_13", true),
            // A message of the server itself, and a kernel that was restarted.
            (&["k_1_11", "server_7_99"], "k_1_12", "k_1_13", false),
            (&["4711-uuid"], "another", "third", false),
        ];
        for (numbers, reply, idle, lost) in cases {
            assert_eq!(
                cell(numbers, reply, idle),
                lost,
                "{numbers:?} {reply} {idle}"
            );
        }
    }

    #[test]
    fn a_leap_is_no_count() {
        assert!(!cell(
            &["k_1_4000000000"],
            "k_1_4000000001",
            "k_1_4000000002"
        ));
        assert!(!cell(&["k_1_18446744073709551615"], "k_1_1", "k_1_2"));
        let mut kernel = Numbers::default();
        let output = |id: String| message(&id, Content::Stream(Stream::default()));
        kernel.see(Channel::IoPub, &output(format!("k_1_{}", u64::MAX)));
        kernel.broke(vec!["cell".to_owned()]);
        assert!(!kernel.see(Channel::IoPub, &output("k_1_5".to_owned())));
        for n in 0..100 {
            kernel.broke(vec!["cell".to_owned()]);
            kernel.see(Channel::IoPub, &output(format!("k_1_{}", 5_000 * n)));
        }
        assert!(
            kernel
                .watch
                .is_none_or(|watch| watch.missing.len() as u64 <= MOST)
        );
    }
}
