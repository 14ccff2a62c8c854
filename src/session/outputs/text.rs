//! Text of a stream as a terminal would show it: `\r` restarts the line, `\b` deletes a character.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text of one stream, with its last line as a terminal would show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Stored")]
pub(crate) struct Text {
    // Read by way of `Stored`.
    #[serde(skip_deserializing)]
    pub(super) name: &'static str,
    pub(super) shown: String,
    /// A `\r` came last: the next character starts the line anew, unless it is `\n`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) carriage_return: bool,
}

/// The same as a journal has it.
#[derive(Deserialize, JsonSchema)]
struct Stored {
    name: String,
    shown: String,
    #[serde(default)]
    carriage_return: bool,
}

impl From<Stored> for Text {
    fn from(stored: Stored) -> Self {
        Self {
            name: stream_name(&stored.name),
            shown: stored.shown,
            carriage_return: stored.carriage_return,
        }
    }
}

/// Maps a kernel's stream name to one of the two that the notebook format knows; other names become `stdout`.
pub(super) fn stream_name(name: &str) -> &'static str {
    if name == "stderr" { "stderr" } else { "stdout" }
}

impl Text {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            shown: String::new(),
            carriage_return: false,
        }
    }

    pub(crate) fn push(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            if self.carriage_return && !rest.starts_with(['\r', '\n']) {
                self.erase_line();
            }
            self.carriage_return = false;
            let plain = rest.find(['\r', '\u{8}']).unwrap_or(rest.len());
            let (before, after) = rest.split_at(plain);
            self.shown.push_str(before);
            rest = match after.chars().next() {
                Some('\r') => {
                    self.carriage_return = true;
                    after.get(1..).unwrap_or_default()
                }
                Some(_) => {
                    self.erase_char();
                    after.get(1..).unwrap_or_default()
                }
                None => "",
            };
        }
    }

    /// The whole text so far.
    pub(crate) fn as_str(&self) -> &str {
        &self.shown
    }

    /// The whole text.
    pub(crate) fn into_shown(self) -> String {
        self.shown
    }

    /// Takes the lines that are complete, or all of it if the last line is longer than `longest`.
    pub(crate) fn take_lines(&mut self, longest: usize) -> String {
        let end = self.shown.rfind('\n').map_or(0, |at| at + 1);
        if self.shown.len() - end > longest {
            return std::mem::take(&mut self.shown);
        }
        let rest = self.shown.split_off(end);
        std::mem::replace(&mut self.shown, rest)
    }

    fn erase_line(&mut self) {
        let start = self.shown.rfind('\n').map_or(0, |at| at + 1);
        self.shown.truncate(start);
    }

    fn erase_char(&mut self) {
        if !self.shown.is_empty() && !self.shown.ends_with('\n') {
            self.shown.pop();
        }
    }
}

/// The largest character boundary of `text` not above `at`.
pub(crate) fn floor_boundary(text: &str, at: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    (0..=at)
        .rev()
        .find(|&i| text.is_char_boundary(i))
        .unwrap_or(0)
}
