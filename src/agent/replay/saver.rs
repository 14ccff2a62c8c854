//! The notebook's file while a run goes on: anyone who looks, or finds it after a crash, sees every cell that has finished,
//! and what the running one has put out.
//!
//! Saving writes all of it, so it is done at most twice a second and takes at most a twentieth of the time, and while the
//! kernel works on the next cell.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::agent::write_beside_code;
use crate::jupyter::nbformat::{Cell, CellType, Notebook, Output};

/// Between two saves lies so many times what the last one took.
const SPACING: u32 = 20;
/// .. and at least this.
const LEAST: Duration = Duration::from_millis(500);

/// See the module.
#[derive(Debug)]
pub struct Saver {
    path: PathBuf,
    /// Whether there is something that the file has not.
    is_newer: bool,
    next: Instant,
    failed: bool,
}

impl Saver {
    /// For the file at `path` ([resolved](crate::kernel::folder::resolved) before code runs), which is written when the first cell has finished or put something out.
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

    /// Writes `notebook` with the outputs that `outputs_of` gives. When that fails the person is told once: what
    /// happened is written at the end, or that fails too and ends the program with an error.
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
                // They are kept once: outputs can be large, and those of one cell at a time are copied.
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

/// Puts outputs into a code cell, and gives those that it had.
fn put(cell: &mut Cell, outputs: Vec<Output>) -> Option<Vec<Output>> {
    match &mut cell.kind {
        CellType::Code {
            outputs: stored, ..
        } => Some(std::mem::replace(stored, outputs)),
        CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
    }
}
