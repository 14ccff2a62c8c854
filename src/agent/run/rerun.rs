//! Runs a session's cells again in a new kernel: the last resort if variables were not stored.

use tokio::sync::mpsc;

use super::{ExecuteOptions, Session, Verdict};
use crate::agent::approval::Grounds;
use crate::agent::cell_run::CellRun;
use crate::agent::stream::handle::Request;
use crate::kernel::{Kernel, KernelError};
use crate::session::{Cell, CellKind};

/// The result of a replay.
pub(super) enum Replayed {
    All,
    /// It was incomplete, for this reason.
    Part(String),
    /// It was interrupted before anything happened.
    Stopped,
    /// The session must end.
    Ending,
}

impl Session {
    /// Runs the cells before `from` in a new kernel.
    pub(super) async fn run_again(
        &mut self,
        kernel: &Kernel,
        from: usize,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Result<Replayed, String> {
        let cells = self.transcript.cells().get(..from).unwrap_or_default();
        let sources: Vec<(String, String)> = cells
            .iter()
            .filter(|cell| ran_in_main(cell))
            .map(|cell| (cell.id.clone(), cell.source.clone()))
            .collect();
        let restarted = kernel.restart();
        if let Some(stopped) = self.unless_stopped(kernel, restarted, inbox).await? {
            return Ok(stopped);
        }
        let _ = kernel.send_late(&self.cells.late.0).await;
        let all = sources.len();
        for (index, (cell, source)) in sources.into_iter().enumerate() {
            let number = index + 1;
            self.notice(&format!("running cell {number} of {all} again"));
            // It was approved before, so nothing waits for this log entry.
            self.approve(&cell, Grounds::Undo, None);
            let options = ExecuteOptions {
                timeout: self.options.cell_timeout,
                ..ExecuteOptions::cell(source)
            };
            let part = |why: &str| {
                Replayed::Part(format!(
                    "the variables are those after {index} of {all} cells, for {why}"
                ))
            };
            let permit = self.tool_permit(&cell);
            let execution = match CellRun::start(kernel, options).await {
                Ok(execution) => execution.with(permit),
                Err(error) => return Ok(part(&error.to_string())),
            };
            let mut verdict = Verdict::Aborted;
            let ended = async {
                verdict = execution.outcome().await.verdict;
                Ok::<(), KernelError>(())
            };
            if let Some(stopped) = self.unless_stopped(kernel, ended, inbox).await? {
                return Ok(stopped);
            }
            match verdict {
                // It may have failed the first time, too.
                Verdict::Ok | Verdict::Error { .. } => {}
                Verdict::Interrupted => return Ok(part("it was stopped")),
                Verdict::TimedOut => return Ok(part("a cell took too long")),
                Verdict::Aborted => return Ok(part("a cell did not run")),
                Verdict::KernelDied(reason) => {
                    return Ok(part(&format!("the kernel died: {reason}")));
                }
            }
        }
        Ok(Replayed::All)
    }
}

pub(super) fn ran_in_main(cell: &Cell) -> bool {
    matches!(&cell.kind, CellKind::Code(code) if code.language.is_none() && code.started.is_some())
}
