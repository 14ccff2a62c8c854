//! Which parts of a reply are text, and when they can be passed on.

use super::Reader;
use crate::llm::coded::{Accept, Piece};
use crate::llm::fenced::habits;

impl Reader {
    /// Passes on the text after the last block, except what may be code without a fence.
    pub(super) fn tell_words(&mut self, last: bool, pieces: &mut Vec<Piece>) {
        let rest = self.text.get(self.done..).unwrap_or_default().to_owned();
        let line = self.next_line(&rest);
        let held = match self.accept {
            Accept::Blocks => {
                let import = rest.get(line..).and_then(habits::first_import);
                import.map(|at| line + at)
            }
            Accept::Calls | Accept::Words => None,
        };
        let (words, code) = rest.split_at(held.unwrap_or(rest.len()));
        self.say(words, pieces);
        self.done += words.len();
        if !last {
            return;
        }
        self.done = self.text.len();
        if code.is_empty() || self.ran {
            self.say(code, pieces);
            return;
        }
        let (code, words) = code.split_at(habits::end_of_code(code));
        pieces.push(Piece::Begin(None));
        pieces.push(Piece::Code(code.trim_end().to_owned()));
        pieces.push(Piece::End);
        self.ran_something();
        self.say(words, pieces);
    }

    /// Offset of the first whole line in `rest`, the text not yet passed on: part of a line may have been.
    pub(super) fn next_line(&self, rest: &str) -> usize {
        let told = self.text.get(..self.done).unwrap_or_default();
        if told.is_empty() || told.ends_with('\n') {
            return 0;
        }
        rest.find('\n').map_or(rest.len(), |at| at + 1)
    }

    /// Passes on the incomplete line, if it can only be text.
    pub(super) fn tell_partial(&mut self, pieces: &mut Vec<Piece>) {
        let certain = self.line.chars().next().is_some_and(char::is_alphabetic)
            && !["import", "from", "functions.", "run_code", "execute"]
                .iter()
                .any(|start| self.line.starts_with(start) || start.starts_with(&self.line))
            && !(self.ran && self.fresh);
        if self.stopped
            || !certain
            || self.opener.is_some()
            || self.open.is_some()
            || self.done < self.text.len()
        {
            return;
        }
        let new = self.line.get(self.partial..).unwrap_or_default().to_owned();
        self.partial = self.line.len();
        self.say(&new, pieces);
    }

    /// Passes on text. Its trailing white space is held until more text follows; leading blank lines are dropped.
    pub(super) fn say(&mut self, words: &str, pieces: &mut Vec<Piece>) {
        let first;
        let mut words = words;
        if self.fresh {
            // They may arrive in fragments.
            self.blank.push_str(words);
            let indented = self.blank.trim_start();
            if indented.is_empty() {
                return;
            }
            let space = self.blank.len() - indented.len();
            let line = self.blank.get(..space).and_then(|it| it.rfind('\n'));
            first = self.blank.split_off(line.map_or(0, |at| at + 1));
            words = &first;
            self.fresh = false;
            self.blank.clear();
            if self.told {
                self.blank.push_str("\n\n");
            }
        }
        let mut text = std::mem::take(&mut self.blank);
        text.push_str(words);
        self.blank = text.split_off(text.trim_end().len());
        if !text.is_empty() {
            self.told = true;
            pieces.push(Piece::Text(text));
        }
    }
}
