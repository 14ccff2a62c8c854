//! Requests other than executions that wait for their one reply.

use tokio::sync::oneshot;

use crate::jupyter::message::Message;

/// Most unanswered requests that are remembered; any further one fails at once.
const WAITING: usize = 64;

/// Pending requests by `msg_id`, with the caller of each.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<(String, oneshot::Sender<Message>)>);

impl Asked {
    /// Remembers a request. If there are too many, the caller's sender is dropped, which it sees as an error.
    pub(super) fn insert(&mut self, id: String, reply: oneshot::Sender<Message>) {
        self.0.retain(|(_, waiting)| !waiting.is_closed());
        if self.0.len() < WAITING {
            self.0.push((id, reply));
        }
    }

    /// Hands `message` to the caller that waits for it, or gives it back.
    pub(super) fn answer(&mut self, message: Message) -> Option<Message> {
        let Some(at) = message
            .parent_id()
            .and_then(|id| self.0.iter().position(|(asked, _)| asked == id))
        else {
            return Some(message);
        };
        let (_, reply) = self.0.swap_remove(at);
        // The caller may have timed out and gone.
        let _ = reply.send(message);
        None
    }
}
