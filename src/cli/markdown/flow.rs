//! Wraps words: a word is printed once it is complete, on the next line if it does not fit on this one.

use std::fmt::Write as _;

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

/// Minimum columns of a line.
const NARROWEST: usize = 20;

/// Characters that cannot begin a line in scripts without spaces.
const CLOSING: &str = "、。，．！？：；）」』】〉》…";

/// One line of text, wrapped over as many terminal lines as needed.
#[derive(Debug, Default)]
pub(super) struct Flow {
    colours: bool,
    width: usize,
    /// The column of the next character.
    column: usize,
    /// The prefix of the lines after the first, and its width.
    hanging: (String, usize),
    /// Blanks before the word.
    gap: usize,
    word: String,
    word_width: usize,
    /// The style at the end of the word.
    style: Style,
    /// The word ends with a character after which a line break is allowed.
    may_break: bool,
}

impl Flow {
    /// Begins a line with `first`; its other lines begin with `hanging`. Both have the given widths.
    pub(super) fn begin(
        width: usize,
        colours: bool,
        first: (&str, usize),
        hanging: (String, usize),
        out: &mut String,
    ) -> Self {
        out.push_str(first.0);
        Self {
            colours,
            width: width.max(NARROWEST),
            column: first.1,
            hanging,
            ..Self::default()
        }
    }

    /// Sets the terminal's width from here on.
    pub(super) fn set_width(&mut self, width: usize) {
        self.width = width.max(NARROWEST);
    }

    /// A table cell, however narrow.
    pub(super) fn cell(width: usize, colours: bool) -> Self {
        Self {
            colours,
            width: width.max(1),
            ..Self::default()
        }
    }

    /// Takes more of the line.
    pub(super) fn push(&mut self, style: Style, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(first) = rest.bytes().next() {
            let is_blank = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n');
            if is_blank(first) {
                self.place(out);
                if first == b'\n' {
                    self.break_line(out);
                } else {
                    self.gap += 1;
                }
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = rest.bytes().position(is_blank);
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            // A complete word does not have to be stored.
            let is_plain = self.word.is_empty() && !after.is_empty() && style == Style::new();
            if is_plain && word.is_ascii() {
                self.begin_word(word.len(), out);
                out.push_str(word);
            } else {
                self.add(style, word, out);
            }
            rest = after;
        }
    }

    /// Ends the line.
    pub(super) fn end(&mut self, out: &mut String) {
        self.place(out);
        out.push('\n');
    }

    fn add(&mut self, style: Style, text: &str, out: &mut String) {
        if text.is_ascii() {
            self.may_break_here(text.bytes().next().map(char::from), out);
            self.word_width += text.len();
            self.append(style, text);
            return;
        }
        let mut begin = 0;
        for (at, c) in text.char_indices() {
            let width = c.width().unwrap_or(0);
            // A line may break between two of these, or next to one.
            if width == 2 || self.may_break {
                self.append(style, text.get(begin..at).unwrap_or_default());
                begin = at;
                if width == 2 && !CLOSING.contains(c) {
                    self.place(out);
                } else {
                    self.may_break_here(Some(c), out);
                }
            }
            self.word_width += width;
            self.may_break = width == 2;
        }
        self.append(style, text.get(begin..).unwrap_or_default());
    }

    /// Appends to the word.
    fn append(&mut self, style: Style, text: &str) {
        if text.is_empty() {
            return;
        }
        let style = if self.colours { style } else { Style::new() };
        if style != self.style {
            self.end_style();
            if style != Style::new() {
                let _ = write!(self.word, "{style}");
            }
            self.style = style;
        }
        self.word.push_str(text);
    }

    /// Ends a colour with its word.
    fn end_style(&mut self) {
        if self.style != Style::new() {
            self.word.push_str("\u{1b}[0m");
            self.style = Style::new();
        }
    }

    fn may_break_here(&mut self, next: Option<char>, out: &mut String) {
        let holds = |c: char| CLOSING.contains(c) || c.is_ascii_punctuation();
        if std::mem::take(&mut self.may_break) && !next.is_some_and(holds) {
            self.place(out);
        }
    }

    /// Prints the word at its place.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        self.end_style();
        self.begin_word(self.word_width, out);
        out.push_str(&self.word);
        self.word.clear();
        self.word_width = 0;
        self.may_break = false;
    }

    /// Makes room for a word.
    fn begin_word(&mut self, width: usize, out: &mut String) {
        let is_first = self.column <= self.hanging.1;
        if self.column + self.gap + width > self.width && !is_first {
            self.break_line(out);
        }
        match self.gap {
            1 => out.push(' '),
            gap => out.extend(std::iter::repeat_n(' ', gap)),
        }
        self.column += self.gap + width;
        self.gap = 0;
    }

    fn break_line(&mut self, out: &mut String) {
        out.push('\n');
        out.push_str(&self.hanging.0);
        self.column = self.hanging.1;
        self.gap = 0;
    }
}
