//! The output of one cell as a person reads it: its first and last lines, and all errors and results in full, whatever
//! was printed before them.
//!
//! It is stored as in the notebook, so that progress bars, `clear_output` and updated displays leave their last state.
//! Memory is bounded: lines in the middle of a text are only counted.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::VecDeque;

use unicode_width::UnicodeWidthStr as _;

use super::super::filter::Filter;
use super::super::{markdown, style};
use super::frame;
use super::traceback;
use crate::agent::OutputChange;
use crate::jupyter::mime::{Audience, MimeBundle};
use crate::jupyter::nbformat::Output;
use crate::session::outputs::{Text, floor_boundary};
use crate::session::shown_text::shown_text;

/// How many lines are shown of a cell's beginning.
pub(super) const HEAD: usize = 40;
/// How many lines are shown of a cell's end; see [`HEAD`] for its beginning.
pub(super) const TAIL: usize = 20;
/// How many bytes of one line are shown.
const LINE_BYTES: usize = 2000;
/// Bytes of a line that a progress bar can still overwrite.
const OPEN_LINE: usize = 64 << 10;
/// How many outputs of a cell are kept; beyond that, those in the middle are only counted.
const BLOCKS: usize = 200;
/// Maximum bytes of colours carried over to the next line.
const COLOURS: usize = 128;

/// The output of a cell.
#[derive(Debug, Default)]
pub(super) struct CellOutput {
    colours: bool,
    blocks: Vec<Block>,
    clear_on_next: bool,
    /// The cell clears its output, so the next state may replace all of it.
    clears: bool,
    /// How often the output was cleared.
    pub(super) cleared: usize,
}

/// One thing to show.
#[derive(Debug, Clone)]
pub(super) enum Row<'a> {
    /// A line, safe for a terminal.
    Line(Cow<'a, str>),
    /// A picture.
    Picture(&'a Picture),
    /// This many lines are not shown.
    Hidden(usize),
}

/// An encoded picture.
#[derive(Debug, Default)]
pub(super) struct Picture {
    pub(super) encoded: Vec<u8>,
    /// Its terminal sequence.
    pub(super) drawn: OnceCell<String>,
}

#[derive(Debug)]
enum Block {
    Text(StreamText),
    Display {
        id: Option<String>,
        shown: Shown,
        /// An error or a result, which is always shown.
        always: bool,
    },
    /// Lines of outputs that were not kept.
    Gap(usize),
}

#[derive(Debug)]
enum Shown {
    Lines(Lines),
    Picture(Picture),
}

impl CellOutput {
    pub(super) fn new(colours: bool) -> Self {
        Self {
            colours,
            ..Self::default()
        }
    }

    /// Applies one change.
    pub(super) fn apply(&mut self, change: &OutputChange) {
        match change {
            OutputChange::Append { output, display_id } => {
                self.clear_if_due();
                self.append(output, display_id.clone());
            }
            OutputChange::Update {
                display_id, data, ..
            } => {
                self.clear_if_due();
                let new = shown(data, self.colours);
                let old = self.blocks.iter_mut().find_map(|block| match block {
                    Block::Display { id, shown, .. } if id.as_ref() == Some(display_id) => {
                        Some(shown)
                    }
                    _ => None,
                });
                match old {
                    Some(old) => *old = new,
                    // It belongs to a cell that has scrolled off.
                    None => self.push(Block::Display {
                        id: Some(display_id.clone()),
                        shown: new,
                        always: false,
                    }),
                }
            }
            OutputChange::Clear { wait } => {
                self.clears = true;
                self.clear_on_next = true;
                if !wait {
                    self.clear_if_due();
                }
            }
        }
    }

    fn clear_if_due(&mut self) {
        if std::mem::take(&mut self.clear_on_next) {
            self.blocks.clear();
            self.cleared += 1;
        }
    }

    fn append(&mut self, output: &Output, id: Option<String>) {
        match output {
            Output::Stream { name, text, .. } => self.text(name, text),
            Output::DisplayData { data, .. } => {
                let shown = shown(data, self.colours);
                let always = false;
                self.push(Block::Display { id, shown, always });
            }
            Output::ExecuteResult { data, .. } => {
                let shown = shown(data, self.colours);
                let always = true;
                self.push(Block::Display { id, shown, always });
            }
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => {
                let text = if traceback.is_empty() {
                    format!("{ename}: {evalue}")
                } else {
                    traceback.join("\n")
                };
                let text = traceback::coloured(&text, ename, self.colours);
                self.push(Block::Display {
                    id: None,
                    shown: Shown::Lines(lines_of(&text, self.colours)),
                    always: true,
                });
            }
            Output::Other(_) => self.text("stdout", "[output of an unknown type]\n"),
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        let stream = if name == "stderr" { "stderr" } else { "stdout" };
        let text = self.end_bar(stream, text);
        if text.is_empty() {
            return;
        }
        if !matches!(self.blocks.last(), Some(Block::Text(last)) if last.stream == stream) {
            self.push(Block::Text(StreamText::new(stream, self.colours)));
        }
        if let Some(Block::Text(last)) = self.blocks.last_mut() {
            last.push(text);
        }
    }

    /// A progress bar often ends its line after the other stream has continued: a line break at the start of `text`
    /// belongs to it, and is no empty line. Returns the rest.
    fn end_bar<'a>(&mut self, stream: &str, text: &'a str) -> &'a str {
        let Some(rest) = text.strip_prefix('\n') else {
            return text;
        };
        let [.., Block::Text(bar), Block::Text(other)] = self.blocks.as_mut_slice() else {
            return text;
        };
        if bar.stream != stream || other.stream == stream || bar.last().is_none() {
            return text;
        }
        bar.end_line();
        rest
    }

    fn push(&mut self, block: Block) {
        self.blocks.push(block);
        if self.blocks.len() <= BLOCKS {
            return;
        }
        let middle = BLOCKS / 2;
        let more = self.blocks.remove(middle).count();
        match self.blocks.get_mut(middle - 1) {
            Some(Block::Gap(hidden)) => *hidden += more,
            _ => self.blocks.insert(middle, Block::Gap(more)),
        }
    }

    /// The rows to show: `head` lines of the beginning, `tail` of the end, errors and results.
    pub(super) fn rows(&self, head: usize, tail: usize) -> Vec<Row<'_>> {
        let mut all = Vec::new();
        for block in &self.blocks {
            block.rows(&mut all);
        }
        let counted = |(row, always): &(Row, bool)| !always && !matches!(row, Row::Hidden(_));
        let count = all.iter().filter(|it| counted(it)).count();
        // A note about one missing line takes as much room as the line.
        let is_whole = !all.iter().any(|(row, _)| matches!(row, Row::Hidden(_)));
        let tail_begins = if count <= head + tail + usize::from(is_whole) {
            head
        } else {
            count - tail
        };
        let (mut rows, mut hidden, mut seen) = (Vec::new(), 0, 0);
        for (row, always) in all {
            if let Row::Hidden(more) = row {
                hidden += more;
                continue;
            }
            seen += usize::from(!always);
            if !always && seen > head && seen <= tail_begins {
                hidden += 1;
                continue;
            }
            if hidden > 0 {
                rows.push(Row::Hidden(std::mem::take(&mut hidden)));
            }
            rows.push(row);
        }
        if hidden > 0 {
            rows.push(Row::Hidden(hidden));
        }
        rows
    }

    /// How many rows from the beginning will not change any more.
    pub(super) fn settled(&self) -> usize {
        let mut all = Vec::new();
        for (index, block) in self.blocks.iter().enumerate() {
            if self.clears || matches!(block, Block::Display { id: Some(_), .. }) {
                break;
            }
            block.rows(&mut all);
            if let Block::Text(text) = block
                && index + 1 == self.blocks.len()
                && text.last().is_some()
            {
                all.pop();
            }
        }
        let mut counted = 0;
        let stays = |(row, always): &&(Row, bool)| {
            counted += usize::from(!always);
            counted <= HEAD && !matches!(row, Row::Hidden(_))
        };
        all.iter().take_while(stays).count()
    }
}

impl Block {
    fn rows<'a>(&'a self, rows: &mut Vec<(Row<'a>, bool)>) {
        match self {
            Self::Text(text) => {
                text.lines.rows(false, rows);
                rows.extend(text.last().map(|line| (Row::Line(Cow::Owned(line)), false)));
            }
            Self::Display { shown, always, .. } => match shown {
                Shown::Lines(lines) => lines.rows(*always, rows),
                Shown::Picture(picture) => rows.push((Row::Picture(picture), *always)),
            },
            Self::Gap(hidden) => rows.push((Row::Hidden(*hidden), false)),
        }
    }

    /// The number of lines.
    fn count(&self) -> usize {
        match self {
            Self::Text(text) => text.lines.count() + usize::from(text.last().is_some()),
            Self::Display { shown, .. } => match shown {
                Shown::Lines(lines) => lines.count(),
                Shown::Picture(_) => 1,
            },
            Self::Gap(hidden) => *hidden,
        }
    }
}

/// A display in a form that a terminal can show.
fn shown(data: &MimeBundle, colours: bool) -> Shown {
    if let Some(mime) = data.raster()
        && let Some(Ok(encoded)) = data.bytes(mime)
    {
        return Shown::Picture(Picture {
            encoded,
            ..Picture::default()
        });
    }
    let text = shown_text(data);
    let is_markdown = data
        .richest_for(Audience::Terminal)
        .is_some_and(|(mime, _)| mime == "text/markdown");
    if let Some(width) = style::terminal_width().filter(|_| is_markdown && style::moves_cursor()) {
        return Shown::Lines(lines_of(
            &markdown::rendered(&text, width, colours),
            colours,
        ));
    }
    let frame = style::terminal_width().and_then(|width| fitted(data, &text, width));
    Shown::Lines(lines_of(frame.as_ref().unwrap_or(&text), colours))
}

/// Refits a data frame whose `text` is wider than `width` columns, or was split into blocks for another width.
fn fitted(data: &MimeBundle, text: &str, width: usize) -> Option<String> {
    let fits = |line: &str| line.width() <= width && !line.ends_with('\\');
    let html = data
        .text_of("text/html")
        .filter(|_| !text.lines().all(fits))?;
    frame::fitted(&html, width)
}

fn lines_of(text: &str, colours: bool) -> Lines {
    let mut all = StreamText::new("", colours);
    all.push(text);
    all.end_line();
    all.lines
}

/// The first and the last lines of a text.
#[derive(Debug, Default)]
struct Lines {
    head: Vec<String>,
    hidden: usize,
    tail: VecDeque<String>,
}

impl Lines {
    fn push(&mut self, line: String) {
        if self.head.len() < HEAD {
            self.head.push(line);
            return;
        }
        // One more than is shown: see `CellOutput::rows`.
        if self.tail.len() > TAIL {
            self.tail.pop_front();
            self.hidden += 1;
        }
        self.tail.push_back(line);
    }

    fn count(&self) -> usize {
        self.head.len() + self.hidden + self.tail.len()
    }

    fn rows<'a>(&'a self, always: bool, rows: &mut Vec<(Row<'a>, bool)>) {
        let row = |line: &'a String| (Row::Line(Cow::Borrowed(&**line)), always);
        rows.extend(self.head.iter().map(row));
        if self.hidden > 0 {
            rows.push((Row::Hidden(self.hidden), always));
        }
        rows.extend(self.tail.iter().map(row));
    }
}

/// Text of one stream.
#[derive(Debug)]
struct StreamText {
    stream: &'static str,
    lines: Lines,
    /// The last line as it arrived.
    open: Text,
    /// The start of a last line that is too long to be overwritten.
    begun: String,
    filter: Filter,
    /// Colours at the start of the next line.
    carried: String,
}

impl StreamText {
    fn new(stream: &'static str, colours: bool) -> Self {
        Self {
            stream,
            lines: Lines::default(),
            open: Text::new("stdout"),
            begun: String::new(),
            filter: Filter::new(colours),
            carried: String::new(),
        }
    }

    fn push(&mut self, text: &str) {
        // In pieces, so that a line of megabytes is never held in full.
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(floor_boundary(rest, OPEN_LINE));
            rest = after;
            self.open.push(piece);
            for piece in self.open.take_lines(OPEN_LINE).split_inclusive('\n') {
                let line = piece.strip_suffix('\n').unwrap_or(piece);
                let line = self.filter.push(line);
                append_within(&mut self.begun, &line);
                if piece.ends_with('\n') {
                    self.end_begun();
                }
            }
        }
    }

    fn end_begun(&mut self) {
        let line = std::mem::take(&mut self.begun);
        self.lines.push(coloured(&line, &mut self.carried));
    }

    /// The unfinished line.
    fn last(&self) -> Option<String> {
        let mut line = self.begun.clone();
        let open = self.filter.clone().push(self.open.as_str());
        append_within(&mut line, &open);
        (!line.is_empty()).then(|| coloured(&line, &mut self.carried.clone()))
    }

    fn end_line(&mut self) {
        if let Some(last) = self.last() {
            self.open = Text::new("stdout");
            self.begun.clear();
            self.lines.push(last);
        }
    }
}

/// Appends to a line, up to its limit.
fn append_within(line: &mut String, more: &str) {
    if line.len() + 4 > LINE_BYTES && line.ends_with('…') {
        return;
    }
    let cut = floor_boundary(more, LINE_BYTES.saturating_sub(line.len()));
    line.push_str(more.get(..cut).unwrap_or_default());
    if cut < more.len() {
        line.push('…');
    }
}

/// A line whose colours begin and end within it. `carried` holds the colours of the line before, and is set to those
/// for the next.
fn coloured(line: &str, carried: &mut String) -> String {
    let line = line.trim_end_matches(['\r']);
    if carried.is_empty() && !line.contains('\u{1b}') {
        return line.to_owned();
    }
    let mut shown = carried.clone();
    shown.push_str(line);
    for (at, _) in line.match_indices("\u{1b}[") {
        let rest = line.get(at + 2..).unwrap_or_default();
        let Some((codes, _)) = rest.split_once('m') else {
            continue;
        };
        if codes.is_empty() || codes == "0" || codes.starts_with("0;") || carried.len() > COLOURS {
            carried.clear();
        }
        if !codes.is_empty() && codes != "0" {
            carried.push_str("\u{1b}[");
            carried.push_str(codes);
            carried.push('m');
        }
    }
    shown.push_str("\u{1b}[0m");
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::nbformat::Output;

    fn stream(name: &str, text: &str) -> OutputChange {
        OutputChange::Append {
            output: Output::stream(name, text),
            display_id: None,
        }
    }

    fn display(text: &str, id: Option<&str>) -> OutputChange {
        OutputChange::Append {
            output: Output::display(MimeBundle::text(text), serde_json::Map::new()),
            display_id: id.map(str::to_owned),
        }
    }

    fn error(text: &str) -> OutputChange {
        OutputChange::Append {
            output: Output::error("E", "", vec![text.to_owned()]),
            display_id: None,
        }
    }

    fn told(output: &CellOutput, head: usize, tail: usize) -> Vec<String> {
        let row = |row: &Row| match row {
            Row::Line(line) => line.to_string(),
            Row::Picture(_) => "picture".to_owned(),
            Row::Hidden(lines) => format!("({lines})"),
        };
        output.rows(head, tail).iter().map(row).collect()
    }

    fn of(changes: &[OutputChange]) -> CellOutput {
        let mut output = CellOutput::new(true);
        for change in changes {
            output.apply(change);
        }
        output
    }

    fn numbers(range: std::ops::Range<usize>) -> String {
        let all: Vec<String> = range.map(|n| n.to_string()).collect();
        all.join("\n") + "\n"
    }

    #[test]
    fn errors_and_results_are_shown_whatever_was_printed() {
        let many = stream("stdout", &numbers(0..100_000));
        let result = OutputChange::Append {
            output: Output::result(Some(1), MimeBundle::text("42"), serde_json::Map::new()),
            display_id: None,
        };
        let all = of(&[error("first"), many.clone(), result, many, error("1/0")]);
        assert_eq!(
            told(&all, 2, 2),
            [
                "first", "0", "1", "(99998)", "42", "(99998)", "99998", "99999", "1/0"
            ]
        );
    }

    #[test]
    fn what_is_between_is_counted() {
        for (lines, expected) in [
            (HEAD + TAIL, None),
            (HEAD + TAIL + 1, None),
            (HEAD + TAIL + 2, Some((HEAD, "(2)"))),
            (1000, Some((HEAD, "(940)"))),
        ] {
            let all = of(&[stream("stdout", &numbers(0..lines))]);
            let shown = told(&all, HEAD, TAIL);
            let found = shown.iter().position(|row| row.starts_with('('));
            let found = found.map(|at| (at, &*shown[at]));
            assert_eq!(found, expected, "{lines}");
            assert_eq!(shown.last().unwrap(), &(lines - 1).to_string());
        }
        // The same if each line is a separate output.
        let mut all = CellOutput::new(false);
        for n in 0..500 {
            all.apply(&stream(["stdout", "stderr"][n % 2], &format!("{n}\n")));
        }
        assert_eq!(told(&all, 1, 1), ["0", "(498)", "499"]);
    }

    #[test]
    fn the_last_state_is_what_is_shown() {
        let mut changes = Vec::new();
        for n in 0..200 {
            changes.push(stream("stderr", &format!("\r{n}%|{}", "#".repeat(n))));
        }
        changes.push(stream("stdout", "done\n"));
        changes.push(stream("stderr", "\n"));
        let bar = format!("199%|{}", "#".repeat(199));
        assert_eq!(told(&of(&changes), HEAD, TAIL), [&bar, "done"]);

        let clear = OutputChange::Clear { wait: true };
        let cleared = of(&[stream("stdout", "1\n"), clear.clone()]);
        assert_eq!(told(&cleared, HEAD, TAIL), ["1"]);
        let cleared = of(&[stream("stdout", "1\n"), clear, stream("stdout", "2\n")]);
        assert_eq!(told(&cleared, HEAD, TAIL), ["2"]);

        let update = OutputChange::Update {
            display_id: "x".to_owned(),
            data: MimeBundle::text("new"),
            metadata: serde_json::Map::new(),
        };
        let updated = of(&[display("old", Some("x")), display("after", None), update]);
        assert_eq!(told(&updated, HEAD, TAIL), ["new", "after"]);
    }

    #[test]
    fn what_can_change_is_not_settled() {
        let clear = OutputChange::Clear { wait: true };
        for (changes, settled) in [
            (vec![stream("stdout", "1\n2\nopen")], 2),
            (
                vec![stream("stdout", "1\n"), stream("stderr", "2\n"), error("3")],
                3,
            ),
            (vec![stream("stdout", "open"), stream("stderr", "2\n")], 2),
            (
                vec![
                    display("1", None),
                    display("2", Some("x")),
                    display("3", None),
                ],
                1,
            ),
            (
                vec![stream("stdout", &numbers(0..1000)), error("1/0")],
                HEAD,
            ),
            (vec![stream("stdout", "1\n"), clear], 0),
        ] {
            assert_eq!(of(&changes).settled(), settled, "{changes:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_costs_no_more_than_is_shown() {
        let mut all = of(&[stream("stdout", &"x".repeat(3 << 20))]);
        all.apply(&stream("stdout", "y\nnext\n"));
        let shown = told(&all, HEAD, TAIL);
        assert_eq!(
            shown,
            [format!("{}…", "x".repeat(LINE_BYTES)), "next".to_owned()]
        );
    }

    #[test]
    fn colours_begin_and_end_in_a_line() {
        let all = of(&[stream("stdout", "\u{1b}[31mred\nstill\u{1b}[0m\nplain\n")]);
        assert_eq!(
            told(&all, HEAD, TAIL),
            [
                "\u{1b}[31mred\u{1b}[0m",
                "\u{1b}[31mstill\u{1b}[0m\u{1b}[0m",
                "plain"
            ]
        );
    }
}
