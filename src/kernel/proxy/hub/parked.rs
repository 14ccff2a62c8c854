//! Messages of a kernel while its last client is away. The client gets them when it returns, as from jupyter_server.
//!
//! Bounded in bytes and number. The oldest outputs are dropped first; the client is told how many, in the cell of the
//! first dropped one. Replies and states are kept longest: a client without them waits for ever.

use std::collections::VecDeque;

use serde_json::json;

use super::client::bytes_of;
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;
use crate::kernel::proxy::own::Own;

/// Most bytes kept.
const BYTES: usize = 16 << 20;
/// Most messages kept.
const MESSAGES: usize = 10_000;

/// Messages for the client of one session.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) session: String,
    messages: VecDeque<(Channel, RawMessage)>,
    bytes: usize,
    dropped: Option<Dropped>,
}

#[derive(Debug)]
struct Dropped {
    messages: usize,
    bytes: usize,
    /// Parent header of the first.
    parent: bytes::Bytes,
}

impl Parked {
    pub(super) fn new(session: &str) -> Self {
        Self {
            session: session.to_owned(),
            messages: VecDeque::new(),
            bytes: 0,
            dropped: None,
        }
    }

    pub(super) fn keep(&mut self, channel: Channel, message: RawMessage) {
        self.bytes += bytes_of(&message);
        self.messages.push_back((channel, message));
        while self.bytes > BYTES || self.messages.len() > MESSAGES {
            let output = self.messages.iter().position(is_output);
            let Some((_, oldest)) = self.messages.remove(output.unwrap_or(0)) else {
                return;
            };
            let bytes = bytes_of(&oldest);
            self.bytes -= bytes;
            let dropped = self.dropped.get_or_insert(Dropped {
                messages: 0,
                bytes: 0,
                parent: oldest.parent,
            });
            dropped.messages += 1;
            dropped.bytes += bytes;
        }
    }

    /// All kept messages in order, after a notice about the dropped ones.
    pub(super) fn replay(self, own: &Own) -> impl Iterator<Item = (Channel, RawMessage)> {
        let said = self.dropped.map(|dropped| {
            let text = format!(
                "[Sponde: {} messages ({} kB) of the kernel arrived while no client was connected and were dropped]\n",
                dropped.messages,
                dropped.bytes / 1000
            );
            let mut said = own.message("stream", json!({"name": "stderr", "text": text}), None);
            said.parent = dropped.parent;
            (Channel::IoPub, said)
        });
        said.into_iter().chain(self.messages)
    }
}

/// Whether a client can go on without the message.
fn is_output((channel, message): &(Channel, RawMessage)) -> bool {
    let kind = || message.header().map(|it| it.msg_type);
    *channel == Channel::IoPub && kind().is_ok_and(|kind| kind != "status")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(own: &Own, kind: &str, text: &str) -> RawMessage {
        let mut message = own.message(kind, json!({"text": text}), None);
        message.parent = br#"{"msg_id":"cell"}"#.as_slice().into();
        message
    }

    fn texts(parked: Parked, own: &Own) -> Vec<(Channel, String)> {
        let text = |message: RawMessage| {
            let content: serde_json::Value = serde_json::from_slice(&message.content).unwrap();
            assert_eq!(&message.parent[..], br#"{"msg_id":"cell"}"#);
            content["text"]
                .as_str()
                .unwrap()
                .chars()
                .take(110)
                .collect()
        };
        let replayed = parked.replay(own);
        replayed.map(|(channel, it)| (channel, text(it))).collect()
    }

    #[test]
    fn what_was_missed_comes_in_order_and_what_is_too_much_is_counted() {
        let own = Own::new("me");
        let mut parked = Parked::new("s");
        parked.keep(Channel::IoPub, message(&own, "stream", "one"));
        parked.keep(Channel::Shell, message(&own, "execute_reply", "two"));
        let all = texts(parked, &own);
        let expected = [(Channel::IoPub, "one"), (Channel::Shell, "two")];
        assert_eq!(all, expected.map(|(on, text)| (on, text.to_owned())));

        let mut parked = Parked::new("s");
        parked.keep(Channel::IoPub, message(&own, "status", "busy"));
        for _ in 0..3 {
            let large = "x".repeat(6 << 20);
            parked.keep(Channel::IoPub, message(&own, "stream", &large));
        }
        parked.keep(Channel::Shell, message(&own, "execute_reply", "end"));
        assert!(parked.bytes <= BYTES);
        let all = texts(parked, &own);
        let said = "[Sponde: 1 messages (6292 kB) of the kernel arrived while no client was connected and were dropped]\n";
        let x = "x".repeat(110);
        let expected = [
            (Channel::IoPub, said),
            (Channel::IoPub, "busy"),
            (Channel::IoPub, &x),
            (Channel::IoPub, &x),
            (Channel::Shell, "end"),
        ];
        assert_eq!(all, expected.map(|(on, text)| (on, text.to_owned())));
    }
}
