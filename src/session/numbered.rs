//! A session's cells by number, and the files that they changed.
//!
//! A cell's number is its position in the session, from 1, in `sponde sessions show` and `sponde fork --at` alike.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{ChangedFile, FilesChanged};
use super::{Cell, CellKind, CellStatus, Transcript};
use crate::jupyter::mime::Audience;
use crate::jupyter::nbformat::Output;

/// One cell, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NumberedCell {
    /// Its id, which its notebook has too. An answer has an `id` of its own.
    #[serde(rename = "cell")]
    pub id: String,
    /// Its place in the session, from 1.
    pub number: usize,
    /// Its language; missing of words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// How it ended, if it is code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<CellStatus>,
    /// Code or words.
    pub source: String,
    /// What came out, as text; control sequences are still in it.
    pub output: String,
    /// The files of its pictures, charts and HTML, relative to the notebook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<String>,
}

/// Where a cell stands in its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellPlace {
    /// From 1.
    pub number: usize,
    /// Its language, where that is not the main kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

impl CellPlace {
    /// That of the cell `id`.
    pub fn of(transcript: &Transcript, id: &str) -> Option<Self> {
        let at = transcript.position(id)?;
        let code = transcript.cells().get(at)?.code();
        Some(Self {
            number: at + 1,
            language: code.and_then(|code| code.language.clone()),
        })
    }
}

/// The cell with this number; without a number, the latest code cell.
///
/// # Errors
/// A message if no cell has that number.
pub fn cell(transcript: &Transcript, number: Option<usize>) -> Result<NumberedCell, String> {
    let cells = transcript.cells();
    let is_code = |cell: &Cell| matches!(cell.kind, CellKind::Code(_));
    let at = match number {
        Some(number) => number.checked_sub(1),
        None => cells.iter().rposition(is_code),
    };
    let found = at.and_then(|at| Some((at + 1, cells.get(at)?)));
    let Some((number, cell)) = found else {
        return Err(match number {
            Some(number) => format!("there is no cell {number}: the session has {}", cells.len()),
            None => "no code has run yet".to_owned(),
        });
    };
    let CellKind::Code(code) = &cell.kind else {
        return Ok(NumberedCell {
            id: cell.id.clone(),
            number,
            language: None,
            status: None,
            source: cell.source.clone(),
            output: String::new(),
            pictures: Vec::new(),
        });
    };
    let main = || transcript.kernel().map(|kernel| kernel.language.clone());
    let outputs = code.outputs.to_notebook();
    let pictures = code.pictures.iter().flatten();
    Ok(NumberedCell {
        id: cell.id.clone(),
        number,
        language: code.language.clone().or_else(main),
        status: Some(CellStatus::from(&code.status)),
        source: cell.source.clone(),
        output: outputs.iter().map(text_of).collect(),
        pictures: pictures.map(|it| it.beside_notebook.clone()).collect(),
    })
}

/// An output as text, ending in a newline.
fn text_of(output: &Output) -> String {
    let mut text = match output {
        Output::Stream { text, .. } => return text.clone(),
        Output::Error {
            ename,
            evalue,
            traceback,
            ..
        } if traceback.is_empty() => format!("{ename}: {evalue}"),
        Output::Error { traceback, .. } => traceback.join("\n"),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            let text = data.text_of("text/plain").map(std::borrow::Cow::into_owned);
            let kind = || data.richest_for(Audience::Terminal);
            text.or_else(|| Some(format!("[{}]", kind()?.0)))
                .unwrap_or_default()
        }
        Output::Other(_) => String::new(),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// What a session has done to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Relative to the session's directory.
    pub path: String,
    /// Compared to what was there before the session.
    pub change: ChangeKind,
    /// What makes it run later, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It was not there.
    Created,
    /// It was there and is another one.
    Changed,
    /// It is gone.
    Deleted,
}

/// Known changes of the session to its workspace files, sorted by name.
pub fn changed_files(transcript: &Transcript) -> Vec<FileChange> {
    let mut all: BTreeMap<&str, (ChangeKind, Option<&ChangedFile>)> = BTreeMap::new();
    let codes = transcript.cells().iter().filter_map(Cell::code);
    for FilesChanged {
        created,
        changed,
        deleted,
        ..
    } in codes.filter_map(|code| code.files.as_ref())
    {
        let is = |all: &BTreeMap<&str, (ChangeKind, _)>, path: &str, change: ChangeKind| {
            all.get(path).is_some_and(|(found, _)| *found == change)
        };
        for file in created {
            // A file that was deleted and created again counts as changed.
            let change = if is(&all, &file.path, ChangeKind::Deleted) {
                ChangeKind::Changed
            } else {
                ChangeKind::Created
            };
            all.insert(&file.path, (change, Some(file)));
        }
        for file in changed {
            let change = if is(&all, &file.path, ChangeKind::Created) {
                ChangeKind::Created
            } else {
                ChangeKind::Changed
            };
            all.insert(&file.path, (change, Some(file)));
        }
        for path in deleted {
            if is(&all, path, ChangeKind::Created) {
                all.remove(&**path);
            } else {
                all.insert(path, (ChangeKind::Deleted, None));
            }
        }
    }
    let told = |(path, (change, file)): (&str, (ChangeKind, Option<&ChangedFile>))| FileChange {
        path: path.to_owned(),
        change,
        runs: file
            .and_then(|file| file.runs.as_ref())
            .map(ToString::to_string),
    };
    all.into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::Stream;
    use crate::kernel::OutputEvent;
    use crate::session::transcript::Author;
    use crate::session::{Edit, OutputLimits};

    fn transcript() -> Transcript {
        let mut transcript = Transcript::new(OutputLimits::default());
        let say = Edit::Say {
            cell: "q".to_owned(),
            text: "why?".to_owned(),
        };
        transcript.apply(say).unwrap();
        for (cell, source) in [("a", "one"), ("b", "two"), ("c", "three")] {
            let propose = Edit::Propose {
                cell: cell.to_owned(),
                author: Author::Person,
                language: Some("bash".to_owned()),
                source: source.to_owned(),
            };
            transcript.apply(propose).unwrap();
        }
        transcript
    }

    #[test]
    fn a_cell_has_a_number() {
        let mut transcript = transcript();
        for text in ["first\n", "second\n"] {
            let output = OutputEvent::Stream(Stream {
                name: "stdout".to_owned(),
                text: text.to_owned(),
            });
            let cell = "b".to_owned();
            transcript.apply(Edit::Emit { cell, output }).unwrap();
        }
        let place = CellPlace {
            number: 3,
            language: Some("bash".to_owned()),
        };
        assert_eq!(CellPlace::of(&transcript, "b"), Some(place));
        let shown = cell(&transcript, Some(3)).unwrap();
        assert_eq!(
            (shown.source.as_str(), shown.language.as_deref()),
            ("two", Some("bash"))
        );
        assert_eq!(shown.output, "first\nsecond\n");
        assert_eq!(cell(&transcript, None).unwrap().number, 4);
        assert_eq!(cell(&transcript, Some(1)).unwrap().source, "why?");
        for wrong in [0, 5] {
            let words = format!("there is no cell {wrong}: the session has 4");
            assert_eq!(cell(&transcript, Some(wrong)), Err(words));
        }
    }

    #[test]
    fn files_are_as_the_session_leaves_them() {
        let mut transcript = transcript();
        let named = |names: &[&str]| -> Vec<ChangedFile> {
            let file = |path: &&str| ChangedFile {
                path: (*path).to_owned(),
                ..ChangedFile::default()
            };
            names.iter().map(file).collect()
        };
        let mut change = |cell: &str, created: &[&str], changed: &[&str], deleted: &[&str]| {
            let files = FilesChanged {
                created: named(created),
                changed: named(changed),
                deleted: deleted.iter().map(|path| (*path).to_owned()).collect(),
                ..FilesChanged::default()
            };
            let cell = cell.to_owned();
            transcript.apply(Edit::Files { cell, files }).unwrap();
        };
        change("a", &["new", "gone"], &["old"], &["was"]);
        change("b", &[], &["new"], &["gone"]);
        change("c", &["was"], &[], &["old"]);
        let found: Vec<_> = changed_files(&transcript)
            .into_iter()
            .map(|it| (it.path, it.change))
            .collect();
        let expected = [
            ("new", ChangeKind::Created),
            ("old", ChangeKind::Deleted),
            ("was", ChangeKind::Changed),
        ];
        assert_eq!(
            found,
            expected.map(|(path, change)| (path.to_owned(), change))
        );
    }
}
