//! Those who look on: the log that they read, how they join, and which of them wants what.

use std::collections::VecDeque;

use tokio::sync::mpsc;

use super::{EventKind, Instant};
use crate::agent::stream::handle::Joining;
use crate::agent::stream::log::Log;
use crate::agent::stream::{Body, Rejection};

/// Answered questions that are remembered.
const RESOLVED: usize = 64;

pub(super) struct Subscribers {
    pub(super) log: Log,
    /// When what waits in the log is announced.
    pub(super) announce_at: Option<Instant>,
    pub(super) joins: mpsc::Receiver<Joining>,
    /// Who wants what is being done.
    pub(super) by: Option<String>,
    /// Questions that were answered, latest last, and by whom.
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

    /// Gives them an item; `quietly` if they are to see it only with what is announced later.
    pub(super) fn append(&mut self, body: Body, quietly: bool) {
        if quietly {
            self.log.append_quietly(body);
        } else {
            self.announce_at = self.log.append(body).map(Into::into);
        }
    }

    /// Lets them see what waits in the log.
    pub(super) fn announce(&mut self) {
        self.announce_at = None;
        self.log.announce();
    }

    /// The name of the client whose command is carried out.
    pub(super) fn by(&self) -> String {
        self.by.clone().unwrap_or_default()
    }

    /// Remembers that this client has answered a question. Returns its name.
    pub(super) fn resolved_by(&mut self, question: &str) -> String {
        let by = self.by();
        if self.resolved.len() >= RESOLVED {
            self.resolved.pop_front();
        }
        self.resolved.push_back((question.to_owned(), by.clone()));
        by
    }

    /// Who has answered a question, latest first.
    pub(super) fn answered_by(&self, question: &str) -> Option<&str> {
        let mut resolved = self.resolved.iter().rev();
        let (_, by) = resolved.find(|(it, _)| it == question)?;
        Some(by)
    }

    /// Why an answer to a question that does not wait is refused.
    pub(super) fn too_late(&self, question: &str) -> Rejection {
        match self.answered_by(question) {
            Some(by) => Rejection::AlreadyAnswered { by: by.to_owned() },
            None => Rejection::NotWaiting,
        }
    }
}
