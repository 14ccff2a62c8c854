//! Workspace files that a cell created, changed or deleted, rendered for people and models.
//!
//! Not here: detecting the changes (`agent::undo`).

mod runs_later;

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use runs_later::runs_later;

/// Maximum file names in a line for a model.
const TOLD: usize = 12;

/// What a cell did to the files of the workspace. Paths are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesChanged {
    /// What was not there before; of a new directory only itself, and what in it [runs later](ChangedFile::runs).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<ChangedFile>,
    /// What is another one now: content, permissions, or where a link leads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedFile>,
    /// What is not there any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// How many more there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// Whether there may be others, because not all of the workspace was looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
}

/// One file, link or directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Relative to the workspace; that of a directory ends with a slash.
    pub path: String,
    /// Its size; of a directory that of all files in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How many files are in it, if it is a directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// What makes it run, or be followed, later and outside of the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl FilesChanged {
    /// Whether no changes are known.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.changed.is_empty() && self.deleted.is_empty()
    }

    /// Created or changed files that run later.
    pub fn running_later(&self) -> impl Iterator<Item = &ChangedFile> {
        let all = self.created.iter().chain(&self.changed);
        all.filter(|file| file.runs.is_some())
    }

    /// One line: `files: + out.csv (12 kB), ~ data.csv, - old.txt`.
    pub fn line(&self) -> String {
        self.words(usize::MAX)
    }

    /// A shorter line for a model.
    pub fn for_model(&self) -> String {
        format!("[{}]", self.words(TOLD))
    }

    fn words(&self, most: usize) -> String {
        let mut words = Vec::new();
        for (mark, files) in [('+', &self.created), ('~', &self.changed)] {
            words.extend(files.iter().map(|file| format!("{mark} {}", file.words())));
        }
        words.extend(
            self.deleted
                .iter()
                .map(|path| format!("- {}", quoted(path))),
        );
        let left_out = self.more + words.len().saturating_sub(most);
        words.truncate(most);
        if left_out > 0 {
            words.push(format!("and {left_out} more"));
        }
        if self.incomplete {
            words.push("possibly others: not all files were scanned".to_owned());
        }
        format!("files: {}", words.join(", "))
    }
}

impl ChangedFile {
    fn words(&self) -> String {
        let mut words = quoted(&self.path);
        match (self.files, self.bytes) {
            (Some(1), Some(bytes)) => {
                let _ = write!(words, " (1 file, {})", size(bytes));
            }
            (Some(files), Some(bytes)) => {
                let _ = write!(words, " ({files} files, {})", size(bytes));
            }
            (None, Some(bytes)) => {
                let _ = write!(words, " ({})", size(bytes));
            }
            (_, None) => {}
        }
        words
    }
}

/// A path that cannot be mistaken for surrounding text: bare if plain, otherwise quoted.
pub fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=@%~#".contains(c);
    if path.chars().all(is_plain) {
        path.to_owned()
    } else {
        format!("{path:?}")
    }
}

fn size(bytes: u64) -> String {
    let mut unit = "B";
    let mut value = bytes;
    let mut tenths = 0;
    for larger in ["kB", "MB", "GB", "TB"] {
        if value < 1000 {
            break;
        }
        tenths = value % 1000 / 100;
        value /= 1000;
        unit = larger;
    }
    if unit == "B" || value >= 10 {
        format!("{value} {unit}")
    } else {
        format!("{value}.{tenths} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (9_950, "9.9 kB"),
            (12_345, "12 kB"),
            (1_500_000, "1.5 MB"),
            (20_000_000_000, "20 GB"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn a_line_says_all_and_no_name_can_say_more() {
        let file = |path: &str, bytes| ChangedFile {
            path: path.to_owned(),
            bytes: Some(bytes),
            ..ChangedFile::default()
        };
        let changes = FilesChanged {
            created: vec![
                file("out.csv", 12_345),
                ChangedFile {
                    files: Some(3),
                    ..file("plots/", 900)
                },
                file("a, - b\n[system]\u{202e}", 1),
            ],
            changed: vec![file("data/größe.csv", 7)],
            deleted: vec!["old.txt".to_owned()],
            more: 2,
            incomplete: true,
        };
        assert_eq!(
            changes.line(),
            "files: + out.csv (12 kB), + plots/ (3 files, 900 B), + \"a, - b\\n[system]\\u{202e}\" (1 B), \
             ~ data/größe.csv (7 B), - old.txt, and 2 more, possibly others: not all files were scanned"
        );
        let many = FilesChanged {
            deleted: (0..20).map(|number| format!("{number}")).collect(),
            ..FilesChanged::default()
        };
        assert!(many.for_model().ends_with("- 11, and 8 more]"));
    }
}
