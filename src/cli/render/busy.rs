//! The line that says that something goes on, for how long, and what stops it. It stands below everything else, is written
//! over and not erased first, and goes when something else is printed.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::super::style::{self, DIM, paint};
use super::cell::{clipped, write_now};
use super::{EventKind, Renderer};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Between two of them.
const FRAME: Duration = Duration::from_millis(125);
/// After something was printed: where more comes soon, a line that comes and goes would flicker.
const QUIET: Duration = Duration::from_millis(600);
/// Bytes of a token, about.
const BYTES_PER_TOKEN: usize = 4;

/// What goes on.
#[derive(Debug, Default)]
pub(super) struct Busy {
    what: Option<&'static str>,
    since: Option<Instant>,
    /// Bytes that the model has written since then.
    written: usize,
    /// The line is on the screen.
    pub(super) is_shown: bool,
    /// When it was drawn last.
    drawn: Option<Instant>,
    /// When something else was printed last.
    printed: Option<Instant>,
}

impl Busy {
    /// Something else is printed.
    pub(super) fn printed(&mut self) {
        self.printed = Some(Instant::now());
    }
}

impl Renderer {
    /// This goes on from now on.
    pub(super) fn status(&mut self, what: &'static str) {
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
        self.clear_status();
    }

    /// Follows what goes on.
    pub(super) fn follow(&mut self, event: &EventKind) {
        match event {
            EventKind::StepStarted { .. } => self.status("thinking"),
            EventKind::Text { text, .. } | EventKind::Reasoning { text } => {
                self.busy.written += text.len();
            }
            EventKind::CodeDelta { text, .. } => {
                if self.busy.what == Some("thinking") {
                    self.busy.what = Some("writing code");
                }
                self.busy.written += text.len();
            }
            EventKind::CodeApproved { .. } => self.status("waiting for the kernel"),
            EventKind::CodeStarted { .. } | EventKind::InputAnswered { .. } => {
                self.status("running");
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
        if self.moves_cursor {
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
        self.moves_cursor && self.fresh
    }

    fn draw_status(&mut self) {
        if !self.can_show_status() {
            return;
        }
        if let Some(line) = self.status_line() {
            write_now(&format!("\r{line}\u{1b}[K"));
            self.busy.is_shown = true;
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
        let mut line = format!("{} {what} · {}", FRAMES.get(frame)?, seconds(passed));
        let tokens = self.busy.written / BYTES_PER_TOKEN;
        if tokens > 0 {
            let _ = write!(line, " · ~{tokens} tokens");
        }
        line.push_str(" · Ctrl-C stops");
        let columns = usize::try_from(style::columns()).unwrap_or(80);
        let line = clipped(&line, columns.saturating_sub(1));
        Some(paint(DIM, &line, self.colours))
    }

    /// Takes the line away.
    pub(super) fn clear_status(&mut self) {
        if std::mem::take(&mut self.busy.is_shown) {
            write_now("\r\u{1b}[K");
        }
    }

    /// How long a cell has run that has just ended, if that is worth a word.
    pub(super) fn ran_for(&self) -> Option<String> {
        let since = self
            .busy
            .since
            .filter(|_| self.busy.what == Some("running"))?;
        let passed = since.elapsed();
        let is_told = passed >= Duration::from_secs(1) && self.moves_cursor;
        is_told.then(|| seconds(passed))
    }
}

/// `3 s`, `2 min 5 s`.
fn seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}
