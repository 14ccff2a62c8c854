//! Forks a session: a new one that shares another's cells up to some cell.

use std::path::Path;

use super::recover::end_what_was_cut_off;
use super::{OpenError, Opened, Outcome};
use crate::session::journal::{Begin, VERSION};
use crate::session::{Cell, Edit, OutputLimits};

/// Options of a fork.
#[derive(Debug, Clone, Copy)]
pub struct Fork<'a> {
    /// Id of the session to copy.
    pub from: &'a str,
    /// Number of cells to copy; `None` copies all.
    pub cells: Option<usize>,
    /// The new session's id.
    pub id: &'a str,
    /// When, ISO 8601.
    pub at: &'a str,
}

impl Opened {
    /// Makes a session in `dir` from another one there, which may be open, and returns it opened. The costs of the
    /// original are not counted again.
    ///
    /// # Errors
    /// As [`Opened::read`]; [`OpenError::Io`] also if the new one cannot be written.
    pub fn fork(dir: &Path, fork: Fork<'_>, limits: OutputLimits) -> Result<Self, OpenError> {
        let (begin, old) = Self::read(dir, fork.from, limits)?;
        let begin = Begin {
            version: VERSION,
            id: fork.id.to_owned(),
            at: fork.at.to_owned(),
            notebook: dir.join(format!("{}.ipynb", fork.id)),
            forked_from: Some(fork.from.to_owned()),
            ..begin
        };
        let mut opened = Self::new(dir, begin, limits);
        let mut left = fork.cells.unwrap_or(usize::MAX);
        let taken = old.cells().iter().take(left);
        let last = taken.filter_map(Cell::step).max().unwrap_or(0);
        for mut edit in old.snapshot() {
            match &mut edit {
                Edit::Restore(_) if left == 0 => continue,
                Edit::Restore(_) => left -= 1,
                // The fork has cost nothing yet.
                Edit::Accounts(_) => continue,
                Edit::Models(models) => models.retain(|(_, from)| *from <= last + 1),
                // The fork reuses the step numbers after its last one.
                Edit::Keep { step, .. } if *step > last => continue,
                _ => {}
            }
            opened.store.log(&edit);
            // Each edit comes from a transcript, so it applies.
            let _ = opened.transcript.apply(edit);
        }
        opened.store.measure();
        let Self {
            store, transcript, ..
        } = &mut opened;
        end_what_was_cut_off(store, transcript, false, fork.at);
        let change = store.change(transcript, true, true);
        match store.save(&change) {
            Outcome::Saved(_) | Outcome::WantsAll => {
                transcript.settle();
                Ok(opened)
            }
            Outcome::Failed(words) => Err(OpenError::Io {
                path: opened.store.notebook().to_owned(),
                error: std::io::Error::other(words.unwrap_or_default()),
            }),
        }
    }
}
