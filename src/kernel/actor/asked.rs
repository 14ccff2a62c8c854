//! Requests that are not executions and wait for their one reply.

use tokio::sync::oneshot;

use crate::jupyter::message::Message;

/// Requests without a reply that are remembered; who asks more is told that nobody answers.
const WAITING: usize = 64;

/// Who waits for the reply to which request.
#[derive(Debug, Default)]
pub(super) struct Asked(Vec<(String, oneshot::Sender<Message>)>);

impl Asked {
    /// Remembers a request; a caller that is one too many is dropped, which tells it.
    pub(super) fn insert(&mut self, id: String, reply: oneshot::Sender<Message>) {
        self.0.retain(|(_, waiting)| !waiting.is_closed());
        if self.0.len() < WAITING {
            self.0.push((id, reply));
        }
    }

    /// Hands `message` to who waits for it, else gives it back.
    pub(super) fn answer(&mut self, message: Message) -> Option<Message> {
        let Some(at) = message
            .parent_id()
            .and_then(|id| self.0.iter().position(|(asked, _)| asked == id))
        else {
            return Some(message);
        };
        let (_, reply) = self.0.swap_remove(at);
        // A caller whose patience ended has gone.
        let _ = reply.send(message);
        None
    }
}
