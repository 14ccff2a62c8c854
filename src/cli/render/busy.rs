//! The status line: shows the current activity, its duration, and the key that stops it. It stands below everything
//! else, even below an unfinished line. It is overwritten rather than erased first, and disappears when other output
//! is printed.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::super::human;
use super::super::style::{self, DIM, WARN, paint};
use super::line::{clipped, write_now};
use super::{EventKind, Renderer};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Time between two updates.
const FRAME: Duration = Duration::from_millis(125);
/// Delay after other output: if more follows soon, the line would flicker.
const QUIET: Duration = Duration::from_millis(600);
/// Approximate bytes per token.
const BYTES_PER_TOKEN: usize = 4;
/// Makes room below the unfinished line, saves the cursor's position in it, then goes to the line below. A vertical
/// tab moves down in the same column, and scrolls.
const BELOW: &str = "\u{b}\u{1b}[A\u{1b}7\u{1b}[B\r\u{1b}[0m";
/// Restores that position and its colours.
const BACK: &str = "\u{1b}8";

/// The activity that a person waits for.
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
    /// The person wants the other activity to stop.
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

/// The current activity.
#[derive(Debug, Default)]
pub(super) struct Busy {
    what: Option<Activity>,
    /// The activity that is being stopped.
    stopping: Option<Activity>,
    since: Option<Instant>,
    /// Bytes that the model has written since it began.
    written: usize,
    /// The position of the line on the screen.
    pub(super) shown: Shown,
    /// When it was last drawn.
    drawn: Option<Instant>,
    /// When other output was last printed.
    printed: Option<Instant>,
}

/// The position of the status line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    #[default]
    Nowhere,
    /// The cursor is in it.
    Here,
    /// It is below the cursor's line.
    Below,
}

impl Shown {
    /// The sequence that erases it.
    pub(super) fn erasure(self) -> &'static str {
        match self {
            Self::Nowhere => "",
            Self::Here => "\r\u{1b}[K",
            Self::Below => "\u{1b}[J",
        }
    }
}

impl Busy {
    /// The model writes this text; the start of the wait is unchanged.
    fn writes(&mut self, what: Activity, text: &str) {
        if matches!(self.what, Some(Activity::Thinking | Activity::Writing)) {
            self.what = Some(what);
        }
        self.written += text.len();
    }

    /// Records other output.
    pub(super) fn printed(&mut self) {
        self.printed = Some(Instant::now());
    }
}

impl Renderer {
    /// Sets the current activity.
    pub(super) fn status(&mut self, what: Activity) {
        if self.busy.what != Some(what) {
            self.busy.what = Some(what);
            self.busy.since = Some(Instant::now());
            self.busy.written = 0;
        }
        self.draw_status();
    }

    /// Nothing is running that a person has to wait for.
    pub(super) fn idle(&mut self) {
        self.busy.what = None;
        self.busy.stopping = None;
        self.clear_status();
    }

    /// The person pressed Ctrl-C: shows at once that it was received.
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

    /// The activity has not stopped yet: explains why.
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

    /// Follows the events.
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

    /// When to redraw although no event comes: [`Renderer::wake`].
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

    /// When to redraw the line.
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

    /// The current text of the line.
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

    /// Erases the line.
    pub(super) fn clear_status(&mut self) {
        let erasure = std::mem::take(&mut self.busy.shown).erasure();
        if !erasure.is_empty() {
            write_now(erasure);
        }
    }
}
