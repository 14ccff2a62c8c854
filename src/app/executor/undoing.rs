//! Undoes turns of a session for a program.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::turn::fresh_view;
use super::{ExecutorError, ProgramSession};
use crate::agent::event::Undone;
use crate::agent::stream::Rejection;
use crate::agent::undo::UndoTo;
use crate::agent::{Command, EventKind};

/// How long undo may take: cells may have to run again.
const WITHIN: Duration = Duration::from_mins(10);

/// The result of undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoOutcome {
    /// Done.
    Undone(Undone),
    /// Not done: undo would be incomplete, for these reasons.
    Inexact(Vec<String>),
    /// Not done, for this reason.
    Refused(String),
}

impl ProgramSession {
    /// Undoes the last `turns`; with `anyway`, even if undo is incomplete.
    ///
    /// # Errors
    /// [`ExecutorError`].
    pub async fn undo(
        &self,
        by: &str,
        turns: u32,
        anyway: bool,
    ) -> Result<UndoOutcome, ExecutorError> {
        let busy = || ExecutorError::Busy {
            seconds: WITHIN.as_secs(),
        };
        let turn = Arc::clone(&self.turn).lock_owned();
        let _turn = timeout(WITHIN, turn).await.map_err(|_| busy())?;
        let _counted = self.live.client();
        let mut view = fresh_view(self.live.handle(), by).await?;
        let to = UndoTo::Turns(turns);
        view.send(Command::Undo { to, anyway }).await?;
        let answered = async {
            loop {
                return Some(match view.recv().await?.kind {
                    EventKind::Undone(undone) => UndoOutcome::Undone(undone),
                    EventKind::UndoAsks { inexact } => UndoOutcome::Inexact(inexact),
                    EventKind::UndoRefused { message } => UndoOutcome::Refused(message),
                    _ => continue,
                });
            }
        };
        let answered = timeout(WITHIN, answered).await.map_err(|_| busy())?;
        answered.ok_or(ExecutorError::Rejected(Rejection::Ended))
    }
}
