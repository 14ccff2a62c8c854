//! A run that saves its pictures as files of the workspace, for programs whose model gets text and whose person opens
//! files.

use std::path::PathBuf;

use super::result::{self, CodeError, ShownOutput, ending_of, shown};
use super::{FileError, ProgramSession, TurnOutcome, Workspace};
use crate::session::CodeCell;

/// The directory for pictures.
const PLOTS: &str = "plots";
/// Maximum pictures of one run.
const PICTURES: usize = 50;

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedRun {
    /// How it ended, as one word.
    pub status: String,
    /// All text, cut in the middle if it is long, and how the run ended.
    pub text: String,
    /// The exception that the code raised.
    pub error: Option<CodeError>,
    /// The pictures that it displayed.
    pub files: Vec<SavedPicture>,
}

/// A saved picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedPicture {
    /// Its path.
    pub path: PathBuf,
    /// Its MIME type.
    pub mime: String,
    /// Size in bytes.
    pub bytes: u64,
}

impl ProgramSession {
    /// The result of a turn's last cell, with at most this many bytes of text, and its pictures in `workspace`.
    pub async fn saved(
        &self,
        outcome: &TurnOutcome,
        most: usize,
        workspace: Workspace,
    ) -> SavedRun {
        let ran = match outcome.cells.last() {
            Some(id) => self.cell(id).await.map(|cell| (id.clone(), cell)),
            None => None,
        };
        let is_there = ran.is_some();
        let name = self.name.clone();
        let made = tokio::task::spawn_blocking(move || {
            ran.map(|(id, cell)| of_cell(&name, &id, &cell, most, &workspace))
        });
        let made = made.await.ok().flatten().unwrap_or_default();
        SavedRun {
            status: outcome.word(),
            text: self.told(outcome, made.text, is_there),
            ..made
        }
    }
}

fn of_cell(
    session: &str,
    id: &str,
    cell: &CodeCell,
    most: usize,
    workspace: &Workspace,
) -> SavedRun {
    let result = result::of_cell(id, cell, most, None);
    let mut text = result.text;
    let mut files = Vec::new();
    let mut failed: Option<FileError> = None;
    let pictures = shown(cell).into_iter().filter_map(|output| match output {
        ShownOutput::Picture(mime, bytes) => Some((mime, bytes)),
        _ => None,
    });
    for (number, (mime, bytes)) in (1..).zip(pictures.take(PICTURES)) {
        let path = format!("{PLOTS}/{session}-{id}-{number}.{}", ending_of(&mime));
        let written = workspace
            .write(&path, &bytes)
            .and_then(|bytes| Ok((workspace.place(&path)?, bytes)));
        match written {
            Ok((path, bytes)) => {
                // It has not been shown to anyone yet.
                let (seen, saved) = (
                    " shown to the user",
                    format!(" saved as {}", path.display()),
                );
                let note = |words: &str| format!("[plot {number}{words}");
                text = text.replacen(&note(seen), &note(&saved), 1);
                files.push(SavedPicture { path, mime, bytes });
            }
            Err(error) => failed = Some(error),
        }
    }
    if let Some(error) = failed {
        text.push_str("\n[a plot was not saved: ");
        text.push_str(&error.to_string());
        text.push(']');
    }
    SavedRun {
        text,
        error: result.error,
        files,
        ..SavedRun::default()
    }
}
