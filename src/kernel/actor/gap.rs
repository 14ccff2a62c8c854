//! A gateway connection that broke and was re-established. Messages in flight may be lost; without its reply or `idle`
//! a cell would never end. So we send the kernel a request: it answers in order, so its answer comes after everything
//! it had to say about earlier cells. Both shell and iopub must have answered, because they do not wait for each other.

use crate::jupyter::content::{Content, ExecutionState};
use crate::jupyter::message::{Channel, Message};

/// The request that was sent after reconnecting.
#[derive(Debug)]
pub(super) struct Gap {
    asked: String,
    before: Vec<String>,
    replied: bool,
    idle: bool,
}

impl Gap {
    /// `asked` is the `msg_id` of the request, `before` those of the executions sent before it.
    pub(super) fn new(asked: String, before: Vec<String>) -> Self {
        Self {
            asked,
            before,
            replied: false,
            idle: false,
        }
    }

    /// Whether both channels have answered, now that `message` has come.
    pub(super) fn is_passed_by(&mut self, channel: Channel, message: &Message) -> bool {
        if message.parent_id() == Some(&self.asked) {
            self.replied |= channel == Channel::Shell;
            self.idle |= channel == Channel::IoPub
                && message.content == Content::Status(ExecutionState::Idle);
        }
        self.replied && self.idle
    }

    /// The executions that will receive nothing more.
    pub(super) fn before(self) -> Vec<String> {
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::message::Header;

    #[test]
    fn both_channels_must_have_answered() {
        let answer = |parent: &str, content: Content| {
            let parent = Header {
                msg_id: parent.to_owned(),
                ..Header::default()
            };
            Message::request(content, "s", "u", String::new()).answering(parent)
        };
        let idle = |parent| answer(parent, Content::Status(ExecutionState::Idle));
        let busy = answer("q", Content::Status(ExecutionState::Busy));
        let reply = answer("q", Content::KernelInfoReply(Box::default()));
        let mut gap = Gap::new("q".to_owned(), vec!["cell".to_owned()]);
        assert!(!gap.is_passed_by(Channel::IoPub, &busy));
        assert!(!gap.is_passed_by(Channel::IoPub, &idle("q")));
        assert!(!gap.is_passed_by(Channel::IoPub, &idle("other")));
        assert!(gap.is_passed_by(Channel::Shell, &reply));
        assert_eq!(gap.before(), ["cell"]);
    }
}
