//! One running execution: what the kernel has said about it, and the verdict that follows.

use std::time::Duration;

use tokio::time::Instant;

use super::{Entry, NO_INPUT, Wake};
use crate::jupyter::content::{ErrorContent, ExecuteReply, InputRequest, ReplyStatus};
use crate::jupyter::message::Header;
use crate::kernel::execution::{ExecutionEvent, Outcome, OutputEvent, Verdict};
use crate::kernel::quirks::Quirks;

/// How long iopub may be silent after a reply before we ask whether `idle` was lost.
const QUIET: Duration = Duration::from_secs(1);
/// How long a reply may come after `idle`.
const REPLY_WAIT: Duration = Duration::from_secs(5);
/// After an output that came after `idle`, how long the next one may take.
const MORE_LATE_OUTPUTS: Duration = Duration::from_secs(2);
/// Kernels send printed text before they ask for input, but over another socket, which may be read later.
const SAME_TIME: Duration = Duration::from_millis(20);
/// Longest delay of an input request while outputs keep coming.
const ASKED_AT_LAST: Duration = Duration::from_secs(1);
/// How long code that was interrupted before it began may run before it is interrupted again.
const INTERRUPTED_EARLY: Duration = Duration::from_millis(100);
/// Most input requests of one cell.
const QUESTIONS: u32 = 100_000;

/// Why a cell was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    None,
    Requested,
    TimeUp,
    /// The kernel hit a limit: the cell counts as failed.
    Limit,
}

/// What happens to an input request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stdin {
    /// Somebody can answer.
    Asked,
    /// Nobody can answer: it will be refused.
    Closed,
    /// It was refused with this text, in this many attempts so far.
    Refused { why: String, times: u32 },
}

/// Whether the kernel has announced that it runs the code (`execute_input`).
///
/// An earlier signal may be ignored, as ipykernel does between cells, or hit ipykernel itself instead of the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Waits,
    /// An interrupt was sent meanwhile and may be lost.
    WaitsInterrupted,
    Done,
}

impl Begin {
    pub(super) fn interrupted(&mut self) {
        if *self == Self::Waits {
            *self = Self::WaitsInterrupted;
        }
    }
}

/// Whether outputs may still come after reply and `idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settling {
    /// No, or we have waited long enough.
    Done,
    /// Perhaps.
    Waits,
    /// One came, so there may be more.
    Late,
}

impl Settling {
    pub(super) fn of(quirks: &Quirks) -> Self {
        if quirks.late_outputs.is_zero() {
            Self::Done
        } else {
            Self::Waits
        }
    }

    /// An output came; `late` if after `idle`.
    pub(super) fn seen(&mut self, late: bool) {
        if late && *self == Self::Waits {
            *self = Self::Late;
        }
    }
}

impl Entry {
    pub(super) fn send(&mut self, event: ExecutionEvent) {
        let _ = self.events.send((event, None));
    }

    /// When its time is up; never, if that is too far away for the clock.
    pub(super) fn time_up(&self, now: Instant) -> Option<(Instant, Wake)> {
        Some((now.checked_add(self.timeout?)?, Wake::TimeUp))
    }

    pub(super) fn start(&mut self, now: Instant) {
        if !self.started {
            self.started = true;
            // The timeout is suspended while the user is asked.
            if self.input.is_none() {
                self.wake = self.time_up(now);
            }
        }
    }

    /// The code runs from now on. If it was interrupted before, it will be interrupted again.
    pub(super) fn begin(&mut self, now: Instant) {
        self.start(now);
        let lost = self.begin == Begin::WaitsInterrupted && self.reply.is_none();
        if lost && !matches!(self.wake, Some((_, Wake::Unanswered))) {
            self.wake = Some((now + INTERRUPTED_EARLY, Wake::InterruptAgain));
        }
        self.begin = Begin::Done;
    }

    pub(super) fn ask(&mut self, request: InputRequest, header: Header, now: Instant) {
        self.asked += 1;
        if self.asked > QUESTIONS {
            return;
        }
        self.input = Some(header);
        self.wake = None;
        match self.stdin {
            Stdin::Asked => {
                self.asking = Some((request, now));
                self.puts_off_question(now);
            }
            // Kernels other than ipykernel ask even if `allow_stdin` is false.
            Stdin::Closed | Stdin::Refused { .. } => self.refuse("nobody is there to answer", now),
        }
    }

    /// Delays the question, because earlier output may still be in flight. Returns false once we have waited long
    /// enough.
    pub(super) fn puts_off_question(&mut self, now: Instant) -> bool {
        let Some((_, since)) = &self.asking else {
            return false;
        };
        let latest = *since + ASKED_AT_LAST;
        self.wake = Some(((now + SAME_TIME).min(latest), Wake::Asks));
        now < latest
    }

    /// Reports the question, after what was printed before it.
    pub(super) fn tell_question(&mut self) {
        self.wake = None;
        if let Some((request, _)) = self.asking.take() {
            self.send(ExecutionEvent::InputRequested(request));
        }
    }

    /// Gives the code an error instead of a line.
    pub(super) fn refuse(&mut self, why: &str, now: Instant) {
        self.wake = Some((now, Wake::Refused));
        if matches!(self.stdin, Stdin::Asked | Stdin::Closed) {
            let evalue = format!("the code asked for input: {why}");
            self.stdin = Stdin::Refused {
                why: evalue.clone(),
                times: 0,
            };
            let traceback = vec![format!("{NO_INPUT}: {evalue}")];
            let ename = NO_INPUT.to_owned();
            let error = ErrorContent {
                ename,
                evalue,
                traceback,
            };
            self.send(ExecutionEvent::Output(OutputEvent::Error(error)));
        }
    }

    pub(super) fn after_message(&mut self, now: Instant, late_outputs: Duration) {
        if self.asking.is_some() {
            self.puts_off_question(now);
            return;
        }
        match (&self.reply, self.idle) {
            (Some(_), true) if self.settling != Settling::Done => {
                let wait = if self.settling == Settling::Late {
                    MORE_LATE_OUTPUTS
                } else {
                    late_outputs
                };
                self.wake = Some((now + wait, Wake::Settled));
            }
            (Some(_), false) if !matches!(self.wake, Some((_, Wake::FenceLost))) => {
                self.wake = Some((now + QUIET, Wake::Quiet));
            }
            (None, true) => self.wake = Some((now + REPLY_WAIT, Wake::NoReply)),
            _ => {}
        }
    }

    /// Stops waiting for a reply: the code was stopped before it began, or the reply was lost.
    pub(super) fn give_up_reply(&mut self) {
        let status = match self.stop {
            Stop::None | Stop::Limit => ReplyStatus::Ok,
            Stop::Requested | Stop::TimeUp => ReplyStatus::Aborted,
        };
        self.reply = Some(ExecuteReply {
            status,
            ..ExecuteReply::default()
        });
        self.wake = None;
    }

    pub(super) fn mark_lost(&mut self) {
        self.idle = true;
        self.settling = Settling::Done;
        self.wake = None;
        self.send(ExecutionEvent::Output(OutputEvent::Lost(
            "the kernel never sent `idle`: some outputs may be missing".to_owned(),
        )));
    }

    pub(super) fn verdict(&self, reply: &ExecuteReply) -> Verdict {
        if let Stdin::Refused { why, .. } = &self.stdin
            && self.stop == Stop::None
        {
            let (ename, evalue) = (NO_INPUT.to_owned(), why.clone());
            return Verdict::Error { ename, evalue };
        }
        let failed = reply.status != ReplyStatus::Ok || self.error.is_some();
        match (self.stop, reply.status) {
            (Stop::Requested, _) if failed => Verdict::Interrupted,
            (Stop::TimeUp, _) if failed => Verdict::TimedOut,
            (_, ReplyStatus::Aborted) if !self.started || self.error.is_none() => Verdict::Aborted,
            _ if failed => {
                let (ename, evalue) = self
                    .error
                    .clone()
                    .unwrap_or_else(|| (reply.ename.clone(), reply.evalue.clone()));
                Verdict::Error { ename, evalue }
            }
            _ => Verdict::Ok,
        }
    }

    /// Whether an interrupt caused this verdict.
    pub(super) fn was_interrupted(&self, verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Interrupted | Verdict::TimedOut)
            || self.stop == Stop::Limit && *verdict != Verdict::Ok
    }

    pub(super) fn finish(&mut self, verdict: Verdict) {
        let count = self.count;
        self.send(ExecutionEvent::Finished(Outcome { verdict, count }));
    }
}
