//! Renders a model's Markdown on a terminal as it arrives. Printed text is never redrawn, so it can be copied and
//! scrolled back.
//!
//! A line is held until its kind is known (a heading, an item, a fence, a table row); then its words are printed one
//! by one. Tables are held until they are complete. A line break in the source stays one on the screen: models write
//! lists and addresses without markup. The only control sequences in the output are our own colours.

mod flow;
mod inline;
mod table;

use anstyle::{Effects, Style};

use super::filter::{self, Filter};
use super::style::{DIM, paint};
use super::tint::tint;
use crate::export::{Class, Highlighter};
use flow::Flow;
use inline::{CODE, Look, Rest, pieces};
use table::Table;

/// After this many bytes, a line is treated as text whatever it could become.
const UNDECIDED: usize = 200;
/// Maximum bytes of a table row.
const LONGEST_ROW: usize = 64 << 10;
/// The deepest indent that is kept.
const DEEPEST: usize = 16;

/// Turns Markdown into text with colours, piece by piece.
pub(super) struct Markdown {
    width: usize,
    colours: bool,
    filter: Filter,
    /// The part of the current line that is not printed yet.
    held: String,
    line: Line,
    fence: Option<Fence>,
    table: Option<Table>,
    blank: Blank,
}

/// What is known about the current line.
enum Line {
    /// Nothing yet.
    Undecided,
    /// Its words are being printed. The character is the one before `held`.
    Flowing(Flow, Look, Option<char>),
    /// Code, which is printed as it arrives.
    Code,
}

/// A pending blank line, to be printed before the next block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blank {
    /// Nothing has been printed yet.
    Begin,
    None,
    Due,
}

/// An open code block.
struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    highlighter: Highlighter,
}

/// The block that a line begins or continues.
enum Block {
    Blank,
    ThematicBreak,
    Fence(Fence),
    TableRow,
    /// A heading: its level, and the length of its marker in bytes.
    Heading(usize, usize),
    /// Text after a marker of this many bytes, with the prefixes of its first line and of the others.
    Text {
        skip: usize,
        first: (String, usize),
        hanging: (String, usize),
    },
}

impl Markdown {
    /// A renderer for a terminal.
    pub(super) fn new(colours: bool) -> Self {
        Self {
            width: 80,
            colours,
            filter: Filter::new(false),
            held: String::new(),
            line: Line::Undecided,
            fence: None,
            table: None,
            blank: Blank::Begin,
        }
    }

    /// Sets the number of columns from now on.
    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width;
        if let Line::Flowing(flow, ..) = &mut self.line {
            flow.set_width(width);
        }
    }

    /// Takes more of the text, and returns what can be printed.
    pub(super) fn push(&mut self, text: &str) -> String {
        let text = self.filter.push(text);
        let mut out = String::with_capacity(text.len() + text.len() / 4);
        for piece in text.split_inclusive('\n') {
            if let Some(piece) = piece.strip_suffix('\n') {
                self.take(piece);
                self.end_line(&mut out);
            } else {
                self.take(piece);
                self.go_on(Rest::Perhaps, &mut out);
            }
        }
        out
    }

    /// Returns the rest: the text is complete, or other output follows.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.held.is_empty() || !matches!(self.line, Line::Undecided) {
            self.end_line(&mut out);
        }
        self.end_table(&mut out);
        let colours = self.colours;
        if let Some(fence) = &mut self.fence {
            let mut give = |class: Class, text: &str| tint(class, text, colours, &mut out);
            fence.highlighter.finish(&mut give);
        }
        self.blank = Blank::Begin;
        self.filter.begin_again();
        out
    }

    fn take(&mut self, piece: &str) {
        // Carriage returns are removed, because they could overwrite a line.
        if piece.contains('\r') {
            self.held.push_str(&piece.replace('\r', ""));
        } else {
            self.held.push_str(piece);
        }
    }

    fn end_line(&mut self, out: &mut String) {
        self.go_on(Rest::None, out);
        match std::mem::replace(&mut self.line, Line::Undecided) {
            Line::Flowing(mut flow, ..) => flow.end(out),
            Line::Code => self.code("\n", out),
            Line::Undecided => {}
        }
        self.held.clear();
    }

    /// Prints the part of the current line that is certain.
    fn go_on(&mut self, rest: Rest, out: &mut String) {
        if matches!(self.line, Line::Undecided) {
            if self.fence.is_some() {
                self.begin_code(rest, out);
            } else if let Some(block) = block_of(&self.held, rest) {
                self.begin(block, out);
            }
        }
        match &mut self.line {
            Line::Undecided => {}
            Line::Flowing(flow, look, before) => {
                let done = pieces(&self.held, *before, rest, *look, &mut |style, text| {
                    flow.push(style, text, out);
                });
                let printed = self.held.get(..done).unwrap_or_default();
                *before = printed.chars().next_back().or(*before);
                self.held.drain(..done);
            }
            Line::Code => {
                let code = std::mem::take(&mut self.held);
                self.code(&code, out);
            }
        }
    }

    fn begin(&mut self, block: Block, out: &mut String) {
        if matches!(block, Block::TableRow) {
            if self.table.is_none() {
                self.apart(out);
            }
            let table = self.table.get_or_insert_default();
            table.push(&self.held, self.width, self.colours, out);
            self.held.clear();
            return;
        }
        self.end_table(out);
        match block {
            Block::TableRow => {}
            Block::Blank => {
                if self.blank == Blank::None {
                    self.blank = Blank::Due;
                }
                self.held.clear();
            }
            Block::ThematicBreak => {
                self.space(out);
                let rule = "─".repeat(self.width.min(40));
                out.push_str(&paint(DIM, &rule, self.colours));
                out.push('\n');
                self.held.clear();
            }
            Block::Fence(fence) => {
                self.apart(out);
                if !self.colours {
                    out.push_str(&self.held);
                    out.push('\n');
                }
                self.fence = Some(fence);
                self.held.clear();
            }
            Block::Heading(level, skip) => {
                self.apart(out);
                let effects = match level {
                    1 => Effects::BOLD | Effects::UNDERLINE,
                    _ => Effects::BOLD,
                };
                let marks = if self.colours { 0 } else { skip };
                let mark = self.held.get(..marks).unwrap_or_default().to_owned();
                let style = Style::new().effects(effects);
                let hanging = (String::new(), 0);
                self.flow(skip, (&mark, marks), hanging, style, out);
            }
            Block::Text {
                skip,
                first,
                hanging,
            } => {
                self.space(out);
                let (text, width) = first;
                self.flow(skip, (&text, width), hanging, Style::new(), out);
            }
        }
    }

    fn flow(
        &mut self,
        skip: usize,
        first: (&str, usize),
        hanging: (String, usize),
        style: Style,
        out: &mut String,
    ) {
        let colours = self.colours;
        let flow = Flow::begin(self.width, colours, first, hanging, out);
        self.held.drain(..skip.min(self.held.len()));
        self.line = Line::Flowing(flow, Look { colours, style }, None);
    }

    /// Prints a blank line if one is due.
    fn space(&mut self, out: &mut String) {
        if self.blank == Blank::Due {
            out.push('\n');
        }
        self.blank = Blank::None;
    }

    /// Prints a blank line, except at the beginning.
    fn apart(&mut self, out: &mut String) {
        if self.blank == Blank::None {
            self.blank = Blank::Due;
        }
        self.space(out);
    }

    fn end_table(&mut self, out: &mut String) {
        if let Some(mut table) = self.table.take() {
            table.print(self.width, self.colours, out);
            if table.is_one() {
                self.blank = Blank::Due;
            }
        }
    }

    /// A line within a fence: its end, or code.
    fn begin_code(&mut self, rest: Rest, out: &mut String) {
        let Some(fence) = &mut self.fence else { return };
        let bare = self.held.trim_start();
        let marks = bare.chars().take_while(|&c| c == fence.mark).count();
        let is_all_marks = bare.trim_end().chars().all(|c| c == fence.mark);
        if is_all_marks && rest == Rest::Perhaps && self.held.len() < UNDECIDED {
            return;
        }
        if is_all_marks && marks >= fence.length {
            let colours = self.colours;
            fence
                .highlighter
                .finish(&mut |class, text| tint(class, text, colours, out));
            if !colours {
                out.push_str(&self.held);
                out.push('\n');
            }
            self.fence = None;
            self.blank = Blank::Due;
            self.held.clear();
            return;
        }
        let indent = self.held.len() - bare.len();
        self.held.drain(..indent.min(fence.indent));
        self.line = Line::Code;
    }

    fn code(&mut self, code: &str, out: &mut String) {
        let Some(fence) = &mut self.fence else { return };
        let colours = self.colours;
        let code = filter::code(code);
        if !fence.highlighter.knows_language() {
            out.push_str(&painted(CODE, &code, colours));
            return;
        }
        let mut give = |class: Class, text: &str| tint(class, text, colours, out);
        fence.highlighter.push(&code, &mut give);
    }
}

/// Renders a complete text.
pub(super) fn rendered(text: &str, width: usize, colours: bool) -> String {
    let mut markdown = Markdown::new(colours);
    markdown.set_width(width);
    let mut shown = markdown.push(text);
    shown.push_str(&markdown.finish());
    shown
}

/// Paints each line separately.
fn painted(style: Style, text: &str, colours: bool) -> String {
    let lines = text.split('\n').map(|line| paint(style, line, colours));
    lines.collect::<Vec<_>>().join("\n")
}

/// The kind of block that a line with this beginning is; `None` if that is not certain.
fn block_of(line: &str, rest: Rest) -> Option<Block> {
    let is_whole = rest == Rest::None || line.len() >= UNDECIDED;
    let bare = line.trim_start_matches([' ', '\t']);
    let indent = line.len() - bare.len();
    let Some(first) = bare.chars().next() else {
        return is_whole.then_some(Block::Blank);
    };
    let run = bare.chars().take_while(|&c| c == first).count();
    let after = bare.get(run * first.len_utf8()..).unwrap_or_default();
    match first {
        '`' | '~' if run >= 3 || after.is_empty() => {
            if !is_whole {
                return None;
            }
            let is_fence = run >= 3 && !(first == '`' && after.contains('`'));
            Some(if is_fence {
                let name = after
                    .trim()
                    .split([' ', ',', '{', '}'])
                    .find(|it| !it.is_empty());
                Block::Fence(Fence {
                    mark: first,
                    length: run,
                    indent,
                    highlighter: Highlighter::new(name.unwrap_or_default()),
                })
            } else {
                words(indent)
            })
        }
        '#' if run <= 6 && indent < 4 => match after.chars().next() {
            Some(' ') => {
                let blanks = after.len() - after.trim_start_matches(' ').len();
                Some(Block::Heading(run, indent + run + blanks))
            }
            None if !is_whole => None,
            _ => Some(words(indent)),
        },
        '|' if line.len() < LONGEST_ROW => (rest == Rest::None).then_some(Block::TableRow),
        '-' | '*' | '_' | '+' if is_like_rule(bare, first) => {
            if !is_whole {
                return None;
            }
            let marks = bare.chars().filter(|&c| c == first).count();
            Some(match marks {
                3.. if first != '+' => Block::ThematicBreak,
                _ if run == 1 && after.starts_with(' ') && first != '_' => {
                    item(indent, 1, after, "•")
                }
                _ => words(indent),
            })
        }
        '-' | '*' | '+' if run == 1 && after.starts_with(' ') => Some(item(indent, 1, after, "•")),
        '0'..='9' => {
            let digits = bare
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(bare.len());
            let after = bare.get(digits..).unwrap_or_default();
            let end = after.get(..2).unwrap_or(after);
            match end {
                ". " | ") " => {
                    let marker = bare.get(..=digits).unwrap_or_default();
                    let after = after.get(1..).unwrap_or_default();
                    Some(item(indent, digits + 1, after, marker))
                }
                "" | "." | ")" if !is_whole && digits < 10 => None,
                _ => Some(words(indent)),
            }
        }
        '>' => quote(line, indent, is_whole),
        _ => Some(words(indent)),
    }
}

/// Whether the line has only `mark` and blanks.
fn is_like_rule(bare: &str, mark: char) -> bool {
    bare.chars().all(|c| c == mark || c == ' ')
}

fn words(indent: usize) -> Block {
    let depth = indent.min(DEEPEST);
    let blanks = " ".repeat(depth);
    Block::Text {
        skip: indent,
        first: (blanks.clone(), depth),
        hanging: (blanks, depth),
    }
}

/// A list item after a marker of `length` bytes.
fn item(indent: usize, length: usize, after: &str, shown: &str) -> Block {
    let blanks = after.len() - after.trim_start_matches(' ').len();
    let depth = indent.min(DEEPEST);
    let width = depth + shown.chars().count() + 1;
    Block::Text {
        skip: indent + length + blanks,
        first: (format!("{}{shown} ", " ".repeat(depth)), width),
        hanging: (" ".repeat(width), width),
    }
}

fn quote(line: &str, indent: usize, is_whole: bool) -> Option<Block> {
    let marks = line.find(|c: char| !matches!(c, '>' | ' ' | '\t'));
    let marks = marks.or(is_whole.then_some(line.len()))?;
    let depth = line.get(indent..marks)?.matches('>').count().min(DEEPEST);
    let bar = "│ ".repeat(depth);
    Some(Block::Text {
        skip: marks,
        first: (bar.clone(), depth * 2),
        hanging: (bar, depth * 2),
    })
}

#[cfg(test)]
mod tests;
