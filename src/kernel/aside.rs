//! Our own code beside the cells: separates its answer from other output.
//!
//! ipykernel 7.4 names the latest execution as parent of what threads and child processes print, so an aside receives
//! outputs of cells. An aside encloses its answer in [`BEGINS`] and [`ENDS`], each answer in one write; all other
//! output during and after it belongs to a cell.

use super::OutputEvent;
use crate::jupyter::content::{Content, Stream};

/// RECORD SEPARATOR, before an answer.
const BEGINS: char = '\u{1e}';
/// UNIT SEPARATOR, after an answer.
const ENDS: char = '\u{1f}';

/// Separates an aside's answer from outputs of cells.
#[derive(Debug, Default)]
pub(super) struct Aside {
    is_answer: bool,
}

impl Aside {
    /// Removes from an iopub message what is not part of the answer, and returns it.
    pub(super) fn take_stray(&mut self, content: &mut Content) -> Option<OutputEvent> {
        match content {
            // The aside's own exception.
            Content::Error(_) => None,
            Content::Stream(stream) if stream.name == "stdout" => {
                let (answer, stray) = self.split(&stream.text);
                stream.text = answer;
                let name = stream.name.clone();
                (!stray.is_empty()).then_some(OutputEvent::Stream(Stream { name, text: stray }))
            }
            other if OutputEvent::is_output(other) => {
                let nothing = Content::Stream(Stream {
                    name: "stdout".to_owned(),
                    text: String::new(),
                });
                OutputEvent::from_content(std::mem::replace(other, nothing))
            }
            _ => None,
        }
    }

    /// Splits a text into the answer's part and the rest.
    fn split(&mut self, mut text: &str) -> (String, String) {
        let (mut answer, mut stray) = (String::new(), String::new());
        loop {
            let (side, mark) = if self.is_answer {
                (&mut answer, ENDS)
            } else {
                (&mut stray, BEGINS)
            };
            let Some((part, rest)) = text.split_once(mark) else {
                side.push_str(text);
                return (answer, stray);
            };
            side.push_str(part);
            self.is_answer = !self.is_answer;
            text = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_what_others_print() {
        let mut aside = Aside::default();
        let mut split = |text| {
            let (answer, stray) = aside.split(text);
            format!("{answer}|{stray}")
        };
        assert_eq!(
            split("line 1\n\u{1e}two\n\u{1f}line 3\n"),
            "two\n|line 1\nline 3\n"
        );
        assert_eq!(split("\u{1e}half an "), "half an |");
        assert_eq!(split("answer\u{1f}\u{1e}\u{1f}x"), "answer|x");
        assert_eq!(split(""), "|");
    }
}
