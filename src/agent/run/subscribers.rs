//! The session's subscribers: the log that they read, how they join, and which client requested what.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::{EventKind, Instant};
use crate::agent::stream::handle::Joining;
use crate::agent::stream::log::Log;
use crate::agent::stream::{Body, Rejection};

/// How many answered questions are remembered.
const RESOLVED: usize = 64;

pub(super) struct Subscribers {
    pub(super) log: Log,
    /// When the pending log items are announced.
    pub(super) announce_at: Option<Instant>,
    pub(super) joins: mpsc::Receiver<Joining>,
    /// The client that requested the current activity.
    pub(super) by: Option<String>,
    /// Answered questions and who answered them, latest last.
    resolved: VecDeque<(String, String)>,
    /// How the last turn ended.
    pub(super) last_turn: Option<EventKind>,
}

impl Subscribers {
    pub(super) fn new(log: Log, joins: mpsc::Receiver<Joining>) -> Self {
        Self {
            log,
            announce_at: None,
            joins,
            by: None,
            resolved: VecDeque::new(),
            last_turn: None,
        }
    }

    /// Appends an item to the log; `quietly`: subscribers see it only at the next announcement.
    pub(super) fn append(&mut self, body: Body, quietly: bool) {
        if quietly {
            self.log.append_quietly(body);
        } else {
            self.announce_at = self.log.append(body).map(Into::into);
        }
    }

    /// Announces the pending log items.
    pub(super) fn announce(&mut self) {
        self.announce_at = None;
        self.log.announce();
    }

    /// The name of the client whose command is being carried out.
    pub(super) fn by(&self) -> String {
        self.by.clone().unwrap_or_default()
    }

    /// Records that this client answered a question. Returns its name.
    pub(super) fn resolved_by(&mut self, question: &str) -> String {
        let by = self.by();
        if self.resolved.len() >= RESOLVED {
            self.resolved.pop_front();
        }
        self.resolved.push_back((question.to_owned(), by.clone()));
        by
    }

    /// Who answered a question, latest first.
    pub(super) fn answered_by(&self, question: &str) -> Option<&str> {
        let mut resolved = self.resolved.iter().rev();
        let (_, by) = resolved.find(|(it, _)| it == question)?;
        Some(by)
    }

    /// Why an answer to a question that is not waiting is rejected.
    pub(super) fn too_late(&self, question: &str) -> Rejection {
        match self.answered_by(question) {
            Some(by) => Rejection::AlreadyAnswered { by: by.to_owned() },
            None => Rejection::NotWaiting,
        }
    }
}
