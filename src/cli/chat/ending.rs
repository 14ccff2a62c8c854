//! The end of a chat: reports where it is stored, or that it is not, and what is still running.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::agent::{TurnEnd, sessions};
use crate::app::Session;
use crate::cli::exit::Exit;
use crate::cli::interact::Ended;
use crate::cli::style::{DIM, paint, stderr_colours, wrapped_for_stderr};
use crate::cli::{Context, ask, eprint, filter};
use crate::error::{Failure, FailureKind};

/// What is known about the end of a chat.
pub(super) struct Ending {
    /// Why it ends with an error.
    failure: Option<Failure>,
    interactive: bool,
    /// The exit code of the last turn.
    last: Exit,
    notebook: PathBuf,
    /// Whether the notebook was complete after the last turn.
    saved: bool,
    /// When the notebook's file was modified before the end began.
    before: Option<SystemTime>,
    named: bool,
    /// The directory of sessions, and the session that ends.
    dir: PathBuf,
    id: String,
}

impl Ending {
    /// For a session that begins; `interactive` if a person is at the terminal.
    pub(super) fn of(session: &Session, interactive: bool, context: &Context) -> Self {
        Self {
            failure: None,
            interactive,
            last: Exit::Done,
            notebook: session.notebook.clone(),
            saved: true,
            before: None,
            named: false,
            dir: context.paths.sessions(),
            id: session.id.clone(),
        }
    }

    /// Records how a turn ended. Returns `Some` if the chat ends with it.
    pub(super) fn after(&mut self, ended: Ended) -> Option<Exit> {
        match ended {
            Ended::Turn { end, saved } => self.after_turn(&end, saved),
            Ended::Left { saved } => {
                self.saved = saved;
                Some(Exit::Done)
            }
            Ended::Gone => Some(Exit::Failed),
            Ended::Unread(failure) => {
                self.failure = Some(failure);
                Some(Exit::Failed)
            }
            Ended::End => Some(Exit::Interrupted),
        }
    }

    /// Records the result of a turn. Returns `Some` if the chat ends with it: the next line of a pipe may rely on code
    /// that was not allowed to run, and would be paid for.
    fn after_turn(&mut self, end: &TurnEnd, saved: bool) -> Option<Exit> {
        self.saved = saved;
        self.last = ask::exit_of(end);
        if self.interactive || *end != TurnEnd::Declined {
            return None;
        }
        self.failure = Some(ask::nobody_to_approve());
        Some(Exit::Approval)
    }

    /// The session ends now, which can take a while.
    pub(super) fn begin(&mut self) {
        self.before = modified(&self.notebook);
        if self.saved {
            self.name_notebook();
        }
    }

    /// The session has ended.
    ///
    /// # Errors
    /// What went wrong, including a notebook that is not complete.
    pub(super) fn end(mut self, exit: Exit) -> Result<Exit, Failure> {
        // The end is one more chance to write the notebook.
        let saved = self.saved || modified(&self.notebook) != self.before;
        if saved {
            self.name_notebook();
        }
        self.tell_kept();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if saved {
            // Like a shell, which returns the last command's status from a script; a person has seen how it went.
            let of_script = exit == Exit::Done && !self.interactive;
            return Ok(if of_script { self.last } else { exit });
        }
        let shown = self.notebook.display();
        Err(Failure::new(
            FailureKind::Failed,
            format!("the conversation is over, but its notebook `{shown}` could not be written"),
        )
        .hint("make room there; a new session can be kept elsewhere with --notebook"))
    }

    fn name_notebook(&mut self) {
        if !self.interactive || self.named || !self.notebook.exists() {
            return;
        }
        self.named = true;
        let title = paint(DIM, "notebook:", stderr_colours());
        eprint(&format!("\n{title} {}\n", self.notebook.display()));
    }

    fn tell_kept(&self) {
        let found = sessions::look(&self.dir, &self.id);
        if found.is_some_and(|found| !found.summary.kernels.is_empty()) {
            let words = format!(
                "the kernel keeps running: `sponde resume {}` takes it over, `sponde kernels reap --kept` ends it\n",
                self.id
            );
            let words = filter::plain(&words);
            let words = wrapped_for_stderr(&words);
            eprint(&paint(DIM, &words, stderr_colours()));
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|it| it.modified()).ok()
}
