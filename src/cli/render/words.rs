//! The model's words on stdout: rendered if that is a terminal, otherwise unchanged.

use std::io::{self, IsTerminal as _};

use super::super::markdown::Markdown;
use super::super::style;
use super::line::write_now;
use super::{Renderer, Section, filter};

/// The words of a session.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Default)]
pub(super) struct Words {
    /// The text being rendered for a terminal, with the id of its cell.
    open: Option<(String, Markdown)>,
    /// stdout is a terminal that can show more than characters.
    are_rendered: bool,
    /// The words go to stderr too, because something else is the answer.
    aside: bool,
    /// The last line has not ended.
    line_is_open: bool,
    /// There were words before in this session.
    said_before: bool,
}

impl Words {
    /// Writes to stdout.
    pub(super) fn to_stdout(moves_cursor: bool) -> Self {
        Self {
            are_rendered: moves_cursor && io::stdout().is_terminal(),
            ..Self::default()
        }
    }
}

impl Renderer {
    /// Keeps the words away from stdout from now on.
    pub(in crate::cli) fn words_aside(&mut self) {
        self.words.aside = true;
        self.words.are_rendered = self.can.moves_cursor;
    }

    pub(super) fn text(&mut self, cell: &str, text: &str) {
        if self.section != Section::Text {
            self.end_line();
            if self.section != Section::None {
                self.err("\n");
            }
            if self.words.said_before {
                // In a file, the words of two steps are two paragraphs; on the terminal, other output separates them.
                if !self.words.aside && !io::stdout().is_terminal() {
                    self.out("\n");
                }
            }
            self.words.said_before = true;
            self.section = Section::Text;
        }
        let text = if self.words.are_rendered {
            self.rendered(cell, text)
        } else {
            filter::plain(text)
        };
        if let Some(last) = text.chars().next_back() {
            self.out(&text);
            self.words.line_is_open = last != '\n';
        }
    }

    /// The part of the rendered words that is certain.
    fn rendered(&mut self, cell: &str, text: &str) -> String {
        let colours = self.can.colours;
        let words = match &mut self.words.open {
            Some((id, words)) if id == cell => words,
            words => {
                let new = (cell.to_owned(), Markdown::new(colours));
                &mut words.insert(new).1
            }
        };
        words.set_width(usize::try_from(style::columns()).unwrap_or(80));
        words.push(text)
    }

    /// Writes to stdout; keeps the first failure.
    fn out(&mut self, text: &str) {
        self.erase();
        if self.words.aside {
            write_now(text);
        } else if let Err(failure) = super::super::print(text) {
            self.unread.get_or_insert(failure);
        }
        // Output to another place does not move the cursor.
        if self.words.aside || io::stdout().is_terminal() {
            self.printed(text);
        }
    }

    /// Ends the model's words with a newline, wherever they go.
    pub(super) fn end_text(&mut self) {
        if self.section != Section::Text {
            return;
        }
        if let Some((_, words)) = &mut self.words.open {
            let rest = words.finish();
            if let Some(last) = rest.chars().next_back() {
                self.out(&rest);
                self.words.line_is_open = last != '\n';
            }
        }
        if std::mem::take(&mut self.words.line_is_open) {
            self.out("\n");
        }
    }
}
