//! `sponde`: a chat, line by line. `!code` runs the person's own code in the same kernel, `%%language code` in another
//! one.

mod ending;
mod model;
mod next;
mod open;
mod past;
mod standing;
mod tables;
mod this_session;

use std::io::IsTerminal as _;
use std::path::Path;

use tokio::sync::mpsc;

use super::args::SessionArgs;
use super::attention::Attention;
use super::coming::{Coming, Resumed};
use super::interact::{self, Controls, Ended, Person};
use super::line::{LineMeaning, Next, SessionWish, said};
use super::line_source::{Choices, KernelLines, LineSource};
use super::render::Renderer;
use super::signals;
use super::stop::Ask;
use super::style::{DIM, HINT, WARN, paint, stderr_colours};
use super::{Context, eprint};
use super::{confine, crash, filter, missing, pager, project};
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind};
use crate::app::{Lifetime, session};
use crate::cli::exit::Exit;
use crate::error::Failure;
use ending::Ending;
use model::Changed;
pub(super) use standing::Standing;
pub(super) use tables::Looker;
pub(super) use this_session::ThisSession;

const WELCOME: &str = "Ask in plain words; /help says more, Ctrl-D ends.\n";

/// Runs it. `first` is a question to ask at once.
pub(super) async fn chat(
    args: SessionArgs,
    first: Option<String>,
    context: &Context,
) -> Result<Exit, Failure> {
    Box::pin(go_on(args, None, first, context)).await
}

/// Continues an existing session.
pub(super) async fn go_on(
    args: SessionArgs,
    resumed: Option<Resumed>,
    first: Option<String>,
    context: &Context,
) -> Result<Exit, Failure> {
    let (opened, coming) = Coming::split(resumed);
    let (mut signals, listening) = signals::listen();
    let interactive = std::io::stdin().is_terminal();
    let replay = args.replay;
    let again = args.clone();
    let mut settings = args.settings(interactive, Lifetime::Conversation);
    if opened.is_none() {
        session::check_replay(&settings)?;
        tokio::select! {
            provided = missing::provide(&settings, context) => provided?,
            Some(_) = signals.recv() => return Ok(given_up()),
        }
    }
    if interactive {
        settings.agreed = tokio::select! {
            agreed = project::ask(&settings, context) => agreed,
            Some(_) = signals.recv() => return Ok(given_up()),
        };
    }
    let session = tokio::select! {
        started = session::start(&settings, opened, context) => started?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    crash::session_began(&session.id, &session.notebook);
    confine::tell(&session.sandbox, session.approval);
    let name = client_name();
    let kernels = session.kernels.iter().map(|it| it.kernel.clone()).collect();
    let client = session.agent.client(&name);
    let queries = client.queries();
    let kernels = KernelLines::of(queries.clone(), Choices::of(kernels, context));
    let mut front = Front {
        view: View::new(client),
        renderer: Renderer::new(true).attending(Attention::of(&context.config.terminal, true)),
        typed: typed(interactive, Some(kernels), context),
        first,
        controls: Controls::new(session.kernels.clone(), session.approval),
        looker: Looker::of(queries),
        standing: Standing::of(&session),
        session: ThisSession::of(&session, context),
        next: None,
        model: None,
        interactive,
        signals,
    };
    let directory = session.directory.file_name().unwrap_or_default();
    front.renderer.name(&directory.to_string_lossy());
    front.model = beginning(&mut front.view, &mut front.renderer).await;
    let coming = coming.or_replay(session.may_replay, replay);
    let asked = interactive.then_some(&mut front.typed);
    let (view, renderer, signals) = (&mut front.view, &mut front.renderer, &mut front.signals);
    if let Some(exit) = coming.back(view, renderer, asked, signals).await {
        interact::end_soon(session).await;
        return Ok(exit);
    }
    if interactive {
        eprint(&paint(DIM, WELCOME, stderr_colours()));
    }
    let mut ending = Ending::of(&session, interactive, context);
    let exit = front.converse(|ended| ending.after(ended)).await;
    let Front {
        typed,
        mut signals,
        next,
        ..
    } = front;
    // From here on, Ctrl-C is a signal whatever was being typed.
    drop(typed);
    let goes_on = matches!(next, Some(Next::Sandbox(_) | Next::Profile(_)));
    if !goes_on {
        ending.begin();
    }
    let id = session.id.clone();
    tokio::select! {
        _ = tokio::time::timeout(interact::END_WITHIN, session.end()) => {}
        Some(_) = signals.recv() => {}
    }
    let Some(next) = next else {
        return ending.end(exit);
    };
    if !goes_on {
        ending.end(exit)?;
    }
    // The next session listens for signals itself.
    drop((signals, listening));
    Box::pin(next::go_on(again, next, &id, context)).await
}

/// Ctrl-C at a question before there is a session: ends the question's line.
pub(super) fn given_up() -> Exit {
    eprint("\n");
    Exit::Interrupted
}

/// The name under which other clients see this terminal.
pub(super) fn client_name() -> String {
    format!("terminal {}", std::process::id())
}

/// The source of a person's lines, or of a pipe's.
pub(super) fn typed(
    interactive: bool,
    kernels: Option<KernelLines>,
    context: &Context,
) -> LineSource {
    if interactive {
        LineSource::of_a_person(Some(context.paths.state.join("history")), kernels)
    } else {
        LineSource::lines()
    }
}

/// The terminal of one client of a session.
pub(super) struct Front {
    pub view: View,
    pub renderer: Renderer,
    pub typed: LineSource,
    pub controls: Controls,
    pub looker: Looker,
    pub standing: Standing,
    pub session: ThisSession,
    /// What follows when the chat ends.
    pub next: Option<Next>,
    /// A question that is asked before any is typed.
    pub first: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    pub interactive: bool,
    pub signals: mpsc::Receiver<Ask>,
}

impl Front {
    /// Handles one line after another, until the person, the session or `after_turn` ends it.
    pub(super) async fn converse(
        &mut self,
        mut after_turn: impl FnMut(Ended) -> Option<Exit>,
    ) -> Exit {
        loop {
            let line = match self.next_line().await {
                Ok(Some(line)) => line,
                // Another client is doing something.
                Ok(None) => {
                    if self.takes_change().await {
                        continue;
                    }
                    if let Some(exit) = after_turn(self.turn().await) {
                        return exit;
                    }
                    continue;
                }
                Err(Ask::Interrupt) => {
                    let hint = paint(DIM, "(Ctrl-D or /exit ends)", stderr_colours());
                    eprint(&format!("{hint}\n"));
                    continue;
                }
                Err(Ask::End) => return Exit::Interrupted,
            };
            let own = self.controls.own_kernel();
            let meaning = said(line.as_deref(), own, |path| Path::new(path).exists());
            let command = match self.carry_out(meaning).await {
                Then::Ask => continue,
                Then::Turn(command) => command,
                Then::End(exit) => return exit,
            };
            match self.view.send(command).await {
                Ok(()) => {}
                Err(Rejection::Ended) => return Exit::Failed,
                Err(why) => {
                    self.renderer.note(WARN, &why.to_string());
                    continue;
                }
            }
            if let Some(exit) = after_turn(self.turn().await) {
                return exit;
            }
        }
    }

    /// Does what a line means, unless it is a turn of the session.
    async fn carry_out(&mut self, meaning: LineMeaning) -> Then {
        let (view, renderer, signals) = (&mut self.view, &mut self.renderer, &mut self.signals);
        match meaning {
            LineMeaning::Control(control) => {
                let Some(command) = self.controls.handle(control) else {
                    return Then::Ask;
                };
                if interact::deliver(command, view, renderer).await {
                    Then::Ask
                } else {
                    Then::End(Exit::Failed)
                }
            }
            LineMeaning::Command(command) => {
                if let Command::Submit { text } | Command::Plan { text } = &command {
                    renderer.name(text);
                }
                Then::Turn(command)
            }
            LineMeaning::FollowUp(number) => match renderer.follow_up(number) {
                Some(text) => Then::Turn(Command::Submit { text }),
                None => Then::Ask,
            },
            LineMeaning::Model(name) => {
                match model::set(name, self.model.as_deref(), view, renderer, signals).await {
                    Changed::To(model) => self.model = Some(model),
                    Changed::Not => {}
                    Changed::Gone => return Then::End(Exit::Failed),
                    Changed::End => return Then::End(Exit::Interrupted),
                }
                Then::Ask
            }
            LineMeaning::Status => {
                let status = ThisSession::status(view).await;
                tell(status.map(|it| self.standing.status(&it, &self.controls)))
            }
            LineMeaning::Sandbox => {
                let approval = self.controls.approval;
                let status = ThisSession::status(view).await;
                tell(status.map(|it| self.standing.lines(&it, approval)))
            }
            LineMeaning::Next(next) => match self.may_go_on(next).await {
                Ok(Some(next)) => {
                    self.next = Some(next);
                    Then::End(Exit::Done)
                }
                Ok(None) | Err(Ask::Interrupt) => Then::Ask,
                Err(Ask::End) => Then::End(Exit::Interrupted),
            },
            LineMeaning::Session(wish) => match Box::pin(self.with_session(wish)).await {
                Some(command) => Then::Turn(command),
                None => Then::Ask,
            },
            // The answer from another process comes after items that must be read first.
            LineMeaning::Look(wish) => tell(tokio::select! {
                told = Box::pin(self.looker.look(wish)) => told,
                () = view.until_over() => Err("the session has ended".to_owned()),
                Some(_) = signals.recv() => Err("not waited for".to_owned()),
            }),
            LineMeaning::Past(wish) => {
                let answering = self.interactive.then_some(&mut self.typed);
                match past::carry_out(wish, view, renderer, answering, signals).await {
                    None => Then::Ask,
                    Some(exit) => Then::End(exit),
                }
            }
            LineMeaning::End => Then::End(Exit::Done),
        }
    }

    /// Shows events that come before a turn. Returns whether no turn has begun.
    async fn takes_change(&mut self) -> bool {
        while let Some(next) = self.view.peek() {
            if let EventKind::ApprovalChanged { approval, .. } = next {
                self.controls.approval = *approval;
            } else if matches!(
                next,
                EventKind::UserMessage { .. }
                    | EventKind::CodeProposed { .. }
                    | EventKind::CompactionStarted { .. }
            ) {
                return false;
            }
            if let Some(event) = self.view.recv().await {
                self.renderer.show(&event.kind);
            }
        }
        // There is no event: the session may have ended.
        self.view.is_live()
    }

    /// The next typed line, with an inner `None` at the end of input; `None` if another client begins a turn.
    async fn next_line(&mut self) -> Result<Option<Option<String>>, Ask> {
        if let Some(question) = self.first.take() {
            let mark = paint(HINT, ">", stderr_colours());
            eprint(&format!("\n{mark} {}\n", filter::plain(&question)));
            return Ok(Some(Some(question)));
        }
        let begins_turn = |event: &EventKind| {
            matches!(
                event,
                EventKind::UserMessage { .. }
                    | EventKind::CodeProposed { .. }
                    | EventKind::CompactionStarted { .. }
                    | EventKind::ApprovalChanged { .. }
            )
        };
        let question = self
            .typed
            .question(self.controls.approval, &mut self.signals);
        if !self.interactive {
            return question.await.map(Some);
        }
        tokio::select! {
            line = question => return line.map(Some),
            () = self.view.until(begins_turn) => {}
        }
        self.typed.cover();
        Ok(None)
    }

    /// Handles a command about the stored session. Returns the agent's command that results, if any.
    async fn with_session(&mut self, wish: SessionWish) -> Option<Command> {
        let (session, view) = (&self.session, &mut self.view);
        let runs =
            |code: Result<_, _>| code.map(|(code, language)| Command::Run { code, language });
        let told = match wish {
            SessionWish::Show(number) => {
                let cell = ThisSession::cell(view, number).await;
                cell.map(|cell| this_session::text(&cell))
            }
            SessionWish::Open(number) => match ThisSession::cell(view, number).await {
                Ok(cell) => session.open(&cell),
                Err(words) => Err(words),
            },
            SessionWish::Files => ThisSession::files(view).await,
            SessionWish::Save(file) => session.save(&file),
            SessionWish::Fork(at) => session.fork(at.as_deref()),
            SessionWish::Again(number) => match runs(ThisSession::code(view, Some(number)).await) {
                Ok(command) => return Some(command),
                Err(words) => Err(words),
            },
            SessionWish::Edit(number) => match runs(ThisSession::edited(view, number).await) {
                Ok(command) => return Some(command),
                Err(words) => Err(words),
            },
        };
        match told {
            Ok(text) => {
                let shown = tokio::task::block_in_place(|| pager::show(&text));
                if let Err(failure) = shown {
                    self.renderer.unread.get_or_insert(failure);
                }
            }
            Err(words) => eprint(&filter::plain(&format!("{words}\n"))),
        }
        None
    }

    pub(super) async fn turn(&mut self) -> Ended {
        // The lines of a pipe are questions; only a person at a terminal can approve.
        let person = self.interactive.then_some(Person {
            typed: &mut self.typed,
            controls: &mut self.controls,
        });
        interact::turn(
            &mut self.view,
            &mut self.renderer,
            person,
            &mut self.signals,
        )
        .await
    }
}

/// What happens after a line.
enum Then {
    /// Asks for the next line.
    Ask,
    /// Begins a turn.
    Turn(Command),
    /// Ends the chat.
    End(Exit),
}

/// Prints the requested text, or why there is none.
fn tell(told: Result<String, String>) -> Then {
    match told {
        Ok(text) => eprint(&text),
        Err(words) => eprint(&filter::plain(&format!("{words}\n"))),
    }
    Then::Ask
}

/// Reads the session's first event, which names the model.
async fn beginning(agent: &mut View, renderer: &mut Renderer) -> Option<String> {
    let event = agent.recv().await?;
    renderer.show(&event.kind);
    match event.kind {
        EventKind::SessionStarted { model, .. } => model,
        _ => None,
    }
}
