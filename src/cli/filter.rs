//! Text from kernels and models, made safe for a terminal.
//!
//! Colours (SGR) stay if colours are on; every other escape sequence goes: a cell must not be able to write the
//! clipboard (OSC 52), move the cursor over what a person approves, or change the title. Characters that reorder text
//! (bidirectional controls) are shown by their code. State is kept between pieces, so that a sequence cut in two is
//! still recognised.

use crate::ansi::{Parser, Piece};

/// A filter for one stream of text.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    colours: bool,
    parser: Parser,
}

impl Filter {
    /// A filter that lets colours through, or not.
    pub(super) fn new(colours: bool) -> Self {
        Self {
            colours,
            ..Self::default()
        }
    }

    /// Forgets a sequence that was left open.
    pub(super) fn begin_again(&mut self) {
        *self = Self::new(self.colours);
    }

    /// The part of `text` that may be shown.
    pub(super) fn push(&mut self, text: &str) -> String {
        // Almost all text is harmless.
        if self.parser.is_in_text() && harmless(text) == text.len() {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        let colours = self.colours;
        self.parser.parse(text, |piece| match piece {
            Piece::Text(text) => push_text(text, &mut shown),
            Piece::Colour(codes) if colours => {
                shown.push_str("\u{1b}[");
                shown.push_str(codes);
                shown.push('m');
            }
            Piece::Colour(_) => {}
        });
        shown
    }
}

fn push_text(text: &str, shown: &mut String) {
    let mut rest = text;
    while !rest.is_empty() {
        let (harmless, other) = rest.split_at(harmless(rest));
        shown.push_str(harmless);
        let mut chars = other.chars();
        if let Some(c) = chars.next() {
            push_safe(c, shown);
        }
        rest = chars.as_str();
    }
}

/// The length of the prefix that has only printable ASCII and line ends.
fn harmless(text: &str) -> usize {
    let is_harmless = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    let bytes = text.as_bytes();
    bytes
        .iter()
        .position(|byte| !is_harmless(byte))
        .unwrap_or(bytes.len())
}

fn push_safe(c: char, shown: &mut String) {
    match c {
        '\n' | '\t' | '\r' => shown.push(c),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            shown.extend(c.escape_unicode());
        }
        c if c.is_control() => {}
        c => shown.push(c),
    }
}

/// Filters all of `text` at once, without colours. Nothing in it can return to the start of its line and overwrite it.
pub(super) fn plain(text: &str) -> String {
    let mut shown = Filter::new(false).push(text);
    shown.retain(|c| c != '\r');
    shown
}

/// The same, keeping its colours if `colours`.
pub(super) fn coloured(text: &str, colours: bool) -> String {
    let mut shown = Filter::new(colours).push(text);
    shown.retain(|c| c != '\r');
    if colours && shown.contains('\u{1b}') {
        shown.push_str("\u{1b}[0m");
    }
    shown
}

/// Code with everything written out that a terminal would not show: what a person approves is what runs.
pub(super) fn code(text: &str) -> String {
    let (begin, rest) = text.split_at(harmless(text));
    let mut shown = String::with_capacity(text.len());
    shown.push_str(begin);
    for c in rest.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            c if c.is_control() => shown.extend(c.escape_default()),
            c => push_safe(c, &mut shown),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_get_through() {
        for (text, coloured, plain_text) in [
            (
                "a\u{1b}[31mred\u{1b}[0m\n",
                "a\u{1b}[31mred\u{1b}[0m\n",
                "ared\n",
            ),
            ("\u{1b}[38:2:1:2:3mx", "\u{1b}[38:2:1:2:3mx", "x"),
            ("\u{1b}]52;c;aGFjaw==\u{7}after", "after", "after"),
            ("\u{1b}]0;title\u{1b}\\after", "after", "after"),
            ("\u{1b}[2J\u{1b}[1;1Hx", "x", "x"),
            ("\u{1b}[>4;2m\u{1b}[?25lx", "x", "x"),
            ("\u{1b}P1$r\u{1b}x\u{1b}\\y", "y", "y"),
            ("\u{9b}31mx\u{9d}0;t\u{9c}y", "\u{1b}[31mxy", "xy"),
            ("\u{1b}(Bx\u{1b}cy\u{8}\u{0}z", "xyz", "xyz"),
            ("tab\tcr\r\nüñ\r😀", "tab\tcr\r\nüñ\r😀", "tab\tcr\nüñ😀"),
            ("rm\u{202e}txt", "rm\\u{202e}txt", "rm\\u{202e}txt"),
        ] {
            assert_eq!(Filter::new(true).push(text), coloured, "{text:?}");
            assert_eq!(plain(text), plain_text, "{text:?}");
            let mut filter = Filter::new(true);
            let pieces: String = text.chars().map(|c| filter.push(&c.to_string())).collect();
            assert_eq!(pieces, coloured, "{text:?} in pieces");
        }
    }

    #[test]
    fn code_hides_nothing() {
        assert_eq!(
            code("x = 1 #\u{1b}]\ny = 2\rz\t\u{9b}\u{202e}\u{0}é"),
            "x = 1 #\\u{1b}]\ny = 2\\rz\t\\u{9b}\\u{202e}\\u{0}é"
        );
    }
}
