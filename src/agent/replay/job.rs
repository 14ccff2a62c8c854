//! A notebook with its kernels, and the run of it.

use tokio::sync::mpsc;

use super::{Files, OtherKernels, ReplayOptions, Report, replay};
use crate::agent::event::{Command, EventKind};
use crate::agent::sql::SqlOptions;
use crate::jupyter::nbformat::Notebook;
use crate::kernel::{Kernel, KernelError};

/// A notebook to run, and its kernels.
pub struct Job {
    /// The notebook.
    pub notebook: Notebook,
    /// Its kernel.
    pub kernel: Kernel,
    /// Kernels for cells of other languages.
    pub others: OtherKernels,
    /// SQL support for the notebook's kernel; without it, SQL cells use what the notebook itself defines.
    pub sql: Option<SqlOptions>,
}

impl Job {
    /// Runs all code cells in their kernels; events name cells by id. Outputs of earlier runs are removed first, also
    /// from cells that are then not reached.
    ///
    /// Not spawned as a task: on one thread with the kernel's task, a large output would have to wait for its own
    /// files.
    ///
    /// # Errors
    /// Only if the kernel is gone before a cell could be sent.
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
