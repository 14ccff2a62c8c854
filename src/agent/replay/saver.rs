//! Saves the notebook's file during a run: a reader, also after a crash, finds every finished cell and the running
//! cell's output so far.
//!
//! Saving writes the whole file, so it happens at most twice a second, takes at most a twentieth of the time, and runs
//! while the kernel works on the next cell.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::agent::write_beside_code;
use crate::jupyter::nbformat::{Cell, CellType, Notebook, Output};

/// The pause between saves, as a multiple of the last save's duration.
const SPACING: u32 = 20;
/// .. but at least this.
const LEAST: Duration = Duration::from_millis(500);

/// Saves a notebook's file during a run; see the module.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    /// Whether there are unsaved changes.
    is_newer: bool,
    next: Instant,
    failed: bool,
}

impl Saver {
    /// For the file at `path` ([resolved](crate::kernel::folder::resolved) before code runs); first written when a cell
    /// has finished or produced output.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_newer: false,
            next: Instant::now(),
            failed: false,
        }
    }

    pub(super) fn changed(&mut self) {
        self.is_newer = true;
    }

    pub(super) fn due(&self) -> Option<Instant> {
        (self.is_newer && !self.failed).then_some(self.next)
    }

    /// Writes `notebook` with the outputs from `outputs_of`. On failure the person is told once: the final save writes
    /// everything, or fails too and ends the program with an error.
    pub(super) fn save(
        &mut self,
        notebook: &mut Notebook,
        outputs_of: impl Fn(usize) -> Option<Vec<Output>>,
    ) -> Option<String> {
        let begun = Instant::now();
        self.is_newer = false;
        let (before, after) = notebook.frame();
        let written = write_beside_code(&self.path, |file| {
            file.write_all(before.as_bytes())?;
            for (index, cell) in notebook.cells.iter_mut().enumerate() {
                let now = outputs_of(index).and_then(|now| put(cell, now));
                let written = cell.write_piece(index == 0, file);
                // Outputs can be large, so only one cell's are copied at a time.
                if let Some(stored) = now {
                    put(cell, stored);
                }
                written?;
            }
            file.write_all(after.as_bytes())
        });
        self.next = Instant::now() + (begun.elapsed() * SPACING).max(LEAST);
        let error = written.err()?;
        self.failed = true;
        Some(format!(
            "could not write `{}`: {error}; it is tried again at the end",
            self.path.display()
        ))
    }
}

/// Replaces a code cell's outputs and returns the old ones.
fn put(cell: &mut Cell, outputs: Vec<Output>) -> Option<Vec<Output>> {
    match &mut cell.kind {
        CellType::Code {
            outputs: stored, ..
        } => Some(std::mem::replace(stored, outputs)),
        CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
    }
}
