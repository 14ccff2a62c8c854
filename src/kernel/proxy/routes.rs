//! Remembers who sent which request: an answer must go back to the peer that asked, and the kernel knows only us.
//!
//! Bounded: the oldest requests are forgotten, because many (a widget's comm messages) are never answered. An answer to
//! a forgotten request goes to the peer that last used the requester's session, so a long-running cell keeps its reply.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use crate::jupyter::message::Header;

/// Most requests remembered.
const REQUESTS: usize = 4096;
/// Most sessions remembered.
const SESSIONS: usize = 256;

/// The identity frames of a requester.
pub(super) type Identity = Vec<Bytes>;

/// Senders by request and by session.
#[derive(Debug)]
pub(super) struct Routes {
    requests: Bounded,
    sessions: Bounded,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            requests: Bounded::new(REQUESTS),
            sessions: Bounded::new(SESSIONS),
        }
    }
}

impl Routes {
    /// Remembers that `header` came from `identity`.
    pub(super) fn note(&mut self, header: &Header, identity: Identity) {
        if !header.session.is_empty() {
            self.sessions.put(&header.session, identity.clone());
        }
        self.requests.put(&header.msg_id, identity);
    }

    /// The sender of `parent`.
    pub(super) fn find(&self, parent: &Header) -> Option<&Identity> {
        self.requests
            .get(&parent.msg_id)
            .or_else(|| self.sessions.get(&parent.session))
    }
}

/// A table of the last `capacity` keys inserted.
#[derive(Debug)]
struct Bounded {
    capacity: usize,
    table: HashMap<String, Identity>,
    order: VecDeque<String>,
}

impl Bounded {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            table: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    fn put(&mut self, key: &str, identity: Identity) {
        if self.table.insert(key.to_owned(), identity).is_some() {
            return;
        }
        self.order.push_back(key.to_owned());
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.table.remove(&oldest);
        }
    }

    fn get(&self, key: &str) -> Option<&Identity> {
        self.table.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(msg_id: &str, session: &str) -> Header {
        Header {
            msg_id: msg_id.to_owned(),
            session: session.to_owned(),
            ..Header::default()
        }
    }

    #[test]
    fn answers_find_their_requester_even_after_many_others() {
        let mut routes = Routes::default();
        let (one, other) = (vec![Bytes::from("one")], vec![Bytes::from("other")]);
        routes.note(&header("cell", "s"), one.clone());
        // The same session from another socket.
        routes.note(&header("info", "s"), other.clone());
        assert_eq!(routes.find(&header("cell", "s")), Some(&one));
        for n in 0..10_000 {
            routes.note(&header(&format!("comm {n}"), "widgets"), other.clone());
        }
        assert_eq!(routes.requests.table.len(), REQUESTS);
        assert_eq!(routes.find(&header("cell", "s")), Some(&other));
        assert_eq!(routes.find(&header("cell", "unknown")), None);
    }
}
