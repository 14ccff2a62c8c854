//! Code runs only once the decision about it is in the audit log on disk, or a person was told that it is not.

use std::time::Duration;

use super::{EventKind, Instant, Session};
use crate::agent::approval::{Grounds, Ruling};
use crate::agent::audit::{Written, sha256};
use crate::session::transcript::Author;

/// How long code waits for the log.
const WITHIN: Duration = Duration::from_secs(30);

/// The session's connection to its audit log.
pub(super) struct Auditing {
    written: Written,
    /// The log entry that code waits for, and the time limit.
    waits_for: Option<(u64, Instant)>,
}

/// News from the log.
pub(super) enum Audited {
    /// The awaited entry has been written.
    Written,
    /// The awaited entry was not written in time.
    TooLate,
    /// A notice for a person.
    Notice(String),
}

impl Auditing {
    pub(super) fn new(written: Written) -> Self {
        Self {
            written,
            waits_for: None,
        }
    }
}

/// The next news; never resolves without a log. Cancel-safe.
pub(super) async fn next_audited(auditing: Option<&mut Auditing>) -> Audited {
    let Some(Auditing { written, waits_for }) = auditing else {
        return std::future::pending().await;
    };
    let progress = &mut written.progress;
    let done = async {
        let Some((item, until)) = waits_for else {
            return std::future::pending().await;
        };
        let reached = progress.wait_for(|progress| progress.item >= *item);
        match tokio::time::timeout_at(*until, reached).await {
            Ok(Ok(_)) => Audited::Written,
            Ok(Err(_)) | Err(_) => Audited::TooLate,
        }
    };
    tokio::select! {
        biased;
        Some(words) = written.notices.recv() => Audited::Notice(words),
        done = done => done,
    }
}

impl Session {
    /// Logs that a cell is about to run, and makes it wait until the entry is written.
    pub(super) fn approve(&mut self, cell: &str, grounds: Grounds, by: Option<String>) {
        self.approve_by(cell, grounds, by, None);
    }

    fn approve_by(
        &mut self,
        cell: &str,
        grounds: Grounds,
        by: Option<String>,
        ruling: Option<Ruling>,
    ) {
        let Some(found) = self.transcript.cell(cell) else {
            return;
        };
        let sha256 = sha256(found.source.as_bytes());
        self.cells.permitted = self.may_call(grounds);
        self.publish(EventKind::CodeApproved {
            cell: cell.to_owned(),
            sha256,
            grounds,
            by,
            ruling,
        });
        self.announce();
        let item = self.subscribers.log.appended().sequence;
        if let Some(auditing) = &mut self.auditing {
            auditing.waits_for = Some((item, Instant::now() + WITHIN));
        }
    }

    /// The same for the turn's own decision, whatever its grounds.
    pub(super) fn approve_for_turn(&mut self, cell: &str) {
        let code = self.transcript.code(cell);
        let is_own = code.is_some_and(|code| code.author == Author::Person);
        let (grounds, by) = match self.subscribers.answered_by(cell) {
            _ if is_own => (Grounds::Own, self.subscribers.by.clone()),
            Some(by) => (Grounds::Decided, Some(by.to_owned())),
            None => (Grounds::Policy, None),
        };
        let decided = by.as_deref().filter(|_| grounds == Grounds::Decided);
        let ruling = self.ruling_to_run(decided);
        self.approve_by(cell, grounds, by, ruling);
    }

    /// Whether the last approval has been written, so that its cell can run.
    pub(super) fn is_audited(&mut self) -> bool {
        let Some(auditing) = &mut self.auditing else {
            return true;
        };
        let done = auditing.written.progress.borrow().item;
        auditing.waits_for.take_if(|(item, _)| *item <= done);
        auditing.waits_for.is_none()
    }

    /// Handles news from the log.
    pub(super) async fn audited(&mut self, audited: Audited) {
        match audited {
            Audited::Notice(words) => return self.notice(&words),
            Audited::Written => {}
            Audited::TooLate => {
                let words = format!(
                    "the audit log could not be written within {} seconds: code runs without a record of who decided so",
                    WITHIN.as_secs()
                );
                self.notice(&words);
            }
        }
        if let Some(auditing) = &mut self.auditing {
            auditing.waits_for = None;
        }
        self.replay_goes_on().await;
        let waiting = self
            .cells
            .running
            .take_if(|running| running.execution.is_none());
        if let Some(running) = waiting
            && let Some(input) = self.execute(running.cell).await
        {
            self.drive(input).await;
        }
    }
}
