//! Lines on the terminal: their width, clipping, and writing them.

use std::io::{self, Write as _};

use unicode_width::UnicodeWidthChar as _;

/// Columns between tab stops.
const TAB: usize = 8;

/// Writes to stderr at once.
pub(super) fn write_now(text: &str) {
    let mut stderr = io::stderr().lock();
    // If stderr is closed, there is nowhere left to report it.
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// The columns that a line takes, with its colours.
pub(super) fn width(line: &str) -> usize {
    let mut is_colour = false;
    let of = |c: char| {
        let is_part = c == '\u{1b}' || is_colour;
        is_colour = is_part && c != 'm';
        if is_part { 0 } else { c.width().unwrap_or(0) }
    };
    line.chars().map(of).sum()
}

/// The part of a line, with its colours, that fits into `columns`.
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
