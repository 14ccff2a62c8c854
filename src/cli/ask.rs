//! `sponde ask`: one question, one answer.

use std::io::Read as _;

use tokio::sync::mpsc;

use super::args::AskArgs;
use super::coming::Coming;
use super::hints::{KERNEL_HINT, model_hint};
use super::interact::{self, Controls, Ended, Person};
use super::line_source::LineSource;
use super::render::Renderer;
use super::signals;
use super::stop::Ask;
use super::{Context, piped, print, style};
use super::{missing, project};
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, Decision, EventKind, TurnEnd, sessions};
use crate::app::{Lifetime, session};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// Runs it.
pub(super) async fn ask(args: AskArgs, context: &Context) -> Result<Exit, Failure> {
    let question = match args.question.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| {
                    Failure::usage(format!("could not read the question from stdin: {error}"))
                })?;
            text
        }
        question => question.to_owned(),
    };
    if question.trim().is_empty() {
        return Err(Failure::usage("the question is empty"));
    }
    let interactive = style::is_interactive() && !args.json && args.question != "-";
    let mut settings = args.session.settings(interactive, Lifetime::OneQuestion);
    session::check_replay(&settings)?;
    if interactive && !settings.trust_project {
        settings.agreed = project::ask(context).await;
    }
    let (mut signals, _listening) = signals::listen();
    let dir = context.paths.sessions();
    if args.question != "-" {
        settings.piped = piped::take(&dir, &mut signals).await?;
    }
    missing::provide(&settings, context).await?;
    let session = tokio::select! {
        started = session::start(&settings, None, context) => started?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    let mut view = View::new(session.agent.client("ask"));
    if session.may_replay && args.json {
        if let Some(exit) = replay_as_json(&mut view, &mut signals).await? {
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
    let submitted = view
        .send(Command::Submit {
            text: question.trim().to_owned(),
        })
        .await;
    let ended = if submitted.is_err() {
        Ended::Gone
    } else if args.json {
        json_lines(&mut view, &mut signals).await
    } else {
        let mut renderer = Renderer::new(false);
        let mut typed = interactive.then(|| LineSource::of_a_person(None, None));
        let mut controls = Controls::new(session.kernels.clone(), session.approval);
        let person = typed.as_mut().map(|typed| Person {
            typed,
            controls: &mut controls,
        });
        interact::turn(&mut view, &mut renderer, person, &mut signals).await
    };
    let id = session.id.clone();
    // The kernel may take its time to end; a second Ctrl-C does not wait for it.
    tokio::select! {
        _ = tokio::time::timeout(interact::END_WITHIN, session.end()) => {}
        Some(_) = signals.recv() => {}
    }
    if was_never_asked(&ended)
        && let Some(found) = sessions::look(&dir, &id)
        && found.summary.code_cells == 0
        && found.summary.usage.output == 0
        && found.summary.kernels.is_empty()
        && let Err(error) = sessions::remove(&dir, &context.paths.state, &found)
    {
        tracing::warn!(%error, "a session with nothing in it stays");
    }
    outcome(ended, interactive)
}

/// Whether the model could not be asked.
fn was_never_asked(ended: &Ended) -> bool {
    let Ended::Turn { end, .. } = ended else {
        return false;
    };
    matches!(end, TurnEnd::ModelFailed { .. })
}

/// Has the notebook's code run again, and prints every event of it. Ctrl-C ends that and no more. `Some` if the session
/// ends instead.
async fn replay_as_json(
    agent: &mut View,
    signals: &mut mpsc::Receiver<Ask>,
) -> Result<Option<Exit>, Failure> {
    loop {
        let command = tokio::select! {
            event = agent.recv() => {
                // Whoever asks next is told that it is gone.
                let Some(event) = event else { return Ok(None) };
                let line = serde_json::to_string(&event).unwrap_or_default();
                print(&format!("{line}\n"))?;
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

/// Prints every event. Nobody is there to approve code, so what needs it is declined.
async fn json_lines(agent: &mut View, signals: &mut mpsc::Receiver<Ask>) -> Ended {
    loop {
        tokio::select! {
            event = agent.recv() => {
                let Some(event) = event else { return Ended::Gone };
                let line = serde_json::to_string(&event).unwrap_or_default();
                if let Err(failure) = print(&format!("{line}\n")) {
                    return Ended::Unread(failure);
                }
                let command = match event.kind {
                    EventKind::ApprovalRequested { cell, .. } => {
                        Command::Decide { cell, decision: Decision::Decline { reason: None } }
                    }
                    EventKind::InputRequested { .. } => Command::Interrupt,
                    EventKind::ContinueRequested { .. } => Command::Continue { go_on: false },
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

/// What a program ends with after a turn that ended so.
pub(super) fn exit_of(end: &TurnEnd) -> Exit {
    match end {
        TurnEnd::Done => Exit::Done,
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

/// Code needed approval where nobody can be asked.
pub(super) fn nobody_to_approve() -> Failure {
    Failure::new(
        FailureKind::Approval,
        "the model's code needs approval and nobody is there to give it",
    )
    .hint("run in a terminal, or allow its code with --yes")
}
