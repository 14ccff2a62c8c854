//! A cell in a kernel, from its request to its end. Sessions run and rerun their cells through it, and notebooks run
//! through it without a model.

use super::event::Command;
use super::tool_calls::ToolPermit;
use crate::kernel::{ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, Outcome};

/// A running cell.
#[derive(Debug)]
pub(super) struct CellRun {
    execution: Execution,
    kernel: Kernel,
    interrupts: u32,
    /// Permission to call tools, until the cell ends.
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

    /// Adds a permit to call tools.
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

    /// How often an interrupt was requested.
    pub(super) fn interrupts(&self) -> u32 {
        self.interrupts
    }

    /// The next event; `None` after [`ExecutionEvent::Finished`]. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<ExecutionEvent> {
        self.execution.next().await
    }

    /// Waits for the end, discarding other events.
    pub(super) async fn outcome(self) -> Outcome {
        self.execution.outcome().await
    }

    /// Carries out a command for a running cell; ignores others. If the kernel is gone, the events report it.
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
