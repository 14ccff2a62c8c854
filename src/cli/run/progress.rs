//! The progress of a run: a bar on the terminal's last line, lines, or an occasional line if nobody watches.
//!
//! The bar is removed before other output, and returns only at the start of a line, so it neither covers nor splits
//! what code prints.

use std::collections::HashMap;
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::time::{Duration, Instant};

use unicode_width::UnicodeWidthChar as _;

use super::super::args::ProgressArg;
use super::super::style::{self, DIM, paint};
use super::super::{eprint, filter};
use crate::agent::{EventKind, replay};
use crate::jupyter::nbformat::Notebook;

/// Without a terminal, the minimum time between lines.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// Characters of the bar.
const WIDTH: usize = 20;
/// How often the clock in the bar is updated.
pub(super) const TICK: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Bar,
    Lines,
    NowAndThen,
    None,
}

impl Mode {
    /// The style that the person wants; `useful`: there is more than one thing to wait for.
    pub(super) fn of(wanted: ProgressArg, useful: bool) -> Self {
        let terminal = style::moves_cursor();
        match wanted {
            // A terminal without cursor movement cannot remove a line.
            ProgressArg::Bar if std::io::stderr().is_terminal() && !terminal => Self::Lines,
            ProgressArg::Bar => Self::Bar,
            ProgressArg::Lines => Self::Lines,
            ProgressArg::None => Self::None,
            ProgressArg::Auto if !useful => Self::None,
            ProgressArg::Auto if terminal && !prints_to_pipe() => Self::Bar,
            ProgressArg::Auto => Self::NowAndThen,
        }
    }
}

/// Whether stdout is a pipe: its reader may print to the same terminal at any time, over the bar.
fn prints_to_pipe() -> bool {
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    let metadata = stdout.and_then(|it| std::fs::File::from(it).metadata());
    metadata.is_ok_and(|it| it.file_type().is_fifo())
}

/// A removable line on stderr.
pub(super) struct Line {
    drawn: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        Self { drawn: false }
    }

    pub(super) fn draw(&mut self, text: &str) {
        let columns = usize::try_from(style::columns()).unwrap_or(80);
        let mut shown = String::new();
        let mut width = 0;
        for c in text.chars() {
            width += c.width().unwrap_or(0);
            // Some terminals wrap after the last column.
            if width >= columns {
                break;
            }
            shown.push(c);
        }
        let shown = paint(DIM, &shown, style::stderr_colours());
        eprint(&format!("\r\u{1b}[2K{shown}"));
        self.drawn = true;
    }

    pub(super) fn hide(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint("\r\u{1b}[2K");
        }
    }
}

/// The progress of one notebook.
pub(super) struct Progress {
    mode: Mode,
    line: Line,
    /// Position (from 1), cell number (from 1) and first line, by id.
    cells: HashMap<String, (usize, usize, String)>,
    current: Option<(usize, usize, String)>,
    done: usize,
    begun: Instant,
    cell_begun: Instant,
    told: Instant,
}

impl Progress {
    pub(super) fn new(wanted: ProgressArg, notebook: &Notebook) -> Self {
        let cells: HashMap<_, _> = replay::runnable(notebook)
            .enumerate()
            .filter_map(|(position, index)| {
                let cell = notebook.cells.get(index)?;
                let first = cell.source.lines().find(|line| !line.trim().is_empty());
                let first = filter::plain(first.unwrap_or_default());
                Some((cell.id.clone(), (position + 1, index + 1, first)))
            })
            .collect();
        let now = Instant::now();
        Self {
            mode: Mode::of(wanted, cells.len() > 1),
            line: Line::new(),
            cells,
            current: None,
            done: 0,
            begun: now,
            cell_begun: now,
            told: now,
        }
    }

    /// Removes the bar, because other output follows.
    pub(super) fn hide(&mut self) {
        self.line.hide();
    }

    /// Whether the clock needs updates.
    pub(super) fn ticks(&self) -> bool {
        matches!(self.mode, Mode::Bar | Mode::NowAndThen)
    }

    /// Handles an event.
    pub(super) fn event(&mut self, event: &EventKind) {
        match event {
            EventKind::CodeStarted { cell } => {
                self.current = self.cells.get(cell).cloned();
                self.cell_begun = Instant::now();
            }
            EventKind::CodeFinished { status, .. } => {
                self.done += 1;
                if self.mode == Mode::Lines
                    && let Some((position, number, _)) = &self.current
                {
                    eprint(&format!(
                        "cell {number} ({position} of {}): {status}, {}\n",
                        self.cells.len(),
                        seconds(self.cell_begun.elapsed())
                    ));
                }
                self.current = None;
            }
            EventKind::RunFinished { .. } => {
                self.line.hide();
                self.mode = Mode::None;
            }
            _ => {}
        }
    }

    /// Shows the progress. `at_line_start`: the terminal's cursor is at the start of a line.
    pub(super) fn show(&mut self, at_line_start: bool) {
        match self.mode {
            Mode::Bar if at_line_start => {
                let code = self.current.as_ref().map_or("", |(.., code)| code.as_str());
                let text = format!(
                    "{} {}/{} cells  {}  {code}",
                    bar(self.done, self.cells.len()),
                    self.done,
                    self.cells.len(),
                    clock(self.begun.elapsed())
                );
                self.line.draw(&text);
            }
            Mode::NowAndThen if self.told.elapsed() >= NOW_AND_THEN => {
                self.told = Instant::now();
                if let Some((position, number, _)) = &self.current {
                    eprint(&format!(
                        "sponde: runs cell {number} ({position} of {}) for {}\n",
                        self.cells.len(),
                        seconds(self.cell_begun.elapsed())
                    ));
                }
            }
            Mode::Bar | Mode::Lines | Mode::NowAndThen | Mode::None => {}
        }
    }
}

/// `[=====>    ]`
pub(super) fn bar(done: usize, all: usize) -> String {
    let filled = (done * WIDTH).checked_div(all).unwrap_or(0).min(WIDTH);
    let head = if filled < WIDTH { ">" } else { "" };
    let rest = WIDTH.saturating_sub(filled + head.len());
    format!("[{}{head}{}]", "=".repeat(filled), " ".repeat(rest))
}

/// `0:12`, `1:02:03`
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// `0.4 s`, `12 s`
pub(super) fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(10) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} s", time.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_how_far() {
        assert_eq!(bar(0, 4), "[>                   ]");
        assert_eq!(bar(2, 4), "[==========>         ]");
        assert_eq!(bar(4, 4), "[====================]");
        assert_eq!(bar(0, 0), "[>                   ]");
        assert_eq!(clock(Duration::from_secs(72)), "1:12");
        assert_eq!(clock(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(seconds(Duration::from_millis(1234)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(75)), "75 s");
    }
}
