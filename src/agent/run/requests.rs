//! Handles clients' commands: which are accepted, and who answered which question.

use tokio::sync::mpsc;

use super::restoring::{HELD, RESTORE, Restoring};
use super::{Command, EventKind, Session, State};
use crate::agent::event::Decision;
use crate::agent::stream::handle::{Joining, Request};
use crate::agent::stream::snapshot::{TurnPhase, Writing};
use crate::agent::stream::{PendingRequest, Rejection, SessionState, Snapshot, VERSION};

/// The key of the question whether a turn continues, which is not about a cell.
const CONTINUE: &str = "continue";

impl Session {
    /// Answers a request, and carries it out if it is accepted. Returns whether the session must end.
    pub(super) async fn take_request(
        &mut self,
        request: Request,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        match self.check(&request.command) {
            Ok(()) => {
                self.take_command(request.accept(self.subscribers.log.appended()), inbox)
                    .await
            }
            Err(why) => {
                request.reject(why);
                false
            }
        }
    }

    /// Whether a command is valid in the session's current state.
    fn check(&self, command: &Command) -> Result<(), Rejection> {
        let is_idle = self.turn.state == State::Idle;
        match command {
            Command::Submit { .. } | Command::Plan { .. } | Command::Run { .. }
                if self.resuming.restoring.is_some() || self.ending.is_some() =>
            {
                let full = self.resuming.held.len() >= HELD;
                if full {
                    Err(Rejection::Restoring)
                } else {
                    Ok(())
                }
            }
            // While the model's code waits for a person, they may first run something to check.
            Command::Run { .. } if matches!(self.turn.state, State::Deciding(_)) => Ok(()),
            Command::Submit { .. }
            | Command::Plan { .. }
            | Command::Run { .. }
            | Command::Compact
            | Command::Suggest => {
                if is_idle {
                    Ok(())
                } else {
                    Err(Rejection::Busy)
                }
            }
            Command::Decide { cell, .. } => {
                let waits = matches!(&self.turn.state, State::Deciding(queue)
                    if queue.front().is_some_and(|call| call.cell == *cell));
                self.waiting(waits, cell)
            }
            Command::Reply { cell, .. } | Command::RefuseInput { cell, .. } => {
                let running = self.cells.running.as_ref();
                let waits = running.is_some_and(|it| it.cell == *cell && it.input.is_some());
                self.waiting(waits, cell)
            }
            Command::Continue { .. } => {
                self.waiting(matches!(self.turn.state, State::Paused(_)), CONTINUE)
            }
            Command::Restore { .. } => self.waiting(
                matches!(self.resuming.restoring, Some(Restoring::Asked)),
                RESTORE,
            ),
            Command::Undo { .. }
            | Command::Checkpoints
            | Command::SetModel { .. }
            | Command::SetApproval { .. }
            | Command::ReplaceKernel
            | Command::Interrupt
            | Command::RestartKernel
            | Command::Shutdown => Ok(()),
        }
    }

    /// Whether an answer to this question is still expected.
    fn waiting(&self, waits: bool, question: &str) -> Result<(), Rejection> {
        if waits {
            return Ok(());
        }
        Err(self.subscribers.too_late(question))
    }

    /// Tells everyone who decided about a cell.
    pub(super) fn decided(&mut self, cell: &str, decision: &Decision) {
        let by = self.subscribers.resolved_by(cell);
        self.publish(EventKind::ApprovalResolved {
            cell: cell.to_owned(),
            decision: decision.clone(),
            by,
        });
    }

    /// Tells everyone the new approval mode.
    pub(super) fn tell_approval(&mut self) {
        let approval = self.turn.approval();
        let by = self.subscribers.by();
        self.publish(EventKind::ApprovalChanged { approval, by });
    }

    /// Tells everyone who decided whether a turn continues.
    pub(super) fn said_to_go_on(&mut self, go_on: bool) {
        let by = self.subscribers.resolved_by(CONTINUE);
        self.publish(EventKind::ContinueResolved { go_on, by });
    }

    /// A client joins: it gets the current state, and every item from then on.
    pub(super) fn join(&mut self, joining: Joining) {
        let joining = match joining {
            Joining::Snapshot(joining) => joining,
            Joining::Status(asking) => {
                // A client that is gone needs none.
                let _ = asking.send(self.status());
                return;
            }
            Joining::Look(look) => return look(&self.transcript, self.kernels.all_ready()),
        };
        self.announce();
        let snapshot = Snapshot {
            version: VERSION,
            at: self.subscribers.log.newest(),
            revision: self.transcript.revision(),
            limits: self.options.limits,
            transcript: self.transcript.snapshot().collect(),
            state: self.state(),
        };
        // A client that is gone needs none.
        let _ = joining.send(snapshot);
    }

    fn state(&self) -> SessionState {
        let provider = self.options.provider.as_ref();
        let calls = self
            .asking
            .sampling
            .iter()
            .flat_map(|sampling| &sampling.calls);
        SessionState {
            model: provider.map(|provider| provider.info().name.clone()),
            kernels: self.kernels.offers(),
            notebook: self.options.notebook.display().to_string(),
            instructions: self.options.instructions.clone(),
            approval: self.turn.approval(),
            turn: match &self.turn.state {
                State::Idle => TurnPhase::Idle,
                State::Sampling => TurnPhase::Sampling,
                State::Compacting => TurnPhase::Compacting,
                State::Deciding(_) => TurnPhase::Deciding,
                State::Executing { .. } | State::RunningOwn { .. } => TurnPhase::Executing,
                State::Paused(_) => TurnPhase::Paused,
            },
            last_turn: self.subscribers.last_turn.clone().map(Box::new),
            writing: calls
                .filter(|call| !call.shown().is_empty())
                .map(|call| Writing {
                    cell: call.cell.clone(),
                    code: call.shown().to_owned(),
                })
                .collect(),
            pending: self.pending().into_iter().collect(),
        }
    }

    /// The question that waits for a person.
    fn pending(&self) -> Option<PendingRequest> {
        if let Some(Restoring::Asked) = self.resuming.restoring {
            return Some(PendingRequest::Restore {
                code_cells: self.cells_to_replay(),
            });
        }
        match &self.turn.state {
            State::Deciding(queue) => queue.front().map(|call| {
                let (findings, reason) = self.question_about();
                PendingRequest::Approval {
                    cell: call.cell.clone(),
                    findings,
                    reason,
                }
            }),
            State::Paused(end) => Some(PendingRequest::Continue { end: end.clone() }),
            State::Executing { .. } | State::RunningOwn { .. } => {
                let running = self.cells.running.as_ref()?;
                let input = running.input.as_ref()?;
                Some(PendingRequest::Input {
                    cell: running.cell.clone(),
                    prompt: input.prompt.clone(),
                    password: input.password,
                })
            }
            State::Idle | State::Sampling | State::Compacting => None,
        }
    }
}
