//! The notebook's file while a run goes on: whoever looks, or finds it after a crash, sees every cell that has finished,
//! and what the running one has put out.
//!
//! Saving writes all of it, so it is done at most twice a second and takes at most a twentieth of the time, and while the
//! kernel works on the next cell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::agent::write_atomically_with;
use crate::jupyter::nbformat::{CellType, Notebook, Output};

/// Between two saves lies so many times what the last one took.
const SPACING: u32 = 20;
/// .. and at least this.
const LEAST: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    /// Cells that are newer than the file.
    changed: BTreeSet<usize>,
    next: Instant,
    failed: bool,
}

impl Saver {
    /// For the file at `path`, which is written when the first cell has finished or put something out.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            changed: BTreeSet::new(),
            next: Instant::now(),
            failed: false,
        }
    }

    pub(super) fn changed(&mut self, index: usize) {
        self.changed.insert(index);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        (!self.changed.is_empty() && !self.failed).then_some(self.next)
    }

    /// Writes `notebook` with the outputs that `outputs_of` gives. When that fails the person is told once: what
    /// happened is written at the end, or that fails too and ends the program with an error.
    pub(super) fn save(
        &mut self,
        notebook: &mut Notebook,
        outputs_of: impl Fn(usize) -> Option<Vec<Output>>,
    ) -> Option<String> {
        let begun = Instant::now();
        for index in std::mem::take(&mut self.changed) {
            if let Some(CellType::Code { outputs, .. }) =
                notebook.cells.get_mut(index).map(|cell| &mut cell.kind)
                && let Some(now) = outputs_of(index)
            {
                *outputs = now;
            }
        }
        let written = write_atomically_with(&self.path, |file| notebook.write_to(file));
        self.next = Instant::now() + (begun.elapsed() * SPACING).max(LEAST);
        let error = written.err()?;
        self.failed = true;
        Some(format!(
            "could not write `{}`: {error}; it is tried again at the end",
            self.path.display()
        ))
    }
}
