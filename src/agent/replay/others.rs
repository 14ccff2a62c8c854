//! The kernels of cells that belong to another language than the notebook's: started when the first of them comes.

use tokio::sync::mpsc;

use super::Control;
use crate::jupyter::nbformat::Cell;
use crate::kernel::{Kernel, KernelError, LaunchOptions};
use crate::session::notebook::{Foreign, foreign};

/// How the kernel of such a cell is started.
type Launcher<'a> = dyn Fn(&Foreign<'_>) -> Result<LaunchOptions, KernelError> + Send + Sync + 'a;

/// One kernel for each other language of a notebook.
pub struct OtherKernels<'a> {
    launcher: Box<Launcher<'a>>,
    live: Vec<(String, Kernel)>,
}

/// Where a cell runs.
pub(super) enum Found {
    /// In the notebook's kernel.
    Main,
    /// In this one, or why it cannot.
    Other(Result<Kernel, KernelError>),
    /// The person stopped the run while the kernel started.
    Stopped,
}

impl<'a> OtherKernels<'a> {
    /// `launcher` says how the kernel of a cell is started.
    pub fn new(
        launcher: impl Fn(&Foreign<'_>) -> Result<LaunchOptions, KernelError> + Send + Sync + 'a,
    ) -> Self {
        Self {
            launcher: Box::new(launcher),
            live: Vec::new(),
        }
    }

    /// The kernel for `cell`, started if it is the first of its language.
    pub(super) async fn of(&mut self, cell: &Cell, control: &mut mpsc::Receiver<Control>) -> Found {
        let Some(cell) = foreign(cell) else {
            return Found::Main;
        };
        if let Some((_, kernel)) = self.live.iter().find(|(name, _)| name == cell.language) {
            return Found::Other(Ok(kernel.clone()));
        }
        let options = match (self.launcher)(&cell) {
            Ok(options) => options,
            Err(error) => return Found::Other(Err(error)),
        };
        let launched = tokio::select! {
            launched = Kernel::launch(options) => launched,
            Some(Control::Interrupt | Control::End) = control.recv() => return Found::Stopped,
        };
        if let Ok(kernel) = &launched {
            self.live.push((cell.language.to_owned(), kernel.clone()));
        }
        Found::Other(launched)
    }

    /// Ends them all.
    pub async fn shutdown(self) {
        let ends = self.live.iter().map(|(_, kernel)| kernel.shutdown());
        futures_util::future::join_all(ends).await;
    }
}
