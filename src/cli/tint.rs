//! Code in colours that are readable on light and on dark.

use anstyle::{AnsiColor, Effects, Style};

use super::filter;
use super::style::{DIM, paint};
use crate::export::{Class, Highlighter};

const KEYWORD: Style = AnsiColor::Magenta.on_default();
const TEXT: Style = AnsiColor::Green.on_default();
const VALUE: Style = AnsiColor::Cyan.on_default();
const MAGIC: Style = AnsiColor::Yellow.on_default();
const CALL: Style = AnsiColor::Blue.on_default().effects(Effects::BOLD);

/// A piece of code. A colour ends with its line, so that a line can be copied or clipped alone.
pub(super) fn tint(class: Class, text: &str, colours: bool) -> String {
    let style = match class {
        Class::Plain => return text.to_owned(),
        Class::Comment => DIM,
        Class::Text => TEXT,
        Class::Number | Class::Value => VALUE,
        Class::Keyword => KEYWORD,
        Class::Call => CALL,
        Class::Decorator => MAGIC,
    };
    if !colours {
        return text.to_owned();
    }
    let lines = text.split('\n').map(|line| paint(style, line, colours));
    lines.collect::<Vec<_>>().join("\n")
}

/// Code that comes in pieces.
pub(super) struct Tinted {
    highlighter: Highlighter,
    colours: bool,
}

impl Tinted {
    /// For code in this language.
    pub(super) fn new(language: &str, colours: bool) -> Self {
        Self {
            highlighter: Highlighter::new(language),
            colours,
        }
    }

    /// What there is to print of more code; what a terminal would not show is written out.
    pub(super) fn push(&mut self, code: &str) -> String {
        let code = filter::code(code);
        if !self.colours {
            return code;
        }
        let mut out = String::with_capacity(code.len() * 2);
        self.highlighter
            .push(&code, &mut |class, text| out.push_str(&tint(class, text, true)));
        out
    }

    /// What is left of it.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        let colours = self.colours;
        self.highlighter
            .finish(&mut |class, text| out.push_str(&tint(class, text, colours)));
        out
    }
}

/// Code that is all there.
pub(super) fn tinted(code: &str, language: &str, colours: bool) -> String {
    let mut tinted = Tinted::new(language, colours);
    let mut out = tinted.push(code);
    out.push_str(&tinted.finish());
    out
}
