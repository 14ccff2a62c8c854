//! An open session: one task reports its events to the client, asks the client what a person must decide, and tracks
//! what each of the client's requests waits for.
//!
//! A cell's outputs are read from the session each time, at a limited rate; nothing of them is stored here.

mod asking;
mod cells;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::peer::Peer;
use super::{choices, commands, updates};
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind, TurnEnd};
use crate::app::model::ListedModel;
use crate::app::registry::{ClientGuard, LiveSession};
use crate::rpc::RpcError;
use crate::task::{self, Task};
use cells::Cells;

/// How many wishes may wait for the task.
const WISHES: usize = 16;
/// A second cancellation after this time restarts the kernel.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// An open session of a client.
pub(super) struct Conversation {
    pub(super) live: Arc<LiveSession>,
    models: Arc<Vec<ListedModel>>,
    wishes: mpsc::Sender<Wish>,
    begin: std::sync::Mutex<Option<oneshot::Sender<()>>>,
    /// The registry does not end sessions that have clients.
    _counted: ClientGuard,
    /// The task ends when this is dropped.
    _task: Task,
}

/// A wish of the client.
enum Wish {
    /// A command, which is answered once `until` is reached.
    Turn {
        command: Command,
        until: Until,
        answer: Answer,
    },
    /// Switches the model.
    Model {
        model: String,
        answer: oneshot::Sender<Result<(), RpcError>>,
    },
    /// Cancels the turn.
    Cancel,
}

type Answer = oneshot::Sender<Result<&'static str, RpcError>>;

/// When a command is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// When the agent is idle again.
    Idle,
    /// When an undo has succeeded or failed.
    Undone,
    /// When the session's code has run again.
    Restored,
}

impl Conversation {
    /// For `live`, whose events `view` delivers. The client gets no message before [`Self::begin`]; `notes` are sent
    /// with its first turn.
    pub(super) fn new(
        live: Arc<LiveSession>,
        view: View,
        peer: Peer,
        models: Vec<ListedModel>,
        notes: Vec<String>,
    ) -> Self {
        let (wishes, inbox) = mpsc::channel(WISHES);
        let (begin, is_known) = oneshot::channel();
        let models = Arc::new(models);
        let follower = Follower {
            cells: Cells::new(Arc::clone(&live), peer.clone()),
            live: Arc::clone(&live),
            models: Arc::clone(&models),
            view,
            peer,
            notes,
            turn: None,
            model: None,
            questions: FuturesUnordered::new(),
            settled: BTreeMap::new(),
            asked: 0,
        };
        let task = task::spawn("acp session", async move {
            // If it is dropped without `begin`, there is nothing to do.
            if is_known.await.is_ok() {
                follower.run(inbox).await;
            }
        });
        Self {
            _counted: live.client(),
            live,
            models,
            wishes,
            begin: std::sync::Mutex::new(Some(begin)),
            _task: task,
        }
    }

    /// The client knows the session now, so messages can be sent.
    pub(super) fn begin(&self) {
        let begin = self
            .begin
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(begin) = begin {
            let _ = begin.send(());
        }
    }

    /// Model and approval policy, as options.
    pub(super) async fn options(&self) -> Result<Value, RpcError> {
        let status = self.live.handle().status().await.map_err(rejected)?;
        Ok(choices::options(&status, &self.models))
    }

    /// The same policy as modes.
    pub(super) async fn modes(&self) -> Result<Value, RpcError> {
        let status = self.live.handle().status().await.map_err(rejected)?;
        Ok(choices::modes(&status))
    }

    /// Carries out `command`, and returns the stop reason. Cancelling `token` cancels the turn.
    pub(super) async fn turn(
        &self,
        command: Command,
        until: Until,
        token: &CancellationToken,
    ) -> Result<&'static str, RpcError> {
        let (answer, mut answered) = oneshot::channel();
        self.wish(Wish::Turn {
            command,
            until,
            answer,
        })
        .await?;
        let answer = tokio::select! {
            answer = &mut answered => answer,
            () = token.cancelled() => {
                self.cancel().await;
                answered.await
            }
        };
        answer.unwrap_or_else(|_| Err(ended()))
    }

    /// Cancels the running turn.
    pub(super) async fn cancel(&self) {
        // A session that has ended has no turn.
        let _ = self.wish(Wish::Cancel).await;
    }

    /// Switches the model.
    pub(super) async fn set_model(&self, model: String) -> Result<(), RpcError> {
        let (answer, answered) = oneshot::channel();
        self.wish(Wish::Model { model, answer }).await?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn wish(&self, wish: Wish) -> Result<(), RpcError> {
        self.wishes.send(wish).await.map_err(|_| ended())
    }
}

fn ended() -> RpcError {
    RpcError::internal("the session has ended: load it again")
}

/// Why the session rejected a command.
pub(super) fn rejected(rejection: Rejection) -> RpcError {
    match rejection {
        Rejection::Ended => ended(),
        other => RpcError::invalid_request(other.to_string()),
    }
}

/// A waiting request of the client.
struct Waiting {
    until: Until,
    answer: Answer,
    /// When the client first cancelled it.
    cancelled: Option<Instant>,
}

/// The state of the task.
struct Follower {
    live: Arc<LiveSession>,
    models: Arc<Vec<ListedModel>>,
    view: View,
    peer: Peer,
    /// Notes for the person about opening the session.
    notes: Vec<String>,
    cells: Cells,
    turn: Option<Waiting>,
    model: Option<oneshot::Sender<Result<(), RpcError>>>,
    /// Questions to the person, each with the command for its answer.
    questions: FuturesUnordered<BoxFuture<'static, Option<Command>>>,
    /// Cancels the questions about a cell once no answer is needed.
    settled: BTreeMap<String, CancellationToken>,
    /// Numbers the questions that are not about a cell.
    asked: usize,
}

impl Follower {
    async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        self.tell(commands::available()).await;
        loop {
            let due = self.cells.due();
            tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(wish) => self.wanted(wish).await,
                    None => return,
                },
                event = self.view.recv() => match event {
                    Some(event) => self.show(event.kind).await,
                    None => return self.over(),
                },
                Some(command) = self.questions.next(), if !self.questions.is_empty() => {
                    if let Some(command) = command {
                        // Another client may have answered first.
                        let _ = self.view.send(command).await;
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.cells.flush().await;
                }
            }
        }
    }

    async fn wanted(&mut self, wish: Wish) {
        match wish {
            Wish::Cancel => self.cancel().await,
            Wish::Model { model, answer } => {
                if self.model.is_some() {
                    let _ = answer.send(Err(RpcError::invalid_request(
                        "another model is being opened",
                    )));
                    return;
                }
                match self.view.send(Command::SetModel { model }).await {
                    Ok(()) => self.model = Some(answer),
                    Err(error) => drop(answer.send(Err(rejected(error)))),
                }
            }
            Wish::Turn {
                command,
                until,
                answer,
            } => {
                if self.turn.is_some() {
                    let words = "a prompt of this session is being answered: cancel it first";
                    let _ = answer.send(Err(RpcError::invalid_request(words)));
                    return;
                }
                for note in std::mem::take(&mut self.notes) {
                    self.tell(updates::notice(&note)).await;
                }
                let mut sent = self.view.send(command).await;
                let is_restore = until == Until::Restored;
                if is_restore && sent == Err(Rejection::NotWaiting) && !self.has_kernel().await {
                    // It is sent again when the kernel is ready.
                    sent = Ok(());
                }
                match sent {
                    Ok(()) => {
                        self.turn = Some(Waiting {
                            until,
                            answer,
                            cancelled: None,
                        });
                    }
                    Err(Rejection::NotWaiting) if is_restore => {
                        let words = "There is nothing to run again: the variables are there, or no code ran.";
                        self.tell(updates::answer(words)).await;
                        let _ = answer.send(Ok("end_turn"));
                    }
                    Err(error) => drop(answer.send(Err(rejected(error)))),
                }
            }
        }
    }

    async fn cancel(&mut self) {
        let Some(turn) = &mut self.turn else {
            return;
        };
        let command = match turn.cancelled {
            None => {
                turn.cancelled = Some(Instant::now());
                Command::Interrupt
            }
            // The code ignored the interrupt.
            Some(at) if at.elapsed() >= AGAIN_AFTER => Command::RestartKernel,
            Some(_) => return,
        };
        // If the session has ended, the next event says so.
        let _ = self.view.send(command).await;
    }

    async fn show(&mut self, event: EventKind) {
        match &event {
            EventKind::CodeDelta { cell, .. } => self.cells.written(cell).await,
            EventKind::CodeProposed { cell, .. } | EventKind::CodeStarted { cell } => {
                self.cells.show(cell).await;
            }
            EventKind::Output { cell, .. }
            | EventKind::PicturesSaved { cell, .. }
            | EventKind::FilesChanged { cell, .. } => self.cells.changed(cell),
            EventKind::CodeFinished { cell, .. } => {
                self.settle(cell);
                self.cells.show(cell).await;
            }
            EventKind::CodeForbidden { cell, .. } => {
                self.cells.show(cell).await;
                self.say(&event).await;
            }
            EventKind::ApprovalRequested {
                cell,
                findings,
                reason,
            } => {
                self.ask_approval(cell, findings, reason).await;
            }
            EventKind::InputRequested {
                cell,
                prompt,
                password,
            } => self.ask_input(cell, prompt, *password),
            EventKind::ContinueRequested { end } => self.ask_to_go_on(end).await,
            EventKind::ApprovalResolved { cell, .. } | EventKind::InputAnswered { cell, .. } => {
                self.settle(cell);
            }
            EventKind::ContinueResolved { .. } => self.settle(asking::GO_ON),
            EventKind::ApprovalChanged { .. } => self.tell_options().await,
            EventKind::ModelChanged { .. } => {
                self.tell_options().await;
                if let Some(answer) = self.model.take() {
                    let _ = answer.send(Ok(()));
                }
            }
            EventKind::ModelUnchanged { model, message } => match self.model.take() {
                Some(answer) => {
                    let words = format!("the model `{model}` cannot be used: {message}");
                    let _ = answer.send(Err(RpcError::params(words)));
                }
                None => self.say(&event).await,
            },
            EventKind::Retrying { .. } => {
                self.cells.give_up_written().await;
                self.say(&event).await;
            }
            EventKind::SessionResumed { .. }
                if self
                    .turn
                    .as_ref()
                    .is_some_and(|turn| turn.until == Until::Restored) =>
            {
                // A kernel that was kept needs no replay: `SessionRestored` comes next.
                let _ = self.view.send(Command::Restore { replay: true }).await;
            }
            EventKind::KernelFailed { .. } | EventKind::SessionRestored { .. } => {
                self.say(&event).await;
                self.finish(Until::Restored, Ok("end_turn"));
            }
            EventKind::Undone(_) | EventKind::UndoAsks { .. } | EventKind::UndoRefused { .. } => {
                if let Some(words) = commands::undo_words(&event) {
                    self.tell(updates::answer(&words)).await;
                }
                self.finish(Until::Undone, Ok("end_turn"));
            }
            EventKind::TurnFinished { end, .. } => self.turn_finished(end).await,
            _ => self.say(&event).await,
        }
    }

    async fn turn_finished(&mut self, end: &TurnEnd) {
        self.cells.give_up_written().await;
        self.cells.flush().await;
        for settled in std::mem::take(&mut self.settled).into_values() {
            settled.cancel();
        }
        self.tell_usage().await;
        let was_cancelled = self
            .turn
            .as_ref()
            .is_some_and(|turn| turn.cancelled.is_some());
        let outcome = match updates::end(end) {
            _ if was_cancelled => Ok("cancelled"),
            Ok((reason, words)) => {
                if let Some(words) = words {
                    self.tell(updates::notice(&words)).await;
                }
                Ok(reason)
            }
            Err(message) => Err(RpcError::internal(message)),
        };
        self.finish(Until::Idle, outcome);
    }

    /// Whether the main kernel is available.
    async fn has_kernel(&mut self) -> bool {
        let kernels = self.live.handle().kernels().await;
        kernels.is_ok_and(|kernels| !kernels.is_empty())
    }

    /// Answers the request that waits for this.
    fn finish(&mut self, until: Until, outcome: Result<&'static str, RpcError>) {
        if let Some(turn) = self.turn.take_if(|turn| turn.until == until) {
            // The client may be gone.
            let _ = turn.answer.send(outcome);
        }
    }

    /// The session has ended.
    fn over(self) {
        if let Some(turn) = self.turn {
            let _ = turn.answer.send(Err(ended()));
        }
        if let Some(answer) = self.model {
            let _ = answer.send(Err(ended()));
        }
    }

    /// Sends what an event says on its own.
    async fn say(&mut self, event: &EventKind) {
        if let Some(update) = updates::of_event(event) {
            self.tell(update).await;
        }
    }

    async fn tell(&mut self, update: Value) {
        self.peer.update(&self.live.id, update).await;
    }

    async fn tell_options(&mut self) {
        let Ok(status) = self.live.handle().status().await else {
            return;
        };
        let options = choices::options(&status, &self.models);
        self.tell(json!({ "sessionUpdate": "config_option_update", "configOptions": options }))
            .await;
        let mode = status.approval.name();
        self.tell(json!({ "sessionUpdate": "current_mode_update", "currentModeId": mode }))
            .await;
    }

    /// Sends the used part of the model's context window, and the cost.
    async fn tell_usage(&mut self) {
        let Ok(status) = self.live.handle().status().await else {
            return;
        };
        let Some(window) = status.context.window else {
            return;
        };
        let mut update = json!({ "sessionUpdate": "usage_update", "used": status.context.tokens, "size": window });
        if let Some(cost) = status.spent.cost_usd {
            update["cost"] = json!({ "amount": cost, "currency": "USD" });
        }
        self.tell(update).await;
    }
}
