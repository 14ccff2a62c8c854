//! A notebook with its kernels, and the run of it.

use tokio::sync::mpsc;

use super::{Files, OtherKernels, ReplayOptions, Report, replay};
use crate::agent::event::{Command, EventKind};
use crate::agent::sql::SqlOptions;
use crate::jupyter::nbformat::Notebook;
use crate::kernel::{Kernel, KernelError};

/// What is run.
pub struct Job {
    /// The notebook.
    pub notebook: Notebook,
    /// Its kernel.
    pub kernel: Kernel,
    /// Those of cells of other languages.
    pub others: OtherKernels,
    /// What SQL cells have in the notebook's kernel; without it they have what the notebook itself brings.
    pub sql: Option<SqlOptions>,
}

impl Job {
    /// Runs all code cells in their kernels; events name cells by their id. Outputs of earlier runs are taken away
    /// first, also of cells that are then not reached.
    ///
    /// Not on a task of its own: with the kernel's on one thread, a large output would have to wait for its own files.
    ///
    /// # Errors
    /// Only when the kernel is gone before a cell could be sent.
    pub async fn run(
        mut self,
        options: ReplayOptions,
        files: Files,
        mut control: mpsc::Receiver<Command>,
        events: mpsc::Sender<EventKind>,
    ) -> (Self, Result<Report, KernelError>) {
        let report = replay(&mut self, options, files, &mut control, events).await;
        (self, report)
    }
}
