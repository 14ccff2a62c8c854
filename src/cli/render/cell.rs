//! The output of the running cell. If the cursor can be moved, its last lines stay below everything else and are
//! redrawn on each change; the complete output replaces them when the cell ends. Otherwise a line is printed once
//! nothing can change it any more.

use std::time::Duration;

use tokio::time::Instant;

use super::super::picture::{PictureSpace, Protocol};
use super::super::style::{self, DIM, paint};
use super::busy::Shown;
use super::code::ReplyCode;
use super::cursor::Cursor;
use super::line::{clipped, width, write_now};
use super::output::{CellOutput, HEAD, Picture, Row, TAIL};
use super::{Renderer, Section, filter};
use crate::agent::{EventKind, OutputChange};
use crate::cli::human;
use crate::cli::style::WARN;
use crate::session::CellStatus;
use crate::session::numbered::CellPlace;

/// Rows of the terminal kept for the text above a running cell's output.
const ABOVE: u32 = 4;
/// In a pipe, a cell's output is held back this long: by then, output that changes in place has shown that it does.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// What is known about the cells on the screen.
#[derive(Default)]
pub(super) struct Cells {
    /// The language of the main kernel.
    pub(super) main_language: String,
    /// The code of the latest reply.
    pub(super) reply: ReplyCode,
    /// The last code that did not run or failed, and its language.
    pub(super) failed: Option<(String, String)>,
    running: RunningCell,
    open: Option<OpenCell>,
    live: Live,
}

/// The running cell, or the last one.
#[derive(Default)]
struct RunningCell {
    /// Its number and language, if known.
    place: Option<CellPlace>,
    begun: Option<Instant>,
    /// How long it ran, for a recorded cell.
    took: Option<Duration>,
    /// The rule above its output shows how long it ran.
    is_time_told: bool,
}

/// The cell whose output is being shown.
struct OpenCell {
    id: String,
    output: CellOutput,
    /// Rows that were printed permanently.
    printed: usize,
    /// How often its output was cleared since.
    cleared: usize,
    begun: Instant,
}

/// The redrawn output of a running cell.
#[derive(Debug, Default)]
struct Live {
    /// The drawn lines.
    drawn: Vec<String>,
    /// The lines are on the screen.
    is_shown: bool,
    /// The terminal's width when they were drawn.
    columns: usize,
}

impl Renderer {
    pub(super) fn output(&mut self, cell: &str, change: &OutputChange) {
        if self.cells.open.as_ref().is_none_or(|open| open.id != cell) {
            self.settle(false);
        }
        let colours = self.can.colours;
        let open = self.cells.open.get_or_insert_with(|| OpenCell {
            id: cell.to_owned(),
            output: CellOutput::new(colours),
            printed: 0,
            cleared: 0,
            begun: Instant::now(),
        });
        open.output.apply(change);
        if !self.can.moves_cursor {
            self.print_settled();
        }
    }

    /// Sets the cell whose output follows.
    pub(in crate::cli) fn numbered(&mut self, place: Option<CellPlace>) {
        self.cells.running = RunningCell {
            place,
            ..RunningCell::default()
        };
    }

    /// Sets how long a recorded cell ran.
    pub(in crate::cli) fn took(&mut self, time: Option<Duration>) {
        self.cells.running.took = time;
    }

    /// The kernel has received the cell's code.
    pub(super) fn cell_begins(&mut self) {
        self.cells.running.begun = Some(Instant::now());
    }

    fn number(&self) -> Option<usize> {
        self.cells.running.place.as_ref().map(|place| place.number)
    }

    /// The title of the rule above an output: `output 4 · R`, with the cell's duration if it has ended and took long
    /// enough to mention.
    fn output_title(&self, is_over: bool) -> String {
        let place = self.cells.running.place.as_ref();
        let language = place.and_then(|place| place.language.as_ref());
        let language = filter::plain(language.unwrap_or(&self.cells.main_language));
        let number = place.map_or_else(String::new, |place| format!(" {}", place.number));
        let time = self.ran_for().filter(|_| is_over);
        let mut title = format!("output{number}");
        for more in [Some(language).filter(|it| !it.is_empty()), time]
            .into_iter()
            .flatten()
        {
            title.push_str(" · ");
            title.push_str(&more);
        }
        title
    }

    /// The cell's duration so far, if it is long enough to mention.
    fn ran_for(&self) -> Option<String> {
        let running = &self.cells.running;
        let passed = running
            .took
            .or(running.begun.map(|begun| begun.elapsed()))?;
        let is_told = passed >= Duration::from_secs(1) && self.can.is_terminal;
        is_told.then(|| human::seconds(passed))
    }

    pub(super) fn cell_finished(&mut self, cell: &str, status: CellStatus) {
        self.code_ended(cell, status);
        if !matches!(
            status,
            CellStatus::Ok | CellStatus::Error | CellStatus::Interrupted
        ) {
            self.note(WARN, &format!("{}: {status}", self.cells.reply.name(cell)));
        }
        if let Some(words) = self.ended_silently(status) {
            self.note(DIM, &words);
        } else if !self.cells.running.is_time_told
            && let Some(time) = self.ran_for()
        {
            self.note(DIM, &format!("({time})"));
        }
        self.cells.running.begun = None;
        self.end_line();
    }

    /// The text for a cell without output, which has a number that a person can refer to.
    fn ended_silently(&self, status: CellStatus) -> Option<String> {
        let number = self.number().filter(|_| self.chat)?;
        let is_silent = status == CellStatus::Ok && !matches!(self.section, Section::Output(_));
        let time = self
            .ran_for()
            .map_or_else(String::new, |it| format!(", {it}"));
        is_silent.then(|| format!("(cell {number}: no output{time})"))
    }

    /// Whether an event leaves the running cell's output open.
    pub(super) fn leaves_open(event: &EventKind) -> bool {
        matches!(
            event,
            EventKind::Output { .. }
                | EventKind::Notice { .. }
                | EventKind::StillRunning { .. }
                | EventKind::KernelReady { .. }
        )
    }

    /// Prints the current output permanently, because no more will come. `is_over`: the cell has ended.
    pub(super) fn settle(&mut self, is_over: bool) {
        if let Some(open) = self.cells.open.take() {
            let rows = open.output.rows(HEAD, TAIL);
            let rows = rows.get(open.printed..).unwrap_or_default();
            self.print_rows(&open.id, rows, is_over);
        }
        self.erase();
        self.cells.live.drawn.clear();
    }

    /// When to print held-back output with [`Renderer::print_settled`].
    pub(super) fn settles_at(&self) -> Option<Instant> {
        let open = self
            .cells
            .open
            .as_ref()
            .filter(|_| !self.can.moves_cursor)?;
        (open.output.settled() > open.printed).then_some(open.begun + SETTLED_AFTER)
    }

    /// Without redrawing: prints the rows that will not change.
    pub(super) fn print_settled(&mut self) {
        let Some(mut open) = self.cells.open.take() else {
            return;
        };
        if std::mem::replace(&mut open.cleared, open.output.cleared) < open.output.cleared {
            open.printed = 0;
        }
        let settled = open.output.settled();
        // A reading program waits; a person watches.
        let is_held = !self.can.is_terminal && open.begun.elapsed() < SETTLED_AFTER;
        if settled > open.printed && !is_held {
            let rows = open.output.rows(HEAD, TAIL);
            self.print_rows(
                &open.id,
                rows.get(open.printed..settled).unwrap_or_default(),
                false,
            );
            open.printed = settled;
        }
        self.cells.open = Some(open);
    }

    /// Prints rows permanently. Their drawn version is overwritten, not erased first.
    fn print_rows(&mut self, cell: &str, rows: &[Row<'_>], is_over: bool) {
        if rows.is_empty() {
            return;
        }
        let was_drawn = self.cells.live.is_shown;
        if !was_drawn {
            self.end_line();
        }
        let mut text = Settled::new(was_drawn);
        let section = Section::Output(cell.to_owned());
        if self.section != section {
            self.cells.running.is_time_told |= is_over;
            text.line(&rule(&self.output_title(is_over), self.can.colours));
            self.section = section;
        }
        for row in rows {
            match row {
                Row::Line(line) => text.line(line),
                Row::Picture(picture) => text.picture(drawn(picture, self.can.protocol)),
                Row::Hidden(lines) => {
                    let place = match self.number().filter(|_| self.chat) {
                        Some(number) => format!("/show {number} shows them"),
                        None => "in the notebook".to_owned(),
                    };
                    let words = format!("… {lines} more lines, {place}");
                    text.line(&paint(DIM, &words, self.can.colours));
                }
            }
        }
        if was_drawn {
            let up = self.go_up();
            self.cells.live.is_shown = false;
            self.busy.shown = Shown::Nowhere;
            write_now(&(up + &text.finish()));
            self.cursor = Cursor::default();
            self.busy.printed();
        } else {
            self.err(&text.finish());
        }
    }

    /// Draws the end of the running cell's output below everything else.
    pub(super) fn draw(&mut self) {
        if !self.can.moves_cursor {
            return;
        }
        let Some(open) = self.cells.open.take() else {
            return;
        };
        let mut lines = self.last_lines(&open.output);
        if !lines.is_empty() && self.section != Section::Output(open.id.clone()) {
            // The rule is redrawn with the lines; at the end it is printed again with the duration.
            let rule = rule(&self.output_title(false), self.can.colours);
            lines.insert(0, clipped(&rule, columns().saturating_sub(1)));
        }
        self.cells.open = Some(open);
        if self.cells.live.is_shown && self.cells.live.drawn == lines {
            return;
        }
        if !self.cells.live.is_shown {
            self.end_line();
        }
        let before = self.go_up();
        self.cells.live.drawn = lines;
        self.print_live(before);
    }

    fn print_live(&mut self, before: String) {
        let mut text = before;
        for line in &self.cells.live.drawn {
            text.push_str(line);
            text.push_str("\u{1b}[K\n");
        }
        self.cursor = Cursor::default();
        let status = self.status_line();
        self.busy.shown = match status {
            Some(_) => Shown::Here,
            None => Shown::Nowhere,
        };
        text.push_str(&status.unwrap_or_default());
        text.push_str("\u{1b}[J");
        write_now(&text);
        self.cells.live.is_shown = true;
        self.cells.live.columns = columns();
    }

    /// Erases the running cell's output, so that other output can be printed.
    pub(super) fn erase(&mut self) {
        let text = self.erasure();
        if !text.is_empty() {
            write_now(&text);
        }
    }

    /// The sequence that erases everything that can change.
    pub(super) fn erasure(&mut self) -> String {
        let status = std::mem::take(&mut self.busy.shown);
        if self.cells.live.is_shown {
            let up = self.go_up();
            self.cells.live.is_shown = false;
            return format!("{up}\u{1b}[J");
        }
        status.erasure().to_owned()
    }

    /// Moves the cursor to the start of the running cell's output. A terminal that has become narrower has wrapped
    /// lines.
    fn go_up(&self) -> String {
        let now = columns();
        let rows = |line: &String| {
            if now < self.cells.live.columns {
                width(line).div_ceil(now.max(1)).max(1)
            } else {
                1
            }
        };
        match self.cells.live.drawn.iter().map(rows).sum::<usize>() {
            rows @ 1.. if self.cells.live.is_shown => format!("\r\u{1b}[{rows}A"),
            _ => "\r".to_owned(),
        }
    }

    /// The last lines, clipped to the terminal's width, leaving room for the text above.
    fn last_lines(&self, output: &CellOutput) -> Vec<String> {
        let most = usize::try_from(style::rows().saturating_sub(ABOVE).max(3)).unwrap_or(TAIL);
        let columns = columns();
        let mut lines = Vec::new();
        let mut hidden = 0;
        for row in output.rows(0, most.min(TAIL)) {
            match row {
                Row::Line(line) => lines.push(clipped(&line, columns.saturating_sub(1))),
                // Only characters can be redrawn.
                Row::Picture(picture) if self.can.protocol == Protocol::HalfBlocks => {
                    lines.extend(drawn(picture, self.can.protocol).lines().map(str::to_owned));
                }
                Row::Picture(_) => lines.push("[plot]".to_owned()),
                Row::Hidden(more) => hidden += more,
            }
        }
        let over = lines.len().saturating_sub(most);
        lines.drain(..over);
        hidden += over;
        if hidden > 0 {
            let words = paint(DIM, &format!("… {hidden} lines above"), self.can.colours);
            lines.insert(0, words);
        }
        lines
    }
}

/// Writes permanent rows, possibly over drawn ones.
struct Settled {
    text: String,
    /// The rows that they overwrite follow below.
    writes_over: bool,
}

impl Settled {
    fn new(writes_over: bool) -> Self {
        Self {
            text: String::new(),
            writes_over,
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text
            .push_str(if self.writes_over { "\u{1b}[K\n" } else { "\n" });
    }

    /// Writes several rows; what is on the screen after their ends is unknown.
    fn picture(&mut self, drawn: &str) {
        if std::mem::take(&mut self.writes_over) {
            self.text.push_str("\u{1b}[J");
        }
        self.text.push_str(drawn);
    }

    fn finish(mut self) -> String {
        if self.writes_over {
            self.text.push_str("\u{1b}[J");
        }
        self.text
    }
}

/// The terminal sequence of a picture. Decoding is slow, so it is done once.
fn drawn(picture: &Picture, protocol: Protocol) -> &str {
    picture
        .drawn
        .get_or_init(|| protocol.render(&picture.encoded, PictureSpace::of_terminal()))
}

/// A rule with a title, as wide as the terminal up to the maximum text width.
pub(super) fn rule(title: &str, colours: bool) -> String {
    let columns = columns().min(72);
    let rest = columns.saturating_sub(title.chars().count() + 4);
    paint(DIM, &format!("── {title} {}", "─".repeat(rest)), colours)
}

fn columns() -> usize {
    usize::try_from(style::columns()).unwrap_or(80)
}
