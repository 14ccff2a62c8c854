//! The output of the cell that runs. Where the cursor can be moved its last lines stand below everything else and are
//! drawn anew with each change; when the cell has ended they give way to the whole. Elsewhere lines are printed once
//! nothing can change them any more.

use std::io::{self, Write as _};
use std::time::Duration;

use tokio::time::Instant;
use unicode_width::UnicodeWidthChar as _;

use super::super::picture::{PictureSpace, Protocol};
use super::super::style::{self, DIM, paint};
use super::output::{CellOutput, HEAD, Picture, Row, TAIL};
use super::{Renderer, Section};
use crate::agent::{EventKind, OutputChange};

/// Rows of the terminal that are left to what stands above the output of a running cell.
const ABOVE: u32 = 4;
/// In a pipe, the output of a cell is held back for so long: what changes in place has shown that by then.
const SETTLED_AFTER: Duration = Duration::from_secs(1);
/// Columns between tab stops.
const TAB: usize = 8;

/// The cell whose output is being shown.
pub(super) struct OpenCell {
    id: String,
    output: CellOutput,
    /// Rows that were printed for good.
    printed: usize,
    /// How often they went since.
    cleared: usize,
    begun: Instant,
}

/// Where the output of a running cell is drawn.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The lines that stand there.
    drawn: Vec<String>,
    /// They are on the screen.
    is_shown: bool,
    /// How wide that was.
    columns: usize,
}

impl Renderer {
    pub(super) fn output(&mut self, cell: &str, change: &OutputChange) {
        if self.cell.as_ref().is_none_or(|open| open.id != cell) {
            self.settle();
        }
        let colours = self.colours;
        let open = self.cell.get_or_insert_with(|| OpenCell {
            id: cell.to_owned(),
            output: CellOutput::new(colours),
            printed: 0,
            cleared: 0,
            begun: Instant::now(),
        });
        open.output.apply(change);
        if !self.moves_cursor {
            self.print_settled();
        }
    }

    /// The cell whose output comes now, by the number that commands of a chat take.
    pub(in crate::cli) fn numbered(&mut self, number: Option<usize>) {
        self.number = number;
    }

    fn output_title(&self) -> String {
        match self.number.filter(|_| self.chat) {
            Some(number) => format!("output of cell {number}"),
            None => "output".to_owned(),
        }
    }

    /// Whether an event leaves the output of the running cell open.
    pub(super) fn leaves_open(event: &EventKind) -> bool {
        matches!(
            event,
            EventKind::Output { .. }
                | EventKind::Notice { .. }
                | EventKind::StillRunning { .. }
                | EventKind::KernelReady { .. }
        )
    }

    /// No more will come of the output that is being shown: prints it for good.
    pub(super) fn settle(&mut self) {
        self.erase();
        self.live.drawn.clear();
        let Some(open) = self.cell.take() else {
            return;
        };
        let rows = open.output.rows(HEAD, TAIL);
        self.print_rows(&open.id, rows.get(open.printed..).unwrap_or_default());
    }

    /// When output that is held back is to be printed with [`Renderer::print_settled`].
    pub(super) fn settles_at(&self) -> Option<Instant> {
        let open = self.cell.as_ref().filter(|_| !self.moves_cursor)?;
        (open.output.settled() > open.printed).then_some(open.begun + SETTLED_AFTER)
    }

    /// Where nothing can be drawn over: prints what will stay as it is.
    pub(super) fn print_settled(&mut self) {
        let Some(mut open) = self.cell.take() else {
            return;
        };
        if std::mem::replace(&mut open.cleared, open.output.cleared) < open.output.cleared {
            open.printed = 0;
        }
        let settled = open.output.settled();
        // A program that reads this waits; a person looks on.
        let is_held = !self.terminal && open.begun.elapsed() < SETTLED_AFTER;
        if settled > open.printed && !is_held {
            let rows = open.output.rows(HEAD, TAIL);
            self.print_rows(
                &open.id,
                rows.get(open.printed..settled).unwrap_or_default(),
            );
            open.printed = settled;
        }
        self.cell = Some(open);
    }

    fn print_rows(&mut self, cell: &str, rows: &[Row<'_>]) {
        if rows.is_empty() {
            return;
        }
        let title = self.output_title();
        self.open(Section::Output(cell.to_owned()), &title);
        for row in rows {
            match row {
                Row::Line(line) => self.err(&format!("{line}\n")),
                Row::Picture(picture) => {
                    let drawn = drawn(picture, self.protocol).to_owned();
                    self.err(&drawn);
                }
                Row::Hidden(lines) => {
                    let place = match self.number.filter(|_| self.chat) {
                        Some(number) => format!("/show {number} shows them"),
                        None => "in the notebook".to_owned(),
                    };
                    let words = format!("… {lines} more lines, {place}\n");
                    let words = paint(DIM, &words, self.colours);
                    self.err(&words);
                }
            }
        }
    }

    /// Draws the end of the running cell's output below everything else.
    pub(super) fn draw(&mut self) {
        if !self.moves_cursor {
            return;
        }
        let Some(open) = self.cell.take() else {
            return;
        };
        let lines = self.last_lines(&open.output);
        if !lines.is_empty() {
            let section = Section::Output(open.id.clone());
            if self.section != section {
                let title = self.output_title();
                self.open(section, &title);
            }
        }
        self.cell = Some(open);
        if self.live.is_shown && self.live.drawn == lines {
            return;
        }
        if !self.live.is_shown {
            self.end_line();
        }
        let before = self.go_up();
        self.live.drawn = lines;
        self.print_live(before);
    }

    fn print_live(&mut self, before: String) {
        let mut text = before;
        for line in &self.live.drawn {
            text.push_str(line);
            text.push_str("\u{1b}[K\n");
        }
        text.push_str("\u{1b}[J");
        self.fresh = true;
        let status = self.status_line();
        self.busy.is_shown = status.is_some();
        text.push_str(&status.unwrap_or_default());
        write_now(&text);
        self.live.is_shown = true;
        self.live.columns = columns();
    }

    /// Takes the running cell's output away, so that something else can be printed.
    pub(super) fn erase(&mut self) {
        let text = self.erasure();
        if !text.is_empty() {
            write_now(&text);
        }
    }

    /// What takes away whatever can change.
    pub(super) fn erasure(&mut self) -> String {
        let is_status = std::mem::take(&mut self.busy.is_shown);
        if self.live.is_shown {
            let up = self.go_up();
            self.live.is_shown = false;
            return format!("{up}\u{1b}[J");
        }
        if is_status {
            return "\r\u{1b}[K".to_owned();
        }
        String::new()
    }

    /// Moves the cursor to where the running cell's output begins. A terminal that has become narrower has broken lines.
    fn go_up(&self) -> String {
        let now = columns();
        let rows = |line: &String| {
            if now < self.live.columns {
                width(line).div_ceil(now.max(1)).max(1)
            } else {
                1
            }
        };
        match self.live.drawn.iter().map(rows).sum::<usize>() {
            rows @ 1.. if self.live.is_shown => format!("\r\u{1b}[{rows}A"),
            _ => "\r".to_owned(),
        }
    }

    /// As many lines as leave room for what stands above, none wider than the terminal.
    fn last_lines(&self, output: &CellOutput) -> Vec<String> {
        let most = usize::try_from(style::rows().saturating_sub(ABOVE).max(3)).unwrap_or(TAIL);
        let columns = columns();
        let mut lines = Vec::new();
        let mut hidden = 0;
        for row in output.rows(0, most.min(TAIL)) {
            match row {
                Row::Line(line) => lines.push(clipped(&line, columns.saturating_sub(1))),
                // Only characters can be drawn over.
                Row::Picture(picture) if self.protocol == Protocol::HalfBlocks => {
                    lines.extend(drawn(picture, self.protocol).lines().map(str::to_owned));
                }
                Row::Picture(_) => lines.push("[plot]".to_owned()),
                Row::Hidden(more) => hidden += more,
            }
        }
        let over = lines.len().saturating_sub(most);
        lines.drain(..over);
        hidden += over;
        if hidden > 0 {
            let words = paint(DIM, &format!("… {hidden} lines above"), self.colours);
            lines.insert(0, words);
        }
        lines
    }
}

/// What a terminal gets for a picture. Decoding takes its time, so this is done once.
fn drawn(picture: &Picture, protocol: Protocol) -> &str {
    picture
        .drawn
        .get_or_init(|| protocol.render(&picture.encoded, PictureSpace::of_terminal()))
}

pub(super) fn write_now(text: &str) {
    let mut stderr = io::stderr().lock();
    // Nobody can be told that stderr is gone.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

fn columns() -> usize {
    usize::try_from(style::columns()).unwrap_or(80)
}

/// How many columns a line takes, with its colours.
fn width(line: &str) -> usize {
    let mut is_colour = false;
    let of = |c: char| {
        let is_part = c == '\u{1b}' || is_colour;
        is_colour = is_part && c != 'm';
        if is_part { 0 } else { c.width().unwrap_or(0) }
    };
    line.chars().map(of).sum()
}

/// What of a line, with its colours, fits into `columns`.
pub(in crate::cli) fn clipped(line: &str, columns: usize) -> String {
    let mut shown = String::with_capacity(line.len());
    let (mut width, mut is_colour, mut is_full) = (0, false, false);
    for c in line.chars() {
        if c == '\u{1b}' || is_colour {
            is_colour = c != 'm';
            shown.push(c);
            continue;
        }
        let wide = if c == '\t' {
            TAB - width % TAB
        } else {
            c.width().unwrap_or(0)
        };
        if is_full || width + wide > columns {
            is_full = true;
            continue;
        }
        width += wide;
        if c == '\t' {
            shown.extend(std::iter::repeat_n(' ', wide));
        } else if c != '\r' {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_the_terminal() {
        for (line, expected) in [
            ("abcdefgh", "abcdef"),
            ("\u{1b}[31mabcdefgh\u{1b}[0m", "\u{1b}[31mabcdef\u{1b}[0m"),
            ("日本語日本", "日本語"),
            ("a\tb", "a"),
        ] {
            assert_eq!(clipped(line, 6), expected);
        }
        assert_eq!(clipped("a\tb", 9), "a       b");
    }
}
