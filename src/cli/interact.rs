//! One turn with a person at the terminal: shows events, asks questions, passes Ctrl-C on.

mod approve;
mod controls;
pub(super) mod edit;
mod words;

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

#[cfg(debug_assertions)]
use super::crash;
use super::eprint;
use super::line_source::LineSource;
use super::render::Renderer;
use super::stop::Ask;
use super::style::WARN;
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind, TurnEnd};
use crate::error::Failure;
use approve::{Edited, Question, approve};
pub(super) use controls::Controls;

/// Who answers questions.
pub(super) struct Person<'a> {
    /// The source of their lines.
    pub typed: &'a mut LineSource,
    /// The settings that they can change meanwhile.
    pub controls: &'a mut Controls,
}

/// How a turn ended for the front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ended {
    /// The agent ended the turn.
    Turn {
        /// How it ended.
        end: TurnEnd,
        /// Whether the notebook has all of it.
        saved: bool,
    },
    /// stdout accepts no more output, for this reason.
    Unread(Failure),
    /// The session is gone.
    Gone,
    /// The person wants the program to end.
    End,
    /// `/exit` during the turn, which has ended.
    Left {
        /// Whether the notebook has all of it.
        saved: bool,
    },
}

/// Runs until the turn ends. `person` is `None` when nobody can answer: then code that needs approval is declined.
pub(super) async fn turn(
    agent: &mut View,
    renderer: &mut Renderer,
    mut person: Option<Person<'_>>,
    signals: &mut mpsc::Receiver<Ask>,
) -> Ended {
    let mut edited = Edited::new();
    let mut leaves = false;
    let mut patience = Patience {
        // Another terminal may attach while a cell runs.
        is_running: renderer.is_running(),
        ..Patience::default()
    };
    loop {
        let looks_dead_at = patience.ends;
        let explains_at = patience.explains;
        let wakes_at = renderer.wakes_at();
        tokio::select! {
            event = agent.recv() => {
                let Some(event) = event else { return Ended::Gone };
                show(&event.kind, agent, renderer).await;
                if let Some(failure) = renderer.unread.take() {
                    return Ended::Unread(failure);
                }
                match event.kind {
                    EventKind::ApprovalChanged { approval, .. } => {
                        if let Some(person) = &mut person {
                            person.controls.approval = approval;
                        }
                    }
                    EventKind::CodeStarted { .. } => patience.is_running = true,
                    EventKind::CodeFinished { .. } => patience = Patience::default(),
                    EventKind::ApprovalRequested { cell, findings, reason } => {
                        let person = person.as_mut();
                        let question = Question { findings, reason };
                        let asked = approve(&cell, &question, &mut edited, agent, renderer, person, signals);
                        match asked.await {
                            Ok(wants_to_leave) => leaves |= wants_to_leave,
                            Err(ended) => return ended,
                        }
                    }
                    EventKind::InputRequested { cell, prompt, password } => {
                        let question = (prompt.as_str(), password);
                        let reply = reply(cell, question, person.as_mut(), agent, signals);
                        match reply.await {
                            Ok(Some(command)) => {
                                if !deliver(command, agent, renderer).await {
                                    return Ended::Gone;
                                }
                            }
                            Ok(None) => {}
                            Err(ended) => return ended,
                        }
                    }
                    EventKind::ContinueRequested { end } => {
                        let said = match &mut person {
                            Some(person) => tokio::select! {
                                said = go_on(&end, person.typed, signals) => said,
                                () = agent.until(is_continued) => {
                                    person.typed.cover();
                                    continue;
                                }
                            },
                            None => Ok((false, None)),
                        };
                        let command = match said {
                            Ok((go_on, words)) => Command::Continue { go_on, words },
                            Err(Ask::Interrupt) => Command::Interrupt,
                            Err(Ask::End) => return Ended::End,
                        };
                        if !deliver(command, agent, renderer).await {
                            return Ended::Gone;
                        }
                    }
                    EventKind::TurnFinished { end, notebook, .. } => {
                        let saved = notebook.is_some();
                        return if leaves { Ended::Left { saved } } else { Ended::Turn { end, saved } };
                    }
                    _ => {}
                }
            }
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => {
                    renderer.stopping();
                    let command = patience.interrupted();
                    if !deliver(command, agent, renderer).await {
                        return Ended::Gone;
                    }
                }
                Ask::End => return Ended::End,
            },
            () = sleep_until(wakes_at.unwrap_or_else(Instant::now)), if wakes_at.is_some() => {
                renderer.wake();
            }
            () = sleep_until(looks_dead_at.unwrap_or_else(Instant::now)), if looks_dead_at.is_some() => {
                patience.ends = None;
                renderer.note(WARN, STILL_RUNNING);
            }
            () = sleep_until(explains_at.unwrap_or_else(Instant::now)), if explains_at.is_some() => {
                patience.explains = None;
                renderer.has_not_stopped();
            }
        }
    }
}

/// A person's reply to a question of code, with its `prompt` and whether it asks for a password. `None` if another
/// front end replied.
///
/// # Errors
/// The person wants the program to end.
async fn reply(
    cell: String,
    (prompt, password): (&str, bool),
    person: Option<&mut Person<'_>>,
    agent: &mut View,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<Command>, Ended> {
    let line = match person {
        Some(person) => tokio::select! {
            line = person.typed.input(prompt, password, signals) => line,
            () = agent.until(|event| is_answered(&cell, event)) => {
                person.typed.cover();
                return Ok(None);
            }
        },
        None => Ok(None),
    };
    match line {
        Ok(Some(value)) => Ok(Some(Command::Reply { cell, value })),
        Ok(None) | Err(Ask::Interrupt) => Ok(Some(Command::Interrupt)),
        Err(Ask::End) => Err(Ended::End),
    }
}

/// Shows an event; for a cell that starts, also the number that a person can refer to.
async fn show(event: &EventKind, agent: &mut View, renderer: &mut Renderer) {
    if let EventKind::CodeStarted { cell } = event {
        renderer.numbered(agent.place_of(cell).await);
    }
    renderer.show(event);
    #[cfg(debug_assertions)]
    crash::fail_at(event);
}

/// Whether another client sent the line that this cell waits for, or it is no longer needed.
fn is_answered(cell: &str, event: &EventKind) -> bool {
    match event {
        EventKind::InputAnswered { cell: of, .. } | EventKind::CodeFinished { cell: of, .. } => {
            of == cell
        }
        EventKind::TurnFinished { .. } => true,
        _ => false,
    }
}

/// Whether another client decided if the turn continues.
fn is_continued(event: &EventKind) -> bool {
    matches!(
        event,
        EventKind::ContinueResolved { .. } | EventKind::TurnFinished { .. }
    )
}

/// Sends a command, and prints why if it is rejected. Returns whether the session still exists.
pub(super) async fn deliver(command: Command, agent: &mut View, renderer: &mut Renderer) -> bool {
    match agent.send(command).await {
        Ok(()) => true,
        Err(Rejection::Ended) => false,
        Err(why) => {
            renderer.note(WARN, &why.to_string());
            true
        }
    }
}

/// Explains a cell that keeps running after an interrupt, which looks like a program that is stuck.
#[derive(Default)]
struct Patience {
    is_running: bool,
    was_interrupted: bool,
    /// When Ctrl-C last came.
    last: Option<Instant>,
    /// When to tell the person why it has not stopped yet.
    explains: Option<Instant>,
    /// When to tell the person that it is still running.
    ends: Option<Instant>,
}

impl Patience {
    /// What Ctrl-C means now: a second one soon after the first restarts the kernel.
    fn interrupted(&mut self) -> Command {
        let now = Instant::now();
        let before = self.last.replace(now);
        if before.is_none() {
            self.explains = Some(now + EXPLAINS);
        }
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

/// How long a stop may take before the person is told why it has not happened.
const EXPLAINS: Duration = Duration::from_millis(500);

/// How long a cell may take to handle an interrupt before the person is told that it has not.
const LOOKS_DEAD: Duration = Duration::from_secs(2);

/// The message after [`LOOKS_DEAD`]. By then, another Ctrl-C counts as a first one again.
const STILL_RUNNING: &str = "still running; Ctrl-C twice in a row restarts the kernel";

/// Asks whether to continue at a limit or with a plan; returns the answer and any words with it. The end of input
/// means no.
///
/// # Errors
/// The signal that came instead of an answer.
async fn go_on(
    end: &TurnEnd,
    typed: &mut LineSource,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<(bool, Option<String>), Ask> {
    let is_plan = *end == TurnEnd::Planned;
    let question = if is_plan {
        eprint("\n");
        "Carry it out? [y]es, [n]o, or say what to change:"
    } else {
        "Go on? [y]es, [n]o:"
    };
    loop {
        let Some(line) = typed.answer(question, signals).await? else {
            return Ok((false, None));
        };
        match line.trim() {
            "y" | "Y" | "yes" => return Ok((true, None)),
            "n" | "N" | "no" => return Ok((false, None)),
            "ok" if is_plan => return Ok((true, None)),
            "q" if is_plan => return Ok((false, None)),
            words if is_plan && !words.is_empty() => return Ok((true, Some(words.to_owned()))),
            _ => {}
        }
    }
}

/// Ends a session before the program ends, with a time limit.
pub(super) async fn end_soon(session: crate::app::Session) {
    let _ = tokio::time::timeout(END_WITHIN, session.end()).await;
}

/// How long a session may take to end before the program ends without it.
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);
