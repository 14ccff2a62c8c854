//! Tracks the cursor's column from the printed text.

use unicode_width::UnicodeWidthChar as _;

/// Columns between tab stops.
const TAB: usize = 8;

/// The position in a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    column: usize,
    /// The line is full, and the next character begins another one.
    is_at_end: bool,
}

impl Cursor {
    pub(super) fn is_at_start(self) -> bool {
        self.column == 0
    }

    /// Whether the position can be saved and restored: terminals differ in what they save when a line is full.
    pub(super) fn can_return(self) -> bool {
        !self.is_at_end
    }

    /// Follows `text`, which has only complete control sequences, on a terminal of this width.
    pub(super) fn after(&mut self, text: &str, columns: u32) {
        let columns = usize::try_from(columns).unwrap_or(usize::MAX).max(1);
        let line = match text.rsplit_once('\n') {
            Some((_, line)) => {
                *self = Self::default();
                line
            }
            None => text,
        };
        let mut rest = line.chars();
        while let Some(c) = rest.next() {
            match c {
                '\u{1b}' => skip_sequence(&mut rest),
                '\r' => *self = Self::default(),
                '\t' => self.column = ((self.column / TAB + 1) * TAB).min(columns - 1),
                c => {
                    let width = c.width().unwrap_or(0);
                    if self.column + width > columns {
                        self.column = 0;
                    }
                    self.column += width;
                    self.is_at_end = self.column >= columns;
                }
            }
        }
    }
}

/// A colour ends with its letter, a link with `ESC \`.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    if rest.next() == Some('[') {
        rest.find(|c| ('@'..='~').contains(c));
    } else if rest.any(|c| c == '\u{1b}') {
        rest.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_is_followed() {
        for (text, column, can_return) in [
            ("", 0, true),
            ("abc", 3, true),
            ("abc\n", 0, true),
            ("abc\nde", 2, true),
            ("\u{1b}[31mab\u{1b}[0m", 2, true),
            ("\u{1b}]8;;file:///x\u{1b}\\ab\u{1b}]8;;\u{1b}\\c", 3, true),
            ("a\tb", 9, true),
            ("0123456789", 10, false),
            ("0123456789a", 1, true),
            // A wide character does not fit into the last column.
            ("012345678日", 2, true),
            ("abc\rd", 1, true),
        ] {
            let mut cursor = Cursor::default();
            for piece in text.split_inclusive(' ') {
                cursor.after(piece, 10);
            }
            assert_eq!(
                (cursor.column, cursor.can_return()),
                (column, can_return),
                "{text:?}"
            );
        }
    }
}
