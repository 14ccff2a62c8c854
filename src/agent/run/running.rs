//! The cell that runs.

use super::InputRequest;
use crate::agent::cell_run::CellRun;
use crate::kernel::ExecutionEvent;

/// The cell that is in the kernel, or waits for it.
pub(super) struct Running {
    pub(super) cell: String,
    pub(super) execution: Option<CellRun>,
    /// The line it waits for.
    pub(super) input: Option<InputRequest>,
    /// Lines that the model gave it.
    pub(super) answers: u32,
}

/// What the running cell does next.
pub(super) async fn next_execution_event(running: Option<&mut Running>) -> Option<ExecutionEvent> {
    match running {
        Some(Running {
            execution: Some(execution),
            ..
        }) => execution.next().await,
        _ => std::future::pending().await,
    }
}
