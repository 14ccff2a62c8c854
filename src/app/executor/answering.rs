//! Turns of programs whose people cannot be asked anything: the server's policy answers each question at once.

use std::time::Duration;

use tokio::time::timeout;

use super::turn::fresh_view;
use super::{Executor, ExecutorError, ProgramSession, Turn, TurnOutcome};
use crate::agent::stream::Rejection;
use crate::agent::{Command, Decision, EventKind, TurnEnd};

/// How long it may take to open another model.
const OPEN_WITHIN: Duration = Duration::from_mins(5);

/// The word for code that reached its time limit.
const TIMED_OUT: &str = "timed out";

/// What code and the model are told instead of asking a person.
#[derive(Debug, Clone, Copy)]
pub struct Unattended {
    /// For code that calls `input()`.
    pub no_input: &'static str,
}

impl Unattended {
    /// The next event of `turn`; `None` at its end. Can be cancelled without loss.
    pub async fn next(self, turn: &mut Turn) -> Option<EventKind> {
        loop {
            let event = turn.next().await?;
            let command = match &event {
                EventKind::ApprovalRequested { cell, .. } => Command::Decide {
                    cell: cell.clone(),
                    decision: Decision::Decline {
                        reason: Some("Nobody can be asked whether this code may run.".to_owned()),
                    },
                },
                EventKind::InputRequested { cell, .. } => Command::RefuseInput {
                    cell: cell.clone(),
                    reason: self.no_input.to_owned(),
                },
                EventKind::ContinueRequested { .. } => Command::Continue {
                    go_on: false,
                    words: None,
                },
                _ => return Some(event),
            };
            // Another client may have answered first, or the code has ended.
            let _ = turn.send(command).await;
        }
    }
}

impl ProgramSession {
    /// Switches to the model `name`, or the executor's model. Returns which one answers.
    ///
    /// # Errors
    /// [`ExecutorError`]; an unavailable model is [`ExecutorError::Model`].
    pub async fn ask_model(
        &self,
        by: &str,
        text: String,
        name: Option<&str>,
        executor: &Executor,
    ) -> Result<Turn, ExecutorError> {
        if let Some(name) = name {
            self.set_model(by, name).await?;
        }
        self.ask(by, text, executor).await
    }

    async fn set_model(&self, by: &str, name: &str) -> Result<(), ExecutorError> {
        let model = self.live.activity().model;
        let is_it = model.is_some_and(|model| {
            model == name || model.rsplit_once('/').is_some_and(|(_, bare)| bare == name)
        });
        if is_it {
            return Ok(());
        }
        let mut view = fresh_view(self.live.handle(), by).await?;
        let command = Command::SetModel {
            model: name.to_owned(),
        };
        view.send(command).await?;
        let told = async {
            loop {
                match view.recv().await?.kind {
                    EventKind::ModelChanged { .. } => return Some(Ok(())),
                    EventKind::ModelUnchanged { message, .. } => {
                        let model = name.to_owned();
                        return Some(Err(ExecutorError::Model { model, message }));
                    }
                    _ => {}
                }
            }
        };
        let told = timeout(OPEN_WITHIN, told).await;
        told.map_err(|_| ExecutorError::Busy {
            seconds: OPEN_WITHIN.as_secs(),
        })?
        .ok_or(ExecutorError::Rejected(Rejection::Ended))?
    }
}

impl ProgramSession {
    /// `text` of a cell, with notes for a model about how its turn ended; `ran`: the cell exists.
    pub fn told(&self, outcome: &TurnOutcome, mut text: String, ran: bool) -> String {
        let mut add = |line: &str| {
            if !line.is_empty() {
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(line);
            }
        };
        for note in self.notes.iter().chain(&outcome.notices) {
            // If nothing ran, the notes say why.
            add(&if ran {
                format!("[{note}]")
            } else {
                format!("error: {note}")
            });
        }
        match &outcome.end {
            Some(TurnEnd::KernelFailed { message }) => {
                add(&format!("error: the code did not run: {message}"));
            }
            None => {
                add(
                    "error: the session ended while the code ran; call again to continue it without its variables",
                );
            }
            Some(_) if outcome.word() == TIMED_OUT => {
                add("[timeout_s says how long code may run]");
            }
            Some(_) => {}
        }
        text
    }
}

impl TurnOutcome {
    /// How a run ended, as one word.
    pub fn word(&self) -> String {
        match (&self.status, &self.end) {
            (Some(status), _) if self.timed_out && status != "ok" && status != "error" => {
                TIMED_OUT.to_owned()
            }
            (Some(status), _) => status.clone(),
            (None, Some(TurnEnd::Interrupted)) => "interrupted".to_owned(),
            (None, _) => "not run".to_owned(),
        }
    }

    /// Why there is no complete answer; `None` if there is one.
    pub fn problem(&self) -> Option<String> {
        match &self.end {
            Some(TurnEnd::Done) => None,
            Some(end) => Some(words(end)),
            None => Some("the session ended before there was an answer".to_owned()),
        }
    }
}

fn words(end: &TurnEnd) -> String {
    match end {
        TurnEnd::Done => String::new(),
        TurnEnd::Planned => "there is a plan that nobody has approved".to_owned(),
        TurnEnd::CellFailed => "the code failed".to_owned(),
        TurnEnd::Interrupted => "it was interrupted".to_owned(),
        TurnEnd::StepLimit { steps } => {
            format!("the agent used all its {steps} steps; ask it to go on, or raise --max-steps")
        }
        TurnEnd::Repeating => "the agent ran the same failing code again and again".to_owned(),
        TurnEnd::Budget { message } => format!("a budget is used up: {message}"),
        TurnEnd::Declined => {
            "code was declined; start with --yes, or use a client that can ask its user".to_owned()
        }
        TurnEnd::ModelFailed { message, .. } => format!("the model could not be asked: {message}"),
        TurnEnd::KernelFailed { message } => format!("there is no kernel: {message}"),
    }
}
