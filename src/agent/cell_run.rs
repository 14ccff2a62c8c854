//! A cell in a kernel, from its request to its end: the one way in which a session runs its cells, runs them again, and in
//! which a notebook is run without a model.

use super::event::Command;
use super::tool_calls::ToolPermit;
use crate::kernel::{ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, Outcome};

/// A cell that runs.
#[derive(Debug)]
pub(super) struct CellRun {
    execution: Execution,
    kernel: Kernel,
    interrupts: u32,
    /// What it may do besides, until it is over.
    _permit: Option<ToolPermit>,
}

impl CellRun {
    /// Sends code to a kernel.
    ///
    /// # Errors
    /// The kernel is gone.
    pub(super) async fn start(
        kernel: &Kernel,
        options: ExecuteOptions,
    ) -> Result<Self, KernelError> {
        Ok(Self {
            execution: kernel.execute(options).await?,
            kernel: kernel.clone(),
            interrupts: 0,
            _permit: None,
        })
    }

    /// The same, with a permit to call tools.
    pub(super) fn with(self, permit: Option<ToolPermit>) -> Self {
        Self {
            _permit: permit,
            ..self
        }
    }

    /// The `msg_id` of its request.
    pub(super) fn id(&self) -> &str {
        &self.execution.id
    }

    /// How often somebody wanted it to stop.
    pub(super) fn interrupts(&self) -> u32 {
        self.interrupts
    }

    /// What comes of it next; `None` after [`ExecutionEvent::Finished`]. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<ExecutionEvent> {
        self.execution.next().await
    }

    /// Waits for its end, whatever comes before.
    pub(super) async fn outcome(self) -> Outcome {
        self.execution.outcome().await
    }

    /// Carries out a command that is for a cell that runs; leaves the others alone. A kernel that is gone says so through
    /// the events.
    pub(super) async fn command(&mut self, command: Command) {
        let _ = match command {
            Command::Interrupt => {
                self.interrupts += 1;
                self.kernel.interrupt().await
            }
            Command::RestartKernel => {
                self.interrupts += 1;
                self.kernel.restart().await
            }
            Command::Shutdown => {
                self.kernel.shutdown().await;
                Ok(())
            }
            Command::Reply { value, .. } => self.kernel.reply(self.id(), value).await,
            Command::RefuseInput { reason, .. } => {
                self.kernel.refuse_input(self.id(), reason).await
            }
            _ => Ok(()),
        };
    }
}
