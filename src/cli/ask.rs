//! `sponde ask`: one question, one answer.

mod answer;

use std::io::Read as _;

use tokio::sync::mpsc;

use super::args::AskArgs;
use super::attention::Attention;
use super::chat;
use super::coming::Coming;
use super::hints::{KERNEL_HINT, model_hint};
use super::interact::{self, Controls, Ended, Person};
use super::line_source::LineSource;
use super::render::Renderer;
use super::signals;
use super::stop::Ask;
use super::style::WARN;
use super::{Context, filter, piped, print, style};
use super::{crash, missing, project};
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, Decision, Event, EventKind, TurnEnd, sessions};
use crate::app::answer::AnswerSchema;
use crate::app::{Lifetime, Notify, Session, session};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::session::{Cell, CellKind, Transcript};
use answer::Wanted;

/// Runs it.
pub(super) async fn ask(args: AskArgs, context: &Context) -> Result<Exit, Failure> {
    let question = question(&args.question)?;
    let silent = args.answer.quiet.then(|| Context {
        notify: Notify::new(|notice| tracing::info!(?notice, "not shown: --quiet")),
        ..context.clone()
    });
    let context = silent.as_ref().unwrap_or(context);
    let wanted = Wanted::of(&args.answer)?;
    let is_watched = !args.json && !args.answer.quiet;
    let interactive = style::is_interactive() && is_watched && args.question != "-";
    let mut settings = args.session.settings(interactive, Lifetime::OneQuestion);
    settings.answer.clone_from(&wanted.schema);
    session::check_replay(&settings)?;
    if interactive {
        settings.agreed = project::ask(&settings, context).await;
    }
    let (mut signals, _listening) = signals::listen();
    let dir = context.paths.sessions();
    if args.question != "-" {
        settings.piped = piped::take(&dir, &mut signals).await?;
    }
    tokio::select! {
        provided = missing::provide(&settings, context) => provided?,
        Some(_) = signals.recv() => return Ok(chat::given_up()),
    }
    let session = tokio::select! {
        started = session::start(&settings, None, context) => started?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    crash::session_began(&session.id, &session.notebook);
    let mut view = View::new(session.agent.client("ask"));
    if session.may_replay && !is_watched {
        if let Some(exit) = replay_unwatched(&mut view, args.json, &mut signals).await? {
            interact::end_soon(session).await;
            return Ok(exit);
        }
    } else if session.may_replay {
        let mut renderer = Renderer::new(false);
        let coming = Coming::Back(Some(true));
        let back = coming.back(&mut view, &mut renderer, None, &mut signals);
        if let Some(exit) = back.await {
            interact::end_soon(session).await;
            return Ok(exit);
        }
    }
    let attention = || Attention::of(&context.config.terminal, false);
    let mut renderer = is_watched.then(|| Renderer::new(false).attending(attention()));
    if let Some(renderer) = &mut renderer
        && wanted.schema.is_some()
    {
        renderer.words_aside();
    }
    let mut typed = interactive.then(|| LineSource::of_a_person(None, None));
    let mut controls = Controls::new(session.kernels.clone(), session.approval);
    let mut text = question;
    let mut may_correct = wanted.schema.is_some();
    let (ended, answer) = loop {
        let ended = if view.send(Command::Submit { text }).await.is_err() {
            Ended::Gone
        } else if let Some(renderer) = &mut renderer {
            let person = typed.as_mut().map(|typed| Person {
                typed,
                controls: &mut controls,
            });
            interact::turn(&mut view, renderer, person, &mut signals).await
        } else {
            unwatched(&mut view, args.json, &mut signals).await
        };
        let answer = wanted.answer(&ended, &session).await;
        match answer {
            Err(wrong) if std::mem::take(&mut may_correct) => {
                if let Some(renderer) = &mut renderer {
                    renderer.note(WARN, &filter::plain(&format!("asking again: {wrong}")));
                }
                text = AnswerSchema::correction(&wrong);
            }
            answer => break (ended, answer),
        }
    };
    let id = session.id.clone();
    let came_to_nothing = is_failed(&ended) && has_nothing(&session).await;
    // The kernel may be slow to end; a second Ctrl-C stops waiting for it.
    tokio::select! {
        _ = tokio::time::timeout(interact::END_WITHIN, session.end()) => {}
        Some(_) = signals.recv() => {}
    }
    if came_to_nothing && let Err(error) = sessions::remove_empty(&dir, &context.paths.state, &id) {
        tracing::warn!(%error, "a session with nothing in it stays");
    }
    let exit = outcome(ended, interactive)?;
    wanted.deliver(answer, args.json)?;
    Ok(exit)
}

/// The question: the argument, or stdin.
fn question(argument: &str) -> Result<String, Failure> {
    let mut text = argument.to_owned();
    if argument == "-" {
        text.clear();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| {
                Failure::usage(format!("could not read the question from stdin: {error}"))
            })?;
    }
    match text.trim() {
        "" => Err(Failure::usage("the question is empty")),
        question => Ok(question.to_owned()),
    }
}

/// Whether a question got no answer for a reason outside the session.
fn is_failed(ended: &Ended) -> bool {
    let Ended::Turn { end, .. } = ended else {
        return false;
    };
    matches!(
        end,
        TurnEnd::ModelFailed { .. } | TurnEnd::KernelFailed { .. } | TurnEnd::Interrupted
    )
}

/// Whether a session has only questions.
async fn has_nothing(session: &Session) -> bool {
    let is_more = |cell: &Cell| !matches!(cell.kind, CellKind::User | CellKind::Note);
    let look = move |transcript: &Transcript| !transcript.cells().iter().any(is_more);
    session.agent.handle().look(look).await.unwrap_or(false)
}

/// Runs the notebook's code again, and prints each event if `json`. Ctrl-C stops only this replay. Returns `Some` if
/// the session ends instead.
async fn replay_unwatched(
    agent: &mut View,
    json: bool,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<Exit>, Failure> {
    loop {
        let command = tokio::select! {
            event = agent.recv() => {
                // The next query reports that the session is gone.
                let Some(event) = event else { return Ok(None) };
                print_event(&event, json)?;
                match event.kind {
                    EventKind::SessionResumed { .. } => Command::Restore { replay: true },
                    EventKind::SessionRestored { .. } | EventKind::KernelFailed { .. } => {
                        return Ok(None);
                    }
                    _ => continue,
                }
            }
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => Command::Interrupt,
                Ask::End => return Ok(Some(Exit::Interrupted)),
            },
        };
        if agent.send(command).await == Err(Rejection::Ended) {
            return Ok(None);
        }
    }
}

/// Prints an event as a line of JSON if `json`.
fn print_event(event: &Event, json: bool) -> Result<(), Failure> {
    if !json {
        return Ok(());
    }
    let line = serde_json::to_string(event).unwrap_or_default();
    print(&format!("{line}\n"))
}

/// Runs a turn that no person follows; prints each event if `json`. Nobody can approve code, so code that needs
/// approval is declined.
async fn unwatched(agent: &mut View, json: bool, signals: &mut mpsc::Receiver<Ask>) -> Ended {
    loop {
        tokio::select! {
            event = agent.recv() => {
                let Some(event) = event else { return Ended::Gone };
                if let Err(failure) = print_event(&event, json) {
                    return Ended::Unread(failure);
                }
                let command = match event.kind {
                    EventKind::ApprovalRequested { cell, .. } => {
                        Command::Decide { cell, decision: Decision::Decline { reason: None } }
                    }
                    EventKind::InputRequested { .. } => Command::Interrupt,
                    EventKind::ContinueRequested { .. } => Command::Continue { go_on: false, words: None },
                    EventKind::TurnFinished { end, notebook, .. } => {
                        return Ended::Turn { end, saved: notebook.is_some() };
                    }
                    _ => continue,
                };
                if agent.send(command).await == Err(Rejection::Ended) {
                    return Ended::Gone;
                }
            }
            Some(ask) = signals.recv() => match ask {
                Ask::Interrupt => {
                    let _ = agent.send(Command::Interrupt).await;
                }
                Ask::End => return Ended::End,
            },
        }
    }
}

fn outcome(ended: Ended, interactive: bool) -> Result<Exit, Failure> {
    let (end, saved) = match ended {
        Ended::Turn { end, saved } => (end, saved),
        Ended::Left { saved } => (TurnEnd::Declined, saved),
        Ended::Unread(failure) => return Err(failure),
        Ended::Gone => {
            return Err(Failure::new(
                FailureKind::Failed,
                "the session ended unexpectedly; run with -v to see why",
            ));
        }
        Ended::End => return Ok(Exit::Interrupted),
    };
    match end {
        TurnEnd::Done if !saved => Err(Failure::new(
            FailureKind::Failed,
            "the answer is complete, but its notebook could not be written",
        )
        .hint("make room, or name another place with --notebook")),
        TurnEnd::Declined if !interactive => Err(nobody_to_approve()),
        TurnEnd::ModelFailed {
            message,
            key_variable,
        } => {
            Err(Failure::new(FailureKind::Provider, message)
                .hint(model_hint(key_variable.as_deref())))
        }
        TurnEnd::KernelFailed { message } => {
            Err(Failure::new(FailureKind::Kernel, message).hint(KERNEL_HINT))
        }
        end => Ok(exit_of(&end)),
    }
}

/// The exit code for a turn that ended this way.
pub(super) fn exit_of(end: &TurnEnd) -> Exit {
    match end {
        TurnEnd::Done | TurnEnd::Planned => Exit::Done,
        TurnEnd::CellFailed
        | TurnEnd::StepLimit { .. }
        | TurnEnd::Repeating
        | TurnEnd::Budget { .. } => Exit::Failed,
        TurnEnd::Interrupted => Exit::Interrupted,
        TurnEnd::Declined => Exit::Approval,
        TurnEnd::ModelFailed { .. } => Exit::Provider,
        TurnEnd::KernelFailed { .. } => Exit::Kernel,
    }
}

/// The failure when code needed approval and nobody could be asked.
pub(super) fn nobody_to_approve() -> Failure {
    Failure::new(
        FailureKind::Approval,
        "the model's code needs approval and nobody is there to give it",
    )
    .hint("run in a terminal, or allow its code with --yes")
}
