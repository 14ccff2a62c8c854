//! One turn with a person at the terminal: events are shown, questions are asked, Ctrl-C is passed on.

mod edit;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::render::Renderer;
use super::signals::Ask;
use super::style::WARN;
use super::typed::Typed;
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, Decision, EventKind, TurnEnd};
use crate::error::Failure;

/// How a turn ended for the front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// As the agent says.
    Turn {
        /// How.
        end: TurnEnd,
        /// Whether the notebook has all of it.
        saved: bool,
    },
    /// stdout takes no more, for this reason.
    Unread(Failure),
    /// The session is gone.
    Gone,
    /// The person wants the program to end.
    End,
}

/// Runs until the turn ends. `typed` is `None` when nobody can answer: then code that needs approval is declined.
pub(super) async fn turn(
    agent: &mut View,
    renderer: &mut Renderer,
    mut typed: Option<&mut Typed>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Ended {
    let mut sources = std::collections::HashMap::new();
    let mut patience = Patience::default();
    loop {
        let looks_dead_at = patience.ends;
        let settles_at = renderer.settles_at();
        tokio::select! {
            event = agent.recv() => {
                let Some(event) = event else { return Ended::Gone };
                renderer.show(&event.kind);
                if let Some(failure) = renderer.unread.take() {
                    return Ended::Unread(failure);
                }
                match event.kind {
                    EventKind::CodeProposed { cell, source, .. } => {
                        sources.insert(cell, source);
                    }
                    EventKind::CodeStarted { .. } => patience.is_running = true,
                    EventKind::CodeFinished { .. } => patience = Patience::default(),
                    EventKind::ApprovalRequested { cell } => {
                        let source = sources.get(&cell).cloned().unwrap_or_default();
                        let decision = match &mut typed {
                            Some(typed) => decide(typed, &source, signals).await,
                            None => Ok(Some(Decision::Decline { reason: None })),
                        };
                        if let Ok(Some(Decision::Change { source: changed })) = &decision
                            && *changed != source
                        {
                            renderer.changed(changed);
                        }
                        let command = match decision {
                            Ok(Some(decision)) => Command::Decide { cell, decision },
                            Ok(None) | Err(Ask::Interrupt) => Command::Interrupt,
                            Err(Ask::End) => return Ended::End,
                        };
                        if !deliver(command, agent, renderer).await {
                            return Ended::Gone;
                        }
                    }
                    EventKind::InputRequested { cell, prompt, password } => {
                        let line = match &mut typed {
                            Some(typed) => typed.input(&prompt, password, signals).await,
                            None => Ok(None),
                        };
                        let command = match line {
                            Ok(Some(value)) => Command::Reply { cell, value },
                            Ok(None) | Err(Ask::Interrupt) => Command::Interrupt,
                            Err(Ask::End) => return Ended::End,
                        };
                        if !deliver(command, agent, renderer).await {
                            return Ended::Gone;
                        }
                    }
                    EventKind::ContinueRequested { .. } => {
                        let go_on = match &mut typed {
                            Some(typed) => go_on(typed, signals).await,
                            None => Ok(false),
                        };
                        let command = match go_on {
                            Ok(go_on) => Command::Continue { go_on },
                            Err(Ask::Interrupt) => Command::Interrupt,
                            Err(Ask::End) => return Ended::End,
                        };
                        if !deliver(command, agent, renderer).await {
                            return Ended::Gone;
                        }
                    }
                    EventKind::TurnFinished { end, notebook, .. } => {
                        return Ended::Turn { end, saved: notebook.is_some() };
                    }
                    _ => {}
                }
            }
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => {
                    let command = patience.interrupted();
                    if !deliver(command, agent, renderer).await {
                        return Ended::Gone;
                    }
                }
                Ask::End => return Ended::End,
            },
            () = sleep_until(settles_at.unwrap_or_else(Instant::now)), if settles_at.is_some() => {
                renderer.print_settled();
            }
            () = sleep_until(looks_dead_at.unwrap_or_else(Instant::now)), if looks_dead_at.is_some() => {
                patience.ends = None;
                renderer.note(WARN, STILL_RUNNING);
            }
        }
    }
}

/// Sends a command. One that is not accepted is told; whether the session is still there.
async fn deliver(command: Command, agent: &mut View, renderer: &mut Renderer) -> bool {
    match agent.send(command).await {
        Ok(()) => true,
        Err(Rejection::Ended) => false,
        Err(why) => {
            renderer.note(WARN, &why.to_string());
            true
        }
    }
}

/// A cell that goes on although it was interrupted looks like a program that is stuck.
#[derive(Default)]
struct Patience {
    is_running: bool,
    was_interrupted: bool,
    /// When Ctrl-C came last.
    last: Option<Instant>,
    /// When a person is told.
    ends: Option<Instant>,
}

impl Patience {
    /// What Ctrl-C means now: a second one soon after the first restarts the kernel.
    fn interrupted(&mut self) -> Command {
        let now = Instant::now();
        let before = self.last.replace(now);
        if self.is_running && !self.was_interrupted {
            self.was_interrupted = true;
            self.ends = Some(now + LOOKS_DEAD);
        }
        match before {
            Some(before) if self.is_running && now - before <= LOOKS_DEAD => Command::RestartKernel,
            _ => Command::Interrupt,
        }
    }
}

/// How long a cell may take to obey an interrupt before a person is told that it has not.
const LOOKS_DEAD: Duration = Duration::from_secs(2);

/// See [`LOOKS_DEAD`]. By then one more Ctrl-C is a first one again.
const STILL_RUNNING: &str = "still running; Ctrl-C twice in a row restarts the kernel";

/// Asks what shall happen with proposed code; `None` is the end of input.
///
/// # Errors
/// The signal that came instead of an answer.
async fn decide(
    typed: &mut Typed,
    source: &str,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<Decision>, Ask> {
    loop {
        let question = "Run it? [y]es, [n]o, [a]lways, [e]dit, or say what to do instead:";
        let Some(line) = typed.answer(question, signals).await? else {
            return Ok(None);
        };
        return Ok(Some(match line.trim() {
            "" => continue,
            "y" | "Y" | "yes" => Decision::Run,
            "n" | "N" | "no" => Decision::Decline { reason: None },
            "a" | "A" | "always" => Decision::Always,
            "e" | "E" | "edit" => match edit::edit(source).await {
                Ok(source) => Decision::Change { source },
                Err(error) => {
                    super::eprint(&super::filter::plain(&format!("{error}\n")));
                    continue;
                }
            },
            words => Decision::Decline {
                reason: Some(words.to_owned()),
            },
        }));
    }
}

/// Asks whether to go on at a limit; the end of input is a no.
///
/// # Errors
/// The signal that came instead of an answer.
async fn go_on(typed: &mut Typed, signals: &mut mpsc::Receiver<Ask>) -> Result<bool, Ask> {
    loop {
        let Some(line) = typed.answer("Go on? [y]es, [n]o:", signals).await? else {
            return Ok(false);
        };
        match line.trim() {
            "y" | "Y" | "yes" => return Ok(true),
            "n" | "N" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// Ends a session, but not for ever, before the program ends.
pub(super) async fn end_soon(session: crate::app::Session) {
    let _ = tokio::time::timeout(END_WITHIN, session.end()).await;
}

/// How long a session may take to end before the program ends without it.
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);
