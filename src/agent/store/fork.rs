//! A new session that begins as another one did, up to some cell.

use std::path::Path;

use super::recover::end_what_was_cut_off;
use super::{OpenError, Opened, Outcome};
use crate::session::journal::{Begin, VERSION};
use crate::session::{Cell, Edit, OutputLimits};

/// Which session, and how the new one is called.
#[derive(Debug, Clone, Copy)]
pub struct Fork<'a> {
    /// The session to begin as.
    pub from: &'a str,
    /// How many of its cells are taken; `None` takes all.
    pub cells: Option<usize>,
    /// The new session's id.
    pub id: &'a str,
    /// When, ISO 8601.
    pub at: &'a str,
}

impl Opened {
    /// Makes a session in `dir` out of another one there, which may be open, and leaves it open. What was paid for that
    /// one is not counted again.
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
                // It has cost nothing yet.
                Edit::Accounts(_) => continue,
                Edit::Models(models) => models.retain(|(_, from)| *from <= last + 1),
                // The new session gives the numbers behind the last one again.
                Edit::Keep { step, .. } if *step > last => continue,
                _ => {}
            }
            opened.store.log(&edit);
            // Each comes from a transcript, so it fits.
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
