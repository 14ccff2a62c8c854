//! Caches the latest encoded messages of a session's stream: each is encoded once, however many clients follow.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;

use crate::agent::stream::ItemId;

/// Maximum cached bytes per session. A client that is further behind has its messages encoded again.
const BYTES: usize = 1 << 20;

/// The caches of all sessions with clients.
#[derive(Debug, Default)]
pub(super) struct EncodedStreams(Mutex<HashMap<String, Weak<EncodedStream>>>);

impl EncodedStreams {
    /// The cache of a session, as long as a client holds it.
    pub(super) fn of(&self, session: &str) -> Arc<EncodedStream> {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(session).and_then(Weak::upgrade) {
            return stream;
        }
        streams.retain(|_, stream| stream.strong_count() > 0);
        let stream = Arc::default();
        streams.insert(session.to_owned(), Arc::downgrade(&stream));
        stream
    }
}

/// The latest messages of one session, in order.
#[derive(Debug, Default)]
pub(super) struct EncodedStream(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    messages: VecDeque<(ItemId, Bytes)>,
    bytes: usize,
}

impl EncodedStream {
    /// The message of the item `id`: from the cache, or encoded now with `make`.
    pub(super) fn message(&self, id: ItemId, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some(message) = self.recent().get(id) {
            return message;
        }
        let message = Bytes::from(make());
        self.recent().push(id, message.clone());
        message
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn get(&self, id: ItemId) -> Option<Bytes> {
        let (first, _) = self.messages.front()?;
        let at = id.sequence.checked_sub(first.sequence)?;
        let (found, message) = self.messages.get(usize::try_from(at).ok()?)?;
        (*found == id).then(|| message.clone())
    }

    fn push(&mut self, id: ItemId, message: Bytes) {
        if let Some((last, _)) = self.messages.back() {
            if last.epoch == id.epoch && id.sequence <= last.sequence {
                // From a client that is behind, or from two clients at once.
                return;
            }
            if last.epoch != id.epoch || last.sequence + 1 != id.sequence {
                *self = Self::default();
            }
        }
        self.bytes += message.len();
        self.messages.push_back((id, message));
        while self.bytes > BYTES
            && let Some((_, message)) = self.messages.pop_front()
        {
            self.bytes -= message.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(epoch: u64, sequence: u64) -> ItemId {
        ItemId { epoch, sequence }
    }

    #[test]
    fn each_message_is_made_once_while_it_is_kept() {
        let streams = EncodedStreams::default();
        let stream = streams.of("s");
        let mut made = 0;
        let mut get = |stream: &EncodedStream, id: ItemId, length: usize| {
            let message = stream.message(id, || {
                made += 1;
                vec![b'x'; length]
            });
            (message.len(), made)
        };
        assert_eq!(get(&stream, id(1, 1), 3), (3, 1));
        assert_eq!(get(&stream, id(1, 2), 4), (4, 2));
        assert_eq!(get(&streams.of("s"), id(1, 1), 0), (3, 2));
        // Skipped items are missing, and another session is separate.
        assert_eq!(get(&stream, id(1, 9), 5), (5, 3));
        assert_eq!(get(&stream, id(1, 2), 6), (6, 4));
        assert_eq!(get(&stream, id(1, 9), 0), (5, 4));
        assert_eq!(get(&stream, id(2, 10), 7), (7, 5));
        assert_eq!(get(&stream, id(1, 10), 8), (8, 6));
        // The cache never exceeds its limit.
        let stream = streams.of("t");
        assert_eq!(get(&stream, id(1, 1), BYTES), (BYTES, 7));
        assert_eq!(get(&stream, id(1, 2), 1), (1, 8));
        assert_eq!(get(&stream, id(1, 1), 2), (2, 9));
        assert_eq!(get(&stream, id(1, 2), 0), (1, 9));
        drop(stream);
        streams.of("u");
        assert_eq!(streams.0.lock().unwrap().len(), 2);
    }
}
