//! `sponde`: a chat, line by line. `!code` runs code of one's own in the same kernel, `%%language code` in another.

mod ending;
mod line;
mod model;
mod past;

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;

use super::args::SessionArgs;
use super::interact::{self, Ended};
use super::render::Renderer;
use super::resume::{Coming, Resumed};
use super::session::{self, Past};
use super::signals::{self, Ask};
use super::style::{DIM, paint, stderr_colours};
use super::typed::Typed;
use super::{Context, eprint, filter};
use crate::agent::{Agent, EventKind, KernelOffer, tools};
use crate::error::{Exit, Failure};
use ending::Ending;
use line::{Said, said};
use model::Changed;

const WELCOME: &str = "Ask in plain words; /help says more, Ctrl-D ends.\n";

const HELP: &str = "\
Ask in plain words. A line that ends in \\ goes on in the next. Lines that are
pasted are one question; Enter sends it.
  !CODE             run code of your own in the kernel
  %%LANGUAGE CODE   the same in the kernel of another language
  /model [NAME]     which model answers; let this one answer from now on
  /kernel [NAME]    which kernels there are; send !CODE to this one from now on
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
pub(super) const COMMANDS: [&str; 7] = [
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
    session::check_replay(&args)?;
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
    let mut session = tokio::select! {
        started = session::start_from(&args, opened, interactive, Past::Kept, context) => started?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    let colours = stderr_colours();
    let mut renderer = Renderer::new(true);
    let mut typed = if interactive {
        Typed::of_a_person(Some(context.paths.state.join("history")))
    } else {
        Typed::lines()
    };
    let (kernels, mut answering) = beginning(&mut session.agent, &mut renderer).await;
    let coming = coming.or_replay(session.may_replay, args.replay);
    let asked = interactive.then_some(&mut typed);
    let back = coming.back(&mut session.agent, &mut renderer, asked, &mut signals);
    if let Some(exit) = back.await {
        return session::end_soon(session, exit).await;
    }
    let mut own = 0;
    if interactive {
        eprint(&paint(DIM, WELCOME, colours));
    }
    let mut ending = Ending::of(&session, interactive, context);
    let exit = loop {
        let line = match typed.question(&mut signals).await {
            Ok(line) => line,
            Err(Ask::Interrupt) => {
                let hint = paint(DIM, "(Ctrl-D or /exit ends)", colours);
                eprint(&format!("{hint}\n"));
                continue;
            }
            Err(Ask::End) => break Exit::Interrupted,
        };
        let command = match said(line.as_deref(), kernels.get(own), |path| {
            Path::new(path).exists()
        }) {
            Said::Command(command) => command,
            Said::Model(name) => {
                let (agent, now) = (&mut session.agent, answering.as_deref());
                match model::set(name, now, agent, &mut renderer, &mut signals).await {
                    Changed::To(model) => answering = Some(model),
                    Changed::Not => {}
                    Changed::Gone => break Exit::Failed,
                    Changed::End => break Exit::Interrupted,
                }
                continue;
            }
            Said::Kernel(name) => {
                own = choose(name.as_deref(), &kernels, own);
                continue;
            }
            Said::Past(wish) => {
                let answering = interactive.then_some(&mut typed);
                let (agent, renderer) = (&mut session.agent, &mut renderer);
                match past::carry_out(wish, agent, renderer, answering, &mut signals).await {
                    None => continue,
                    Some(exit) => break exit,
                }
            }
            Said::Help => {
                eprint(HELP);
                continue;
            }
            Said::Nothing => continue,
            Said::Wrong(words) => {
                eprint(&filter::plain(&format!("{words}\n")));
                continue;
            }
            Said::End => break Exit::Done,
        };
        if session.agent.commands.send(command).await.is_err() {
            break Exit::Failed;
        }
        // The lines of a pipe are questions; only a person at a terminal can approve.
        let person = interactive.then_some(&mut typed);
        match interact::turn(&mut session.agent, &mut renderer, person, &mut signals).await {
            Ended::Turn { end, saved } => {
                if let Some(exit) = ending.after_turn(&end, saved) {
                    break exit;
                }
            }
            Ended::Gone => break Exit::Failed,
            Ended::Unread(failure) => {
                ending.failure = Some(failure);
                break Exit::Failed;
            }
            Ended::End => break Exit::Interrupted,
        }
    };
    // From here on Ctrl-C is a signal, whatever was being typed.
    drop(typed);
    ending.begin();
    tokio::select! {
        _ = tokio::time::timeout(interact::END_WITHIN, session::end(session)) => {}
        Some(_) = signals.recv() => {}
    }
    ending.end(exit)
}

/// The session's first event names kernels and model.
async fn beginning(
    agent: &mut Agent,
    renderer: &mut Renderer,
) -> (Vec<KernelOffer>, Option<String>) {
    if let Some(event) = agent.events.recv().await {
        renderer.show(&event.kind);
        if let EventKind::SessionStarted { kernels, model, .. } = event.kind {
            return (kernels, model);
        }
    }
    (Vec::new(), None)
}

/// Which kernel `!CODE` goes to from now on; says which there are.
fn choose(name: Option<&str>, kernels: &[KernelOffer], own: usize) -> usize {
    let found = name.map(|name| tools::find_language(name, kernels));
    if let (Some(None), Some(name)) = (found, name) {
        eprint(&filter::plain(&format!("there is no kernel `{name}`\n")));
    }
    let own = found.flatten().unwrap_or(own);
    eprint(&filter::plain(&list(kernels, own)));
    own
}

/// One line a kernel; `own` is the one that `!CODE` goes to.
fn list(kernels: &[KernelOffer], own: usize) -> String {
    let mut text = String::new();
    for (index, offer) in kernels.iter().enumerate() {
        let mark = if index == own { '>' } else { ' ' };
        let _ = writeln!(text, "{mark} {} ({})", offer.kernel, offer.language);
    }
    text
}
