//! The line that says that something goes on, for how long, and what stops it. It stands below everything else, also below a
//! line that has not ended, is written over and not erased first, and goes when something else is printed.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::super::human;
use super::super::style::{self, DIM, WARN, paint};
use super::line::{clipped, write_now};
use super::{EventKind, Renderer};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Between two of them.
const FRAME: Duration = Duration::from_millis(125);
/// After something was printed: where more comes soon, a line that comes and goes would flicker.
const QUIET: Duration = Duration::from_millis(600);
/// Bytes of a token, about.
const BYTES_PER_TOKEN: usize = 4;
/// Makes room below the line that has not ended and keeps the cursor's place in it, then goes to the line below. A vertical tab
/// goes down in the same column, and scrolls.
const BELOW: &str = "\u{b}\u{1b}[A\u{1b}7\u{1b}[B\r\u{1b}[0m";
/// Back to that place, in the colours that were there.
const BACK: &str = "\u{1b}8";

/// What a person waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Thinking,
    Writing,
    WritingCode,
    WritingNextCell,
    WaitingForKernel,
    Running,
    Compacting,
    WaitingToAskAgain,
    /// The person wants the other thing to stop.
    Stopping,
}

impl Activity {
    fn words(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::Writing => "writing",
            Self::WritingCode => "writing code",
            Self::WritingNextCell => "writing the next cell",
            Self::WaitingForKernel => "waiting for the kernel",
            Self::Running => "running",
            Self::Compacting => "compacting the conversation",
            Self::WaitingToAskAgain => "waiting to ask again",
            Self::Stopping => "stopping",
        }
    }
}

/// What goes on.
#[derive(Debug, Default)]
pub(super) struct Busy {
    what: Option<Activity>,
    /// What is to stop.
    stopping: Option<Activity>,
    since: Option<Instant>,
    /// Bytes that the model has written since then.
    written: usize,
    /// Where the line is on the screen.
    pub(super) shown: Shown,
    /// When it was drawn last.
    drawn: Option<Instant>,
    /// When something else was printed last.
    printed: Option<Instant>,
}

/// Where the line stands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    #[default]
    Nowhere,
    /// The cursor is in it.
    Here,
    /// Below the line in which the cursor is.
    Below,
}

impl Shown {
    /// What takes it away.
    pub(super) fn erasure(self) -> &'static str {
        match self {
            Self::Nowhere => "",
            Self::Here => "\r\u{1b}[K",
            Self::Below => "\u{1b}[J",
        }
    }
}

impl Busy {
    /// The model has written this; since when it is waited for is the same.
    fn writes(&mut self, what: Activity, text: &str) {
        if matches!(self.what, Some(Activity::Thinking | Activity::Writing)) {
            self.what = Some(what);
        }
        self.written += text.len();
    }

    /// Something else is printed.
    pub(super) fn printed(&mut self) {
        self.printed = Some(Instant::now());
    }
}

impl Renderer {
    /// This goes on from now on.
    pub(super) fn status(&mut self, what: Activity) {
        if self.busy.what != Some(what) {
            self.busy.what = Some(what);
            self.busy.since = Some(Instant::now());
            self.busy.written = 0;
        }
        self.draw_status();
    }

    /// Nothing goes on that a person has to wait for.
    pub(super) fn idle(&mut self) {
        self.busy.what = None;
        self.busy.stopping = None;
        self.clear_status();
    }

    /// The person has pressed Ctrl-C: they see at once that it was noticed.
    pub(in crate::cli) fn stopping(&mut self) {
        let Some(what) = self.busy.what else { return };
        if what != Activity::Stopping {
            self.busy.stopping = Some(what);
        }
        self.status(Activity::Stopping);
        if self.can.is_terminal && !self.can.moves_cursor && what != Activity::Stopping {
            self.note(DIM, "stopping");
        }
    }

    /// Whether a cell runs.
    pub(in crate::cli) fn is_running(&self) -> bool {
        let what = self.busy.stopping.or(self.busy.what);
        what == Some(Activity::Running)
    }

    /// It has not stopped yet: says why.
    pub(in crate::cli) fn has_not_stopped(&mut self) {
        let words = match self.busy.stopping {
            None => return,
            Some(Activity::Running) => {
                "not stopped yet: compiled code runs until it returns, or the cell handles the interrupt itself; Ctrl-C again \
                 restarts the kernel"
                    .to_owned()
            }
            Some(other) => format!("not stopped yet: still {}", other.words()),
        };
        self.note(WARN, &words);
    }

    /// Follows what goes on.
    pub(super) fn follow(&mut self, event: &EventKind) {
        match event {
            EventKind::StepStarted { .. } => self.status(Activity::Thinking),
            EventKind::Reasoning { text } => self.busy.written += text.len(),
            EventKind::Text { text, .. } => self.busy.writes(Activity::Writing, text),
            EventKind::CodeDelta { text, .. } => self.busy.writes(Activity::WritingCode, text),
            EventKind::CodeApproved { .. } => self.status(Activity::WaitingForKernel),
            EventKind::CodeStarted { .. } | EventKind::InputAnswered { .. } => {
                self.status(Activity::Running);
            }
            EventKind::CodeProposed { .. }
            | EventKind::CodeFinished { .. }
            | EventKind::ApprovalRequested { .. }
            | EventKind::InputRequested { .. }
            | EventKind::ContinueRequested { .. }
            | EventKind::TurnFinished { .. } => self.idle(),
            _ => {}
        }
    }

    /// When there is something to draw anew although nothing has happened: [`Renderer::wake`].
    pub(in crate::cli) fn wakes_at(&self) -> Option<Instant> {
        self.settles_at().or_else(|| self.ticks_at())
    }

    /// See [`Renderer::wakes_at`].
    pub(in crate::cli) fn wake(&mut self) {
        if self.can.moves_cursor {
            self.draw_status();
        } else {
            self.print_settled();
        }
    }

    /// When the line is to be drawn anew.
    fn ticks_at(&self) -> Option<Instant> {
        self.busy.what?;
        if !self.can_show_status() {
            return None;
        }
        let next = self.busy.drawn.map(|at| at + FRAME);
        let quiet = self.busy.printed.map(|at| at + QUIET);
        Some(next.max(quiet).unwrap_or_else(Instant::now))
    }

    fn can_show_status(&self) -> bool {
        self.can.moves_cursor && self.cursor.can_return()
    }

    fn draw_status(&mut self) {
        if !self.can_show_status() {
            return;
        }
        let Some(line) = self.status_line() else {
            return;
        };
        if self.cursor.is_at_start() {
            write_now(&format!("\r{line}\u{1b}[K"));
            self.busy.shown = Shown::Here;
        } else {
            write_now(&format!("{BELOW}{line}\u{1b}[K{BACK}"));
            self.busy.shown = Shown::Below;
        }
    }

    /// What stands there now.
    pub(super) fn status_line(&mut self) -> Option<String> {
        let (what, since) = (self.busy.what?, self.busy.since?);
        let now = Instant::now();
        self.busy.drawn = Some(now);
        let passed = now - since;
        let frame = passed.as_millis() / FRAME.as_millis();
        let frame = usize::try_from(frame).unwrap_or(0) % FRAMES.len();
        let (frame, time) = (FRAMES.get(frame)?, human::seconds(passed));
        let mut line = format!("{frame} {} · {time}", what.words());
        let tokens = self.busy.written / BYTES_PER_TOKEN;
        if tokens > 0 {
            let _ = write!(line, " · ~{tokens} tokens");
        }
        match (what, self.busy.stopping) {
            (Activity::Stopping, Some(Activity::Running)) => {
                line.push_str(" · Ctrl-C again restarts the kernel");
            }
            (Activity::Stopping, _) => {}
            _ => line.push_str(" · Ctrl-C stops"),
        }
        let columns = usize::try_from(style::columns()).unwrap_or(80);
        let line = clipped(&line, columns.saturating_sub(1));
        Some(paint(DIM, &line, self.can.colours))
    }

    /// Takes the line away.
    pub(super) fn clear_status(&mut self) {
        let erasure = std::mem::take(&mut self.busy.shown).erasure();
        if !erasure.is_empty() {
            write_now(erasure);
        }
    }
}
