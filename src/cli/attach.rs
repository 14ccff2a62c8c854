//! `sponde attach`: attaches another terminal to a running session. It can do everything that the first terminal can,
//! except end the session or switch to another one.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::args::AttachArgs;
use super::attention::Attention;
use super::chat::{Front, Looker, Standing, ThisSession, client_name, typed};
use super::interact::{Controls, Ended};
use super::line_source::{Choices, KernelLines};
use super::render::Renderer;
use super::signals;
use super::stop::Ask;
use super::style::{DIM, moves_cursor, paint, stderr_colours};
use super::{Context, again, eprint, filter, print, restored};
use crate::agent::approval::Approval;
use crate::agent::stream::{Client, Received, Snapshot, View};
use crate::app::attach::lines::{FROM_CLIENT, Lines};
use crate::app::attach::{self, AttachError, FromClient, FromServer};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// How many of a program's queries may wait.
const WAITING: usize = 64;

/// Runs it.
pub(super) async fn attach(args: AttachArgs, context: &Context) -> Result<Exit, Failure> {
    let interactive = std::io::stdin().is_terminal();
    if !interactive && !args.json {
        // Silence of this client would be taken for an answer.
        return Err(
            Failure::usage("attaching needs a person at a terminal").hint(
                "a program uses --json: items are lines of stdout, commands and queries lines of stdin (docs/events.md)",
            ),
        );
    }
    let session = find(args.session.as_deref(), context)?;
    let (signals, _listening) = signals::listen();
    let name = client_name();
    let sockets = &context.paths.sockets;
    let attached = attach::attach(sockets, &session, &name, args.after)
        .await
        .map_err(|error| failure(&error))?;
    if args.json {
        return json_lines(attached.snapshot.as_ref(), attached.client, signals).await;
    }
    let queries = attached.client.queries();
    let state = attached.snapshot.as_ref().map(|it| &it.state);
    let kernels = state.map(|it| it.kernels.iter().map(|it| it.kernel.clone()).collect());
    let notebook = state.map(|it| PathBuf::from(&it.notebook));
    let notebook = notebook.unwrap_or_default();
    let choices = Choices::of(kernels.unwrap_or_default(), context);
    let kernels = KernelLines::of(queries.clone(), choices);
    let mut front = Front {
        view: View::new(attached.client),
        renderer: Renderer::new(true).attending(Attention::of(&context.config.terminal, true)),
        typed: typed(interactive, Some(kernels), context),
        first: None,
        controls: Controls::new(Vec::new(), Approval::Always),
        looker: Looker::of(queries),
        standing: Standing::attached(session.clone()),
        session: ThisSession::attached(session.clone(), notebook.clone(), context),
        next: None,
        model: None,
        interactive,
        signals,
    };
    let colours = stderr_colours();
    let words = format!("attached to {session}; Ctrl-D or /exit detaches; the session continues\n");
    eprint(&paint(DIM, &filter::plain(&words), colours));
    if let Some(snapshot) = &attached.snapshot {
        let state = &snapshot.state;
        front.controls = Controls::new(state.kernels.clone(), state.approval);
        front.model.clone_from(&state.model);
        front.view.begin_with(snapshot);
        if let Some(event) = front.view.recv().await {
            front.renderer.show(&event.kind);
        }
        front.renderer.name(&session);
        let transcript = snapshot.transcript();
        if moves_cursor() {
            again::show(&transcript, &notebook, &mut front.renderer);
        } else {
            eprint(&restored::tail(&transcript));
        }
    }
    if front.view.is_in_turn() {
        // The turn that was running when we attached is shown to its end first.
        if let Some(exit) = after_turn(front.turn().await) {
            return Ok(end(exit));
        }
    }
    let exit = front.converse(after_turn).await;
    Ok(end(exit))
}

/// Whether this terminal ends after a turn: only if the session ended, or the person wants it.
#[expect(
    clippy::needless_pass_by_value,
    reason = "as every end of a turn is passed"
)]
fn after_turn(ended: Ended) -> Option<Exit> {
    match ended {
        Ended::Turn { .. } => None,
        Ended::Left { .. } => Some(Exit::Done),
        Ended::Gone | Ended::Unread(_) => Some(Exit::Failed),
        Ended::End => Some(Exit::Interrupted),
    }
}

fn end(exit: Exit) -> Exit {
    if exit == Exit::Failed {
        // The session ended while we were attached, which is normal.
        eprint("the session has ended\n");
        return Exit::Done;
    }
    exit
}

/// Prints the snapshot and each later item as one line of JSON. Commands and queries are lines of stdin; each gets a
/// line as its answer.
async fn json_lines(
    snapshot: Option<&Snapshot>,
    mut client: Client,
    mut signals: tokio::sync::mpsc::Receiver<Ask>,
) -> Result<Exit, Failure> {
    if let Some(snapshot) = snapshot {
        print_line(&snapshot.line())?;
    }
    let queries = client.queries();
    let mut asked = FuturesUnordered::new();
    let mut typed = Some(Lines::new(tokio::io::stdin(), FROM_CLIENT));
    loop {
        let line = tokio::select! {
            received = client.next() => {
                match received {
                    None => return Ok(Exit::Done),
                    Some(Received::Item(item)) => print_line(&*item)?,
                    Some(Received::Snapshot(snapshot)) => print_line(&snapshot.line())?,
                }
                continue;
            }
            Some((id, answer)) = asked.next() => {
                print_line(&FromServer::answered(id, answer))?;
                continue;
            }
            line = next_line(&mut typed), if asked.len() < WAITING => line,
            Some(_) = signals.recv() => return Ok(Exit::Done),
        };
        let answer = match line {
            Ok(Some(Ok(FromClient::Command { id, command }))) => {
                FromServer::decided(id, client.send(command).await)
            }
            Ok(Some(Ok(FromClient::Query { id, query }))) => {
                let queries = queries.clone();
                asked.push(async move { (id, queries.ask(query).await) });
                continue;
            }
            Ok(Some(Ok(FromClient::Hello { .. }))) => continue,
            Ok(Some(Err(error))) => FromServer::Unreadable {
                message: error.to_string(),
            },
            // The session may run for a long time.
            Ok(None) => {
                typed = None;
                continue;
            }
            Err(error) => {
                typed = None;
                FromServer::Unreadable {
                    message: error.to_string(),
                }
            }
        };
        print_line(&answer)?;
    }
}

/// The next line of stdin, until stdin ends.
async fn next_line(
    lines: &mut Option<Lines<tokio::io::Stdin>>,
) -> std::io::Result<Option<Result<FromClient, serde_json::Error>>> {
    match lines {
        Some(lines) => lines.next().await,
        None => std::future::pending().await,
    }
}

fn print_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).unwrap_or_default();
    print(&format!("{line}\n"))
}

/// The running session that `wanted` names by its id or the beginning of it; the newest if it names none.
fn find(wanted: Option<&str>, context: &Context) -> Result<String, Failure> {
    let running = attach::attachable(&context.paths.sockets);
    let fits =
        |id: &&String| wanted.is_none_or(|wanted| id.starts_with(wanted) || id.ends_with(wanted));
    let mut found = running.iter().filter(fits);
    match (found.next(), found.next(), wanted) {
        (Some(id), None, _) | (Some(id), Some(_), None) => Ok(id.clone()),
        (Some(_), Some(_), Some(wanted)) => Err(Failure::usage(format!(
            "several sessions that run begin with `{wanted}`"
        ))
        .hint("say more of it")),
        (None, _, Some(wanted)) => {
            let hint = match running.as_slice() {
                [] => "no session runs on this machine; `sponde resume` continues one".to_owned(),
                ids => format!("these run: {}", ids.join(", ")),
            };
            Err(Failure::usage(format!("no session `{wanted}` runs")).hint(hint))
        }
        (None, _, None) => Err(Failure::usage("no session runs on this machine")
            .hint("`sponde` begins one, `sponde resume` continues one")),
    }
}

fn failure(error: &AttachError) -> Failure {
    let failure = Failure::new(FailureKind::Failed, error.to_string());
    match error {
        AttachError::OtherVersion { .. } => {
            failure.hint("attach with the same version of sponde, or end that session first")
        }
        AttachError::NotRunning { .. } => failure.hint("`sponde resume` continues it here"),
        AttachError::Broken { .. } => failure,
    }
}
