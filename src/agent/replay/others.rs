//! Kernels for cells in other languages than the notebook's, each started for its first cell.

use std::collections::HashMap;

use tokio::sync::mpsc;

use crate::agent::event::Command;
use crate::jupyter::nbformat::{Cell, Notebook};
use crate::kernel::{Kernel, KernelError, LaunchOptions};
use crate::session::notebook::{Foreign, foreign};

/// One kernel for each other language of a notebook.
pub struct OtherKernels {
    /// How to start the kernels that no cell has needed yet.
    starts: HashMap<String, Result<LaunchOptions, KernelError>>,
    live: Vec<(String, Kernel)>,
}

/// Where a cell runs.
pub(super) enum KernelForCell {
    /// In the notebook's kernel.
    Main,
    /// In another kernel, or why it cannot run.
    Other(Result<Kernel, KernelError>),
    /// The person stopped the run while the kernel was starting.
    Stopped,
}

impl OtherKernels {
    /// The kernels that the cells of `notebook` need; `launcher` says how to start the kernel for a cell.
    pub fn new(
        notebook: &Notebook,
        launcher: impl Fn(&Foreign<'_>) -> Result<LaunchOptions, KernelError>,
    ) -> Self {
        let mut starts = HashMap::new();
        for cell in notebook.cells.iter().filter_map(foreign) {
            if !starts.contains_key(cell.language) {
                starts.insert(cell.language.to_owned(), launcher(&cell));
            }
        }
        Self {
            starts,
            live: Vec::new(),
        }
    }

    /// The kernel for `cell`, started on first use of its language.
    pub(super) async fn of(
        &mut self,
        cell: &Cell,
        control: &mut mpsc::Receiver<Command>,
    ) -> KernelForCell {
        let Some(Foreign { language, .. }) = foreign(cell) else {
            return KernelForCell::Main;
        };
        let options = match self.starts.remove(language) {
            Some(Ok(options)) => options,
            Some(Err(error)) => return KernelForCell::Other(Err(error)),
            None => {
                let live = self.live.iter().find(|(name, _)| name == language);
                // A kernel that failed to start has ended the run.
                let live = live.map(|(_, kernel)| kernel.clone());
                return KernelForCell::Other(live.ok_or(KernelError::Closed));
            }
        };
        let launched = tokio::select! {
            launched = Kernel::launch(options) => launched,
            Some(Command::Interrupt | Command::RestartKernel | Command::Shutdown) = control.recv() => return KernelForCell::Stopped,
        };
        if let Ok(kernel) = &launched {
            self.live.push((language.to_owned(), kernel.clone()));
        }
        KernelForCell::Other(launched)
    }

    /// Shuts down all of them.
    pub async fn shutdown(self) {
        let ends = self.live.iter().map(|(_, kernel)| kernel.shutdown());
        futures_util::future::join_all(ends).await;
    }
}
