//! Words on lines: a word is printed once it is whole, on the next line if this one has no room for it.

use anstyle::Style;
use unicode_width::UnicodeWidthChar as _;

use crate::cli::style::paint;

/// What does not begin a line in scripts that have no blanks.
const CLOSING: &str = "、。，．！？：；）」』】〉》…";

/// One line of a text, over as many of the terminal as it takes.
#[derive(Debug, Default)]
pub(super) struct Flow {
    colours: bool,
    width: usize,
    /// Where the next character goes.
    column: usize,
    /// What the lines after the first begin with, and how wide that is.
    hanging: (String, usize),
    /// Blanks in front of the word.
    gap: usize,
    word: String,
    word_width: usize,
    /// The word ends with a character that a line may end with.
    may_break: bool,
}

impl Flow {
    /// A line that begins with `first`, and goes on behind `hanging`; both are as wide as said.
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
            width: width.max(20),
            column: first.1,
            hanging,
            ..Self::default()
        }
    }

    /// A cell of a table, however narrow.
    pub(super) fn cell(width: usize, colours: bool) -> Self {
        Self {
            colours,
            width: width.max(1),
            ..Self::default()
        }
    }

    /// More of the line.
    pub(super) fn push(&mut self, style: Style, text: &str, out: &mut String) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match first {
                ' ' | '\t' => {
                    self.place(out);
                    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                    self.gap += blanks;
                    rest = rest.get(blanks..).unwrap_or_default();
                }
                '\n' => {
                    self.place(out);
                    self.break_line(out);
                    rest = rest.get(1..).unwrap_or_default();
                }
                _ => {
                    let end = rest.find([' ', '\t', '\n']).unwrap_or(rest.len());
                    let (word, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                    self.add(style, word, out);
                    rest = after;
                }
            }
        }
    }

    /// The line is over.
    pub(super) fn end(&mut self, out: &mut String) {
        self.place(out);
        out.push('\n');
    }

    fn add(&mut self, style: Style, text: &str, out: &mut String) {
        if text.is_ascii() {
            self.may_break_here(text.chars().next(), out);
            self.word_width += text.len();
            self.word.push_str(&paint(style, text, self.colours && style != Style::new()));
            return;
        }
        let mut begin = 0;
        for (at, c) in text.char_indices() {
            let width = c.width().unwrap_or(0);
            // Between two of these, or beside one, a line may end.
            if width == 2 || self.may_break {
                let so_far = text.get(begin..at).unwrap_or_default();
                self.word.push_str(&paint(style, so_far, self.colours && style != Style::new()));
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
        let last = text.get(begin..).unwrap_or_default();
        self.word.push_str(&paint(style, last, self.colours && style != Style::new()));
    }

    fn may_break_here(&mut self, next: Option<char>, out: &mut String) {
        let holds = |c: char| CLOSING.contains(c) || c.is_ascii_punctuation();
        if std::mem::take(&mut self.may_break) && !next.is_some_and(holds) {
            self.place(out);
        }
    }

    /// Puts the word where it belongs.
    fn place(&mut self, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let is_first = self.column <= self.hanging.1;
        if self.column + self.gap + self.word_width > self.width && !is_first {
            self.break_line(out);
        }
        out.extend(std::iter::repeat_n(' ', self.gap));
        out.push_str(&self.word);
        self.column += self.gap + self.word_width;
        self.gap = 0;
        self.word.clear();
        self.word_width = 0;
        self.may_break = false;
    }

    fn break_line(&mut self, out: &mut String) {
        out.push('\n');
        out.push_str(&self.hanging.0);
        self.column = self.hanging.1;
        self.gap = 0;
    }
}
