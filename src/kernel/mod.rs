//! Floor 1a: a running Jupyter kernel as a handle.
//!
//! [`Kernel`] is all that the floors above use. Behind it one task (`actor`) owns the process (`host`), the
//! sockets (`link`) and the table of running executions. Nothing here knows a model, a notebook or a screen.

mod actor;
pub mod discover;
mod execution;
pub mod guard;
mod host;
mod launch;
mod link;
mod ready;
mod routing;
pub mod task;

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

pub use discover::{FoundKernel, SearchPath, SearchPaths};
pub use execution::{Execution, ExecutionEvent, Outcome, OutputEvent, Verdict};
pub use host::ExitReason;
pub use launch::{KernelSource, LaunchOptions};

use crate::jupyter::content::KernelInfo;

/// A handle to a running kernel. Cheap to clone; the kernel is shut down when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Kernel {
    commands: mpsc::Sender<actor::Command>,
    state: watch::Receiver<KernelState>,
}

/// What a kernel is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelState {
    /// Not ready for code yet, for the first time or again.
    Starting,
    /// Ready.
    Idle,
    /// Running at least one execution.
    Busy,
    /// Gone; only [`Kernel::restart`] helps.
    Dead(ExitReason),
}

/// Why something could not be done with a kernel. An exception in a cell is not an error but an output.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KernelError {
    /// The command could not be started at all.
    #[error("could not start kernel `{kernel}` (`{command}`): {reason}")]
    Spawn {
        /// The kernelspec's name.
        kernel: String,
        /// The program.
        command: String,
        /// What the operating system said.
        reason: String,
    },
    /// Sockets or files for the kernel could not be prepared.
    #[error("could not prepare kernel `{kernel}`: {reason}")]
    Prepare {
        /// The kernelspec's name.
        kernel: String,
        /// What went wrong, with the path.
        reason: String,
    },
    /// The process ended before it answered.
    #[error("kernel `{kernel}` exited before it was ready ({reason})")]
    DiedAtStart {
        /// The kernelspec's name.
        kernel: String,
        /// How it ended.
        reason: ExitReason,
        /// The last lines it wrote to its own stderr.
        log: String,
    },
    /// It lives but did not answer in time.
    #[error("kernel `{kernel}` was not ready after {} s", .after.as_secs())]
    NotReady {
        /// The kernelspec's name.
        kernel: String,
        /// How long we waited.
        after: Duration,
        /// The last lines it wrote to its own stderr.
        log: String,
    },
    /// It died earlier.
    #[error("kernel `{kernel}` is not running ({reason})")]
    Dead {
        /// The kernelspec's name.
        kernel: String,
        /// How it ended.
        reason: ExitReason,
    },
    /// The handle outlived its kernel.
    #[error("kernel was shut down")]
    Closed,
}

impl KernelError {
    /// What the kernel's process wrote before it failed, if anything.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::DiedAtStart { log, .. } | Self::NotReady { log, .. } => {
                Some(log.as_str()).filter(|log| !log.is_empty())
            }
            Self::Spawn { .. } | Self::Prepare { .. } | Self::Dead { .. } | Self::Closed => None,
        }
    }
}

/// How one piece of code is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteOptions {
    /// The source.
    pub code: String,
    /// Run without outputs, history or number.
    pub silent: bool,
    /// Whether somebody is there to answer `input()`.
    pub allow_stdin: bool,
    /// After this long the cell is interrupted, again, and then the kernel is killed.
    pub timeout: Option<Duration>,
}

impl ExecuteOptions {
    /// A cell as a person would run it, with nobody to answer `input()` and no limit.
    pub fn cell(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            silent: false,
            allow_stdin: false,
            timeout: None,
        }
    }
}

impl Kernel {
    /// Starts a kernel and waits until it answers on shell and iopub.
    ///
    /// # Errors
    /// [`KernelError`], with the process already cleaned up.
    pub async fn launch(options: LaunchOptions) -> Result<Self, KernelError> {
        let (commands, inbox) = mpsc::channel(64);
        let (state_tx, state) = watch::channel(KernelState::Starting);
        let (ready_tx, ready) = oneshot::channel();
        task::spawn(
            "kernel actor",
            actor::run(options, inbox, state_tx, ready_tx),
        )
        .detach();
        ready.await.map_err(|_| KernelError::Closed)??;
        Ok(Self { commands, state })
    }

    /// Sends code to the kernel. Executions run in the order in which they were sent.
    ///
    /// # Errors
    /// [`KernelError::Dead`] or [`KernelError::Closed`]; nothing ran.
    pub async fn execute(&self, options: ExecuteOptions) -> Result<Execution, KernelError> {
        self.ask(|reply| actor::Command::Execute { options, reply })
            .await?
    }

    /// Answers an [`ExecutionEvent::InputRequested`] of `execution` ([`Execution::id`]); `value` has no newline.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn reply(&self, execution: &str, value: String) -> Result<(), KernelError> {
        let execution = execution.to_owned();
        self.commands
            .send(actor::Command::Reply { execution, value })
            .await
            .map_err(|_| KernelError::Closed)
    }

    /// Interrupts what runs now. Does nothing when the kernel is idle.
    ///
    /// # Errors
    /// [`KernelError::Dead`] or [`KernelError::Closed`].
    pub async fn interrupt(&self) -> Result<(), KernelError> {
        self.ask(|reply| actor::Command::Interrupt { reply })
            .await?
    }

    /// Ends the kernel and starts it again; all its variables are lost, running executions finish as died.
    ///
    /// # Errors
    /// As [`Kernel::launch`].
    pub async fn restart(&self) -> Result<(), KernelError> {
        self.ask(|reply| actor::Command::Restart { reply }).await?
    }

    /// Shuts the kernel down: `shutdown_request`, 5 s, SIGTERM to the group, 2 s, SIGKILL.
    pub async fn shutdown(&self) {
        // A closed actor has already done it.
        let _ = self.ask(|reply| actor::Command::Shutdown { reply }).await;
    }

    /// What the kernel says it is.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn info(&self) -> Result<KernelInfo, KernelError> {
        self.ask(|reply| actor::Command::Info { reply }).await
    }

    /// Path of the connection file, for `jupyter console --existing`.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn connection_file(&self) -> Result<std::path::PathBuf, KernelError> {
        self.ask(|reply| actor::Command::ConnectionFile { reply })
            .await
    }

    /// What the kernel is doing now.
    pub fn state(&self) -> KernelState {
        self.state.borrow().clone()
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> actor::Command,
    ) -> Result<T, KernelError> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| KernelError::Closed)?;
        answer.await.map_err(|_| KernelError::Closed)
    }
}
