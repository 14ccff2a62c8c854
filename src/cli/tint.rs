//! Code in colours that are readable on light and dark backgrounds.

use super::filter;
use crate::export::{Class, Highlighter};

/// Ends every colour.
const END: &str = "\u{1b}[0m";

/// SGR: only the terminal's palette colours, which its theme makes readable on its background.
fn begin(class: Class) -> Option<&'static str> {
    Some(match class {
        // The remaining colour for calls, blue, is unreadable on black in xterm's default palette.
        Class::Plain | Class::Call => return None,
        Class::Comment => "\u{1b}[2m",
        Class::Text => "\u{1b}[32m",
        Class::Number | Class::Value => "\u{1b}[36m",
        Class::Keyword => "\u{1b}[35m",
        Class::Decorator => "\u{1b}[33m",
    })
}

/// Adds a piece of code. A colour ends with its line, so that a line can be copied or clipped separately.
pub(super) fn tint(class: Class, text: &str, colours: bool, out: &mut String) {
    let Some(begin) = begin(class).filter(|_| colours) else {
        return out.push_str(text);
    };
    for (at, line) in text.split('\n').enumerate() {
        if at > 0 {
            out.push('\n');
        }
        if !line.is_empty() {
            out.push_str(begin);
            out.push_str(line);
            out.push_str(END);
        }
    }
}

/// Colours code that arrives in pieces.
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

    /// Takes more code, and returns what can be printed; characters that a terminal would not show are written out.
    pub(super) fn push(&mut self, code: &str) -> String {
        let code = filter::code(code);
        if !self.colours {
            return code;
        }
        let mut out = String::with_capacity(code.len() * 2);
        self.highlighter
            .push(&code, &mut |class, text| tint(class, text, true, &mut out));
        out
    }

    /// Returns the rest.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        let colours = self.colours;
        self.highlighter
            .finish(&mut |class, text| tint(class, text, colours, &mut out));
        out
    }
}

/// Colours complete code.
pub(super) fn tinted(code: &str, language: &str, colours: bool) -> String {
    let mut tinted = Tinted::new(language, colours);
    let mut out = tinted.push(code);
    out.push_str(&tinted.finish());
    out
}
