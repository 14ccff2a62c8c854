//! A connection that broke and stands again. What was on its way may be lost, a reply or an `idle` among it, and then a
//! cell would never end. So the kernel is asked something: it answers in order, so its answer comes behind all that it
//! had to say about earlier cells. Both of its channels must have answered, for they do not wait for each other.

use crate::jupyter::content::{Content, ExecutionState};
use crate::jupyter::message::{Channel, Message};

/// A question that was asked when the connection stood again.
#[derive(Debug)]
pub(super) struct Gap {
    asked: String,
    before: Vec<String>,
    replied: bool,
    idle: bool,
}

impl Gap {
    /// `asked` is the `msg_id` of the question, `before` those of the executions that it closes.
    pub(super) fn new(asked: String, before: Vec<String>) -> Self {
        Self {
            asked,
            before,
            replied: false,
            idle: false,
        }
    }

    /// Whether with `message` everything has been answered.
    pub(super) fn is_passed_by(&mut self, channel: Channel, message: &Message) -> bool {
        if message.parent_id() == Some(&self.asked) {
            self.replied |= channel == Channel::Shell;
            self.idle |= channel == Channel::IoPub
                && message.content == Content::Status(ExecutionState::Idle);
        }
        self.replied && self.idle
    }

    /// The executions that will get nothing more.
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
