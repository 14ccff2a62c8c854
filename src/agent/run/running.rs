//! The running cell.

use super::InputRequest;
use crate::agent::cell_run::CellRun;
use crate::kernel::ExecutionEvent;

/// The cell that is in the kernel, or waits for it.
pub(super) struct Running {
    pub(super) cell: String,
    pub(super) execution: Option<CellRun>,
    /// Its pending input request.
    pub(super) input: Option<InputRequest>,
    /// How many lines the model has given it.
    pub(super) answers: u32,
}

/// The next event of the running cell.
pub(super) async fn next_execution_event(running: Option<&mut Running>) -> Option<ExecutionEvent> {
    match running {
        Some(Running {
            execution: Some(execution),
            ..
        }) => execution.next().await,
        _ => std::future::pending().await,
    }
}
