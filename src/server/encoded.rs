//! Caches the latest encoded messages of a session's stream: each is encoded once, however many clients follow.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::body::Bytes;

use crate::agent::stream::ItemId;

/// Maximum cached bytes per session. A client that is further behind has its messages encoded again.
const BYTES: usize = 1 << 20;
/// What was encoded in several runs is sent together, up to this many bytes.
const TOGETHER: usize = 64 << 10;

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
    runs: VecDeque<Run>,
    bytes: usize,
}

/// Messages of items that follow each other, encoded together.
#[derive(Debug)]
struct Run {
    first: ItemId,
    /// Where each message ends.
    ends: Vec<usize>,
    messages: Bytes,
}

impl EncodedStream {
    /// The messages from the item `first` on, and the id of the last: from the cache, or encoded now. `make` encodes
    /// that item and any others that follow it.
    pub(super) fn from(
        &self,
        first: ItemId,
        make: impl FnOnce() -> Vec<(ItemId, Vec<u8>)>,
    ) -> (Bytes, ItemId) {
        // Encoding holds the lock: other clients want the same messages.
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = recent.from(first) {
            return found;
        }
        let run = Run::of(first, &make());
        let messages_and_last = (run.messages.clone(), run.last());
        recent.push(run);
        messages_and_last
    }
}

impl Run {
    fn of(first: ItemId, made: &[(ItemId, Vec<u8>)]) -> Self {
        let mut messages = Vec::with_capacity(made.iter().map(|(_, it)| it.len()).sum());
        let mut ends = Vec::with_capacity(made.len());
        for (_, message) in made {
            messages.extend(message);
            ends.push(messages.len());
        }
        Self {
            first,
            ends,
            messages: messages.into(),
        }
    }

    fn last(&self) -> ItemId {
        let more = self.ends.len().saturating_sub(1) as u64;
        ItemId {
            sequence: self.first.sequence + more,
            ..self.first
        }
    }

    /// The messages from the item `first` on.
    fn from(&self, first: ItemId) -> Option<Bytes> {
        let skipped = first.sequence.checked_sub(self.first.sequence)?;
        let skipped = usize::try_from(skipped).ok()?;
        if first.epoch != self.first.epoch || skipped >= self.ends.len() {
            return None;
        }
        let begin = skipped.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(self.messages.slice(begin..))
    }
}

impl Recent {
    fn from(&self, first: ItemId) -> Option<(Bytes, ItemId)> {
        let at = self.runs.partition_point(|run| run.last() < first);
        let run = self.runs.get(at)?;
        let found = run.from(first)?;
        let mut last = run.last();
        let mut together = Vec::new();
        for more in self.runs.range(at + 1..) {
            if found.len().max(together.len()) + more.messages.len() > TOGETHER {
                break;
            }
            if together.is_empty() {
                together.extend(&found);
            }
            together.extend(&more.messages);
            last = more.last();
        }
        let messages = if together.is_empty() {
            found
        } else {
            together.into()
        };
        Some((messages, last))
    }

    fn push(&mut self, run: Run) {
        if let Some(last) = self.runs.back().map(Run::last) {
            if last.epoch == run.first.epoch && run.first.sequence <= last.sequence {
                // From a client that is behind.
                return;
            }
            if last.epoch != run.first.epoch || last.sequence + 1 != run.first.sequence {
                *self = Self::default();
            }
        }
        self.bytes += run.messages.len();
        self.runs.push_back(run);
        while self.bytes > BYTES
            && let Some(run) = self.runs.pop_front()
        {
            self.bytes -= run.messages.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(epoch: u64, sequence: u64) -> ItemId {
        ItemId { epoch, sequence }
    }

    /// Messages of one character each, for the items from `first` on.
    fn of(first: ItemId, text: &str) -> Vec<(ItemId, Vec<u8>)> {
        let ids = (first.sequence..).map(|it| id(first.epoch, it));
        ids.zip(text.bytes().map(|it| vec![it])).collect()
    }

    #[test]
    fn each_message_is_made_once_while_it_is_kept() {
        let streams = EncodedStreams::default();
        let stream = streams.of("s");
        let get = |stream: &EncodedStream, first: ItemId, made: &str| {
            let (messages, last) = stream.from(first, || of(first, made));
            (String::from_utf8(messages.to_vec()).unwrap(), last)
        };
        let all = |text: &str, last| (text.to_owned(), last);
        assert_eq!(get(&stream, id(1, 1), "abc"), all("abc", id(1, 3)));
        assert_eq!(get(&streams.of("s"), id(1, 1), "-"), all("abc", id(1, 3)));
        // From the middle of what was made together, and over its end.
        assert_eq!(get(&stream, id(1, 3), "-"), all("c", id(1, 3)));
        assert_eq!(get(&stream, id(1, 4), "d"), all("d", id(1, 4)));
        assert_eq!(get(&stream, id(1, 2), "-"), all("bcd", id(1, 4)));
        // Skipped items are missing, and another session is separate.
        assert_eq!(get(&stream, id(1, 9), "i"), all("i", id(1, 9)));
        assert_eq!(get(&stream, id(1, 2), "B"), all("B", id(1, 2)));
        assert_eq!(get(&stream, id(1, 9), "-"), all("i", id(1, 9)));
        assert_eq!(get(&stream, id(2, 10), "x"), all("x", id(2, 10)));
        assert_eq!(get(&stream, id(1, 10), "j"), all("j", id(1, 10)));
        // The cache never exceeds its limit.
        let stream = streams.of("t");
        let large = |first| {
            stream
                .from(first, || vec![(first, vec![b'x'; BYTES])])
                .0
                .len()
        };
        assert_eq!(large(id(1, 1)), BYTES);
        assert_eq!(get(&stream, id(1, 2), "b"), all("b", id(1, 2)));
        assert_eq!(get(&stream, id(1, 1), "A"), all("A", id(1, 1)));
        assert_eq!(get(&stream, id(1, 2), "-"), all("b", id(1, 2)));
        drop(stream);
        streams.of("u");
        assert_eq!(streams.0.lock().unwrap().len(), 2);
    }
}
