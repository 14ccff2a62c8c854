//! Masks a password while it is typed.

use std::borrow::Cow;

use rustyline::highlight::{CmdKind, Highlighter};
use unicode_width::UnicodeWidthStr as _;

/// Hides the characters, but shows how many there are.
pub(super) struct Mask;

impl Highlighter for Mask {
    fn highlight<'l>(&self, line: &'l str, _at: usize) -> Cow<'l, str> {
        Cow::Owned(" ".repeat(line.width()))
    }

    fn highlight_char(&self, _line: &str, _at: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}

impl rustyline::completion::Completer for Mask {
    type Candidate = String;
}
impl rustyline::hint::Hinter for Mask {
    type Hint = String;
}
impl rustyline::validate::Validator for Mask {}
impl rustyline::Helper for Mask {}
