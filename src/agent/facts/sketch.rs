//! What was found in a file, before it is written within the room that there is.

use std::fmt::Write as _;

use super::column::Column;
use super::names::shown_name;
use super::{COLUMNS, is_secret};

/// A part of a file: a table with its columns, a sheet, a group of entries.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The line above: name, rows, how to load it.
    pub(super) head: String,
    /// A line each, the first of them all.
    pub(super) lines: Vec<String>,
    /// How many there are in all.
    pub(super) total: usize,
    /// What one of them is, in the plural.
    pub(super) noun: &'static str,
    /// The same for parts that have the same columns; empty if that says nothing.
    pub(super) key: String,
    /// The Python that loads it as `df`, where the head does not begin with the file's name.
    pub(super) load: Option<String>,
}

impl Part {
    /// A line that has nothing below it.
    pub(super) fn line(head: String) -> Self {
        Self {
            head,
            ..Self::default()
        }
    }

    /// A table: `columns` are the first of `total`.
    pub(super) fn table<'a>(
        head: String,
        columns: impl Iterator<Item = (&'a str, &'a Column)>,
        total: usize,
        among: &str,
    ) -> Self {
        let (mut lines, mut key) = (Vec::new(), String::new());
        for (name, column) in columns {
            if lines.len() < COLUMNS {
                let described = column.describe(is_secret(name), among);
                lines.push(format!("- {}: {described}", shown_name(name)));
            }
            let _ = write!(key, "{name}\0{:?}\0", column.kind());
        }
        Self {
            head,
            lines,
            total,
            noun: "columns",
            key,
            load: None,
        }
    }

    /// In at most about `room` bytes; the head is always there.
    pub(super) fn write(&self, words: &mut String, room: usize) {
        let _ = writeln!(words, "{}", self.head);
        let mut used = self.head.len();
        let mut written = 0;
        for line in &self.lines {
            used += line.len() + 1;
            // One more costs less than to say that there is one more.
            if used > room && written + 1 < self.total {
                break;
            }
            let _ = writeln!(words, "{line}");
            written += 1;
        }
        if self.total > written {
            let _ = writeln!(words, "- and {} more {}", self.total - written, self.noun);
        }
    }
}

/// `parts` in at most about `room` bytes.
pub(super) fn write(parts: &[Part], room: usize) -> String {
    let mut words = String::new();
    let mut heads: usize = parts.iter().map(|part| part.head.len()).sum();
    for (at, part) in parts.iter().enumerate() {
        // What the others leave is shared.
        let left = room.saturating_sub(words.len() + heads);
        heads -= part.head.len();
        part.write(&mut words, part.head.len() + left / (parts.len() - at));
    }
    words
}
