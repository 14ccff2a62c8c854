//! `sponde`: a chat, line by line. `!code` runs code of one's own in the same kernel, `%%language code` in another.

mod ending;
mod line;
mod model;
mod past;

use std::io::IsTerminal as _;
use std::path::Path;

use super::args::SessionArgs;
use super::interact::{self, Controls, Person};
use super::render::Renderer;
use super::resume::{Coming, Resumed};
use super::signals::{self, Ask};
use super::style::{DIM, WARN, paint, stderr_colours};
use super::typed::Typed;
use super::{Context, eprint};
use super::{missing, project};
use crate::agent::EventKind;
use crate::agent::stream::{Rejection, View};
use crate::app::{Lifetime, session};
use crate::error::{Exit, Failure};
use ending::Ending;
pub(super) use line::{Said, said};
use model::Changed;

const WELCOME: &str = "Ask in plain words; /help says more, Ctrl-D ends.\n";

/// What `/help` says.
pub(super) const HELP: &str = "\
Ask in plain words. A line that ends in \\ goes on in the next. Lines that are
pasted are one question; Enter sends it.
  !CODE             run code of your own in the kernel
  %%LANGUAGE CODE   the same in the kernel of another language
  /model [NAME]     which model answers; let this one answer from now on
  /kernel [NAME]    which kernels there are; send !CODE to this one from now on
  /approve [WHEN]   whether you are asked before code runs: ask, or always run it
  /undo [N]         take back the last turn, or N: its cells, variables and files
  /undo #N          go back to a checkpoint of the list
  /checkpoints      list what can be gone back to
  /compact          make the conversation shorter for the model
  /help             this
  /exit             end (or Ctrl-D)
Ctrl-C stops what is going on; twice restarts the kernel. Up and Ctrl-R bring
earlier questions back, Tab completes commands and files.
";

/// What `/help` lists, by name.
pub(super) const COMMANDS: [&str; 8] = [
    "/approve",
    "/checkpoints",
    "/compact",
    "/exit",
    "/help",
    "/kernel",
    "/model",
    "/undo",
];

/// Runs it.
pub(super) async fn chat(args: SessionArgs, context: &Context) -> Result<Exit, Failure> {
    go_on(args, None, context).await
}

/// The same with a session that was there before.
pub(super) async fn go_on(
    args: SessionArgs,
    resumed: Option<Resumed>,
    context: &Context,
) -> Result<Exit, Failure> {
    let (opened, coming) = Coming::split(resumed);
    let (mut signals, _listening) = signals::listen();
    let interactive = std::io::stdin().is_terminal();
    let replay = args.replay;
    let mut settings = args.settings(interactive, Lifetime::Conversation);
    if opened.is_none() {
        session::check_replay(&settings)?;
        missing::provide(&settings, context).await?;
    }
    if interactive && !settings.trust_project {
        settings.agreed = project::ask(context).await;
    }
    let session = tokio::select! {
        started = session::start(&settings, opened, context) => started?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    let mut view = View::new(session.agent.client("terminal"));
    let colours = stderr_colours();
    let mut renderer = Renderer::new(true);
    let mut typed = if interactive {
        Typed::of_a_person(Some(context.paths.state.join("history")))
    } else {
        Typed::lines()
    };
    let mut answering = beginning(&mut view, &mut renderer).await;
    let coming = coming.or_replay(session.may_replay, replay);
    let asked = interactive.then_some(&mut typed);
    let back = coming.back(&mut view, &mut renderer, asked, &mut signals);
    if let Some(exit) = back.await {
        interact::end_soon(session).await;
        return Ok(exit);
    }
    let mut controls = Controls::new(session.kernels.clone(), session.approval);
    if interactive {
        eprint(&paint(DIM, WELCOME, colours));
    }
    let mut ending = Ending::of(&session, interactive, context);
    let exit = loop {
        let line = match typed.question(controls.approval, &mut signals).await {
            Ok(line) => line,
            Err(Ask::Interrupt) => {
                let hint = paint(DIM, "(Ctrl-D or /exit ends)", colours);
                eprint(&format!("{hint}\n"));
                continue;
            }
            Err(Ask::End) => break Exit::Interrupted,
        };
        let said = said(line.as_deref(), controls.own_kernel(), |path| {
            Path::new(path).exists()
        });
        let command = match controls.obey(said) {
            Ok(None) => continue,
            Ok(Some(command)) => {
                if !interact::deliver(command, &mut view, &mut renderer).await {
                    break Exit::Failed;
                }
                continue;
            }
            Err(Said::Command(command)) => command,
            Err(Said::Model(name)) => {
                let (agent, now) = (&mut view, answering.as_deref());
                match model::set(name, now, agent, &mut renderer, &mut signals).await {
                    Changed::To(model) => answering = Some(model),
                    Changed::Not => {}
                    Changed::Gone => break Exit::Failed,
                    Changed::End => break Exit::Interrupted,
                }
                continue;
            }
            Err(Said::Past(wish)) => {
                let answering = interactive.then_some(&mut typed);
                let (agent, renderer) = (&mut view, &mut renderer);
                match past::carry_out(wish, agent, renderer, answering, &mut signals).await {
                    None => continue,
                    Some(exit) => break exit,
                }
            }
            Err(_) => break Exit::Done,
        };
        match view.send(command).await {
            Ok(()) => {}
            Err(Rejection::Ended) => break Exit::Failed,
            Err(why) => {
                renderer.note(WARN, &why.to_string());
                continue;
            }
        }
        // The lines of a pipe are questions; only a person at a terminal can approve.
        let person = interactive.then_some(Person {
            typed: &mut typed,
            controls: &mut controls,
        });
        let turn = interact::turn(&mut view, &mut renderer, person, &mut signals);
        if let Some(exit) = ending.after(turn.await) {
            break exit;
        }
    };
    // From here on Ctrl-C is a signal, whatever was being typed.
    drop(typed);
    ending.begin();
    tokio::select! {
        _ = tokio::time::timeout(interact::END_WITHIN, session.end()) => {}
        Some(_) = signals.recv() => {}
    }
    ending.end(exit)
}

/// The session's first event names the model.
async fn beginning(agent: &mut View, renderer: &mut Renderer) -> Option<String> {
    let event = agent.recv().await?;
    renderer.show(&event.kind);
    match event.kind {
        EventKind::SessionStarted { model, .. } => model,
        _ => None,
    }
}
