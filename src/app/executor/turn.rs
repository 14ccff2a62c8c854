//! One turn of a session for a program: a cell that runs, or a question to the model, with all its events.
//!
//! Dropping an unfinished turn interrupts it, because nobody waits for it any more. What it has done stays in the
//! notebook, and the session's next turn waits for its end.

use std::time::Duration;

use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Executor, ExecutorError, ProgramSession};
use crate::agent::stream::{Rejection, SessionHandle, View};
use crate::agent::{Command, EventKind, TurnEnd};
use crate::app::registry::ClientGuard;
use crate::task;

/// How long a turn waits for earlier turns.
const QUEUE: Duration = Duration::from_mins(30);
/// How long it waits for the activity of other clients in the session.
const BUSY: Duration = Duration::from_mins(2);
/// How often it tries meanwhile.
const AGAIN: Duration = Duration::from_millis(200);
/// How long code may take to stop at its time limit, before its kernel is restarted.
const GRACE: Duration = Duration::from_secs(20);
/// Time between interrupts of code that nobody waits for.
const SOON: Duration = Duration::from_secs(3);
/// How many notices are kept.
const NOTICES: usize = 50;

/// A running turn.
pub struct Turn {
    inner: Option<Inner>,
    stop: Stop,
    outcome: TurnOutcome,
}

struct Inner {
    view: View,
    handle: SessionHandle,
    by: String,
    held: (ClientGuard, OwnedMutexGuard<()>),
}

/// When the code reaches its time limit.
#[derive(Clone, Copy)]
enum Stop {
    Never,
    Interrupt(Instant),
    Restart(Instant),
}

/// The result of a turn so far.
#[derive(Debug, Clone, Default)]
pub struct TurnOutcome {
    /// The cells that ran, or were meant to run.
    pub cells: Vec<String>,
    /// How the last cell ended, in the words of [`EventKind::CodeFinished`].
    pub status: Option<String>,
    /// Its `In [n]` number.
    pub count: Option<i64>,
    /// Notices for a person.
    pub notices: Vec<String>,
    /// Whether the code reached its time limit.
    pub timed_out: bool,
    /// How the turn ended; `None` if it is running, or the session ended with it.
    pub end: Option<TurnEnd>,
    began: Option<Instant>,
    took: Duration,
}

impl TurnOutcome {
    /// How long the turn took.
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl ProgramSession {
    /// Runs code; `limit` is its time limit.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn run(
        &self,
        by: &str,
        code: String,
        language: Option<String>,
        limit: Option<Duration>,
    ) -> Result<Turn, ExecutorError> {
        self.begin(by, Command::Run { code, language }, limit).await
    }

    /// Asks the model. The session's own time limit applies to its code.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn ask(
        &self,
        by: &str,
        text: String,
        executor: &Executor,
    ) -> Result<Turn, ExecutorError> {
        if self.live.activity().model.is_none() {
            let settings = executor.settings().model.clone();
            let config = || executor.registry().context().config.model.clone();
            // Without a name: the best available; the question waits for it.
            let model = settings.or_else(config).unwrap_or_default();
            let handle = self.live.handle();
            handle.send(by, Command::SetModel { model }).await?;
        }
        self.begin(by, Command::Submit { text }, None).await
    }

    /// Begins a turn with `command`.
    async fn begin(
        &self,
        by: &str,
        command: Command,
        limit: Option<Duration>,
    ) -> Result<Turn, ExecutorError> {
        let busy = |wait: Duration| ExecutorError::Busy {
            seconds: wait.as_secs(),
        };
        let turn = std::sync::Arc::clone(&self.turn).lock_owned();
        let turn = timeout(QUEUE, turn).await.map_err(|_| busy(QUEUE))?;
        let counted = self.live.client();
        let handle = self.live.handle().clone();
        let until = Instant::now() + BUSY;
        let view = loop {
            let mut view = fresh_view(&handle, by).await?;
            match view.send(command.clone()).await {
                Ok(()) => break view,
                Err(Rejection::Busy | Rejection::Restoring) if Instant::now() < until => {
                    let is_over =
                        |event: &EventKind| matches!(event, EventKind::TurnFinished { .. });
                    // The end may have come before we subscribed.
                    let _ = timeout(AGAIN, view.until(is_over)).await;
                }
                Err(Rejection::Busy | Rejection::Restoring) => return Err(busy(BUSY)),
                Err(error) => return Err(error.into()),
            }
        };
        let now = Instant::now();
        Ok(Turn {
            inner: Some(Inner {
                view,
                handle,
                by: by.to_owned(),
                held: (counted, turn),
            }),
            stop: limit.map_or(Stop::Never, |limit| Stop::Interrupt(now + limit)),
            outcome: TurnOutcome {
                began: Some(now),
                ..TurnOutcome::default()
            },
        })
    }
}

/// A view of the events from now on.
pub(super) async fn fresh_view(handle: &SessionHandle, by: &str) -> Result<View, Rejection> {
    let newest = handle.resume(by, handle.newest());
    let client = match newest {
        Some(client) => client,
        None => handle.join(by).await?.1,
    };
    Ok(View::new(client))
}

impl Turn {
    /// The next event; `None` at the end. Can be cancelled without loss.
    pub async fn next(&mut self) -> Option<EventKind> {
        loop {
            let inner = self.inner.as_mut()?;
            let at = match self.stop {
                Stop::Never => None,
                Stop::Interrupt(at) | Stop::Restart(at) => Some(at),
            };
            tokio::select! {
                event = inner.view.recv() => {
                    let Some(event) = event else {
                        self.over();
                        return None;
                    };
                    self.outcome.take(&event.kind);
                    if matches!(event.kind, EventKind::TurnFinished { .. }) {
                        self.over();
                    }
                    return Some(event.kind);
                }
                () = sleep_until(at.unwrap_or_else(Instant::now)), if at.is_some() => {
                    let (command, next) = match self.stop {
                        Stop::Interrupt(_) => (Command::Interrupt, Stop::Restart(Instant::now() + GRACE)),
                        Stop::Restart(_) | Stop::Never => (Command::RestartKernel, Stop::Never),
                    };
                    self.outcome.timed_out = true;
                    self.stop = next;
                    // If the session has ended, the next event says so.
                    let _ = inner.view.send(command).await;
                }
            }
        }
    }

    /// Sends a command, such as the answer to a question.
    ///
    /// # Errors
    /// Why it was rejected.
    pub async fn send(&mut self, command: Command) -> Result<(), Rejection> {
        match &mut self.inner {
            Some(inner) => inner.view.send(command).await,
            None => Err(Rejection::NotWaiting),
        }
    }

    /// The result so far.
    pub fn outcome(&self) -> &TurnOutcome {
        &self.outcome
    }

    /// Extends the time limit by the time that its program was asked something.
    pub fn extend(&mut self, by: Duration) {
        if let Stop::Interrupt(at) = &mut self.stop {
            *at += by;
        }
    }

    fn over(&mut self) {
        self.inner = None;
        let began = self.outcome.began;
        self.outcome.took = began.map_or(Duration::ZERO, |began| began.elapsed());
    }
}

impl TurnOutcome {
    fn saw(&mut self, cell: &str) {
        if self.cells.last().map(String::as_str) != Some(cell) {
            self.cells.push(cell.to_owned());
        }
    }

    fn note(&mut self, message: String) {
        if self.notices.len() < NOTICES {
            self.notices.push(message);
        }
    }

    fn take(&mut self, event: &EventKind) {
        match event {
            EventKind::CodeStarted { cell } | EventKind::CodeProposed { cell, .. } => {
                self.saw(cell);
            }
            EventKind::CodeFinished {
                cell,
                status,
                count,
            } => {
                self.saw(cell);
                self.status = Some(status.to_string());
                self.count = *count;
            }
            EventKind::CodeForbidden { cell, .. } => {
                self.saw(cell);
                self.status = Some("forbidden".to_owned());
            }
            EventKind::Notice { message } | EventKind::ModelUnchanged { message, .. } => {
                self.note(message.clone());
            }
            EventKind::KernelFailed { message, log, .. } => {
                let log = log.as_deref().unwrap_or_default();
                self.notices
                    .push(format!("{message}\n{log}").trim().to_owned());
            }
            EventKind::TurnFinished { end, .. } => self.end = Some(end.clone()),
            _ => {}
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(Inner {
            mut view,
            handle,
            by,
            held,
        }) = self.inner.take()
        else {
            return;
        };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        task::spawn("abandoned turn", async move {
            let _held = held;
            let is_over = |event: &EventKind| matches!(event, EventKind::TurnFinished { .. });
            // An interrupt can be lost if the code has only just begun.
            for (command, grace) in [
                (Command::Interrupt, SOON),
                (Command::Interrupt, GRACE),
                (Command::RestartKernel, GRACE),
            ] {
                if handle.send(&by, command).await.is_err() {
                    return;
                }
                if timeout(grace, view.until(is_over)).await.is_ok() {
                    return;
                }
            }
        })
        .detach();
    }
}
