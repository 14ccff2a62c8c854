//! `sponde resume`: a session goes on where it was.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::args::ResumeArgs;
use super::chat;
use super::line_source::LineSource;
use super::render::Renderer;
use super::sessions::{find, not_opened};
use super::signals::Ask;
use super::style::{DIM, HINT, WARN, paint, stderr_colours};
use super::{Context, eprint, filter, human};
use crate::agent::sessions::Found;
use crate::agent::store::Opened;
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind, KernelMemory, RestoredBy, sessions};
use crate::app::place;
use crate::error::{Exit, Failure};
use crate::session::{CellKind, Transcript};

/// Characters of the variables' names that are shown.
const NAMES: usize = 200;
/// Characters of the code that a kernel is busy with.
const CODE: usize = 40;
/// How long a kernel may take to handle an interrupt before the person is asked what to do.
const OBEYS_WITHIN: Duration = Duration::from_secs(3);
/// Lines of the last answer that are shown.
const LINES: usize = 12;

/// A session that was there before.
pub(super) struct Resumed {
    /// It.
    pub opened: Opened,
    /// Whether its code shall run again if its kernel is gone; `None` if nobody has said.
    pub replay: Option<bool>,
}

/// How a session comes back.
#[derive(Clone, Copy)]
pub(super) enum Coming {
    /// It is a new one.
    Not,
    /// Its code runs again if that is wanted; `None` asks.
    Back(Option<bool>),
}

/// Runs it.
pub(super) async fn resume(args: ResumeArgs, context: &Context) -> Result<Exit, Failure> {
    let ResumeArgs {
        session: wanted,
        last: _,
        fresh,
        session_args,
    } = args;
    if session_args.notebook.is_some() {
        return Err(Failure::usage("a session that is resumed has its notebook")
            .hint("leave --notebook out; `sponde fork` makes a session with another"));
    }
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    // A notebook that was moved names its session itself.
    let moved = wanted.as_deref().map(std::path::Path::new);
    let moved = moved.filter(|path| path.is_file());
    let id = moved.and_then(sessions::named_in);
    let found = match id.as_deref().or(wanted.as_deref()) {
        Some(wanted) => find(&all, Some(wanted))?,
        None => latest(&all)?,
    };
    let limits = context.config.limits.resolve();
    let mut opened =
        Opened::open(&dir, &found.id, limits, &place::now()).map_err(|error| not_opened(&error))?;
    if let Some(path) = moved.and_then(|path| std::path::absolute(path).ok())
        && path != opened.store.notebook()
    {
        opened.move_to(path).map_err(|error| not_opened(&error))?;
    }
    if opened.mended.notebook_missing && !sessions::was_saved(&dir, &found.id) {
        // It was killed before there was one: nothing is missing.
        opened.mended.notebook_missing = false;
    }
    let name = found
        .summary
        .name()
        .unwrap_or("a session without a question");
    eprint(&filter::plain(&format!(
        "resuming {}: {}\n",
        sessions::short(&found.id, &all),
        human::shortened(name, 70)
    )));
    for words in opened.mended.words() {
        eprint(&filter::plain(&format!("note: {words}\n")));
    }
    eprint(&tail(&opened.transcript));
    let resumed = Resumed {
        opened,
        replay: match (session_args.replay, fresh) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        },
    };
    chat::go_on(session_args, Some(resumed), context).await
}

/// The latest session that nobody else has open; if there is none, the latest, whose opening says who has it.
fn latest(all: &[Found]) -> Result<&Found, Failure> {
    let Some(free) = all.iter().find(|found| found.open.is_none()) else {
        return find(all, None);
    };
    for open in all.iter().take_while(|found| found.id != free.id) {
        let pid = open.open.and_then(|holder| holder.pid);
        let pid = pid.map_or_else(String::new, |pid| format!(" ({pid})"));
        eprint(&filter::plain(&format!(
            "note: {} is open in another process{pid}, so the one before it is resumed\n",
            sessions::short(&open.id, all)
        )));
    }
    Ok(free)
}

/// The last question and what was answered.
pub(super) fn tail(transcript: &Transcript) -> String {
    let colours = stderr_colours();
    let cells = transcript.cells();
    let Some(at) = cells.iter().rposition(|cell| cell.kind == CellKind::User) else {
        return String::new();
    };
    let after = cells.get(at..).unwrap_or_default();
    let mut text = String::new();
    if let Some(question) = after.first() {
        let question = filter::plain(question.source.trim());
        let _ = write!(text, "\n{} {question}\n", paint(HINT, ">", colours));
    }
    let said = |kind: &CellKind| matches!(kind, CellKind::Assistant { .. });
    if let Some(answer) = after.iter().rev().find(|cell| said(&cell.kind)) {
        let answer = filter::plain(answer.source.trim());
        let hidden = answer.lines().count().saturating_sub(LINES);
        if hidden > 0 {
            text.push_str(&paint(DIM, &format!("(… {hidden} lines)\n"), colours));
        }
        for line in answer.lines().skip(hidden) {
            text.push_str(&paint(DIM, line, colours));
            text.push('\n');
        }
    }
    text
}

impl Coming {
    /// The session that goes on, and how.
    pub(super) fn split(resumed: Option<Resumed>) -> (Option<Opened>, Self) {
        match resumed {
            Some(Resumed { opened, replay }) if !opened.transcript.cells().is_empty() => {
                (Some(opened), Self::Back(replay))
            }
            Some(Resumed { opened, .. }) => (Some(opened), Self::Not),
            None => (None, Self::Not),
        }
    }

    /// The same of a session that is not resumed but continues a notebook: `wanted` if its code shall run again.
    pub(super) fn or_replay(self, may_replay: bool, wanted: bool) -> Self {
        match self {
            Self::Not if may_replay => Self::Back(wanted.then_some(true)),
            other => other,
        }
    }

    /// Waits until the session's kernel is there, and has its code run again if that is wanted. `Some` if it ends
    /// instead.
    pub(super) async fn back(
        self,
        agent: &mut View,
        renderer: &mut Renderer,
        mut typed: Option<&mut LineSource>,
        signals: &mut tokio::sync::mpsc::Receiver<Ask>,
    ) -> Option<Exit> {
        let Self::Back(replay) = self else {
            return None;
        };
        let (mut is_busy, mut asks_at) = (false, None);
        loop {
            let asks = asks_at.unwrap_or_else(Instant::now);
            let command = tokio::select! {
                event = agent.recv() => {
                    let Some(event) = event else { return Some(Exit::Failed) };
                    renderer.show(&event.kind);
                    match event.kind {
                        EventKind::SessionResumed { memory: KernelMemory::Gone, code_cells: cells @ 1.., .. } => {
                            let replay = match (replay, &mut typed) {
                                (Some(replay), _) => Ok(replay),
                                (None, Some(typed)) => ask(typed, cells, signals).await,
                                (None, None) => Ok(false),
                            };
                            match replay {
                                Ok(replay) => Command::Restore { replay },
                                Err(Ask::Interrupt) => Command::Restore { replay: false },
                                Err(Ask::End) => return Some(Exit::Interrupted),
                            }
                        }
                        EventKind::KernelBusy { .. } => {
                            is_busy = true;
                            continue;
                        }
                        EventKind::SessionResumed { .. } => {
                            (is_busy, asks_at) = (false, None);
                            continue;
                        }
                        // Nothing that comes could be done.
                        EventKind::KernelFailed { .. } if is_busy => return Some(Exit::Kernel),
                        EventKind::SessionRestored { .. } | EventKind::KernelFailed { .. } => return None,
                        _ => continue,
                    }
                }
                Some(ask) = signals.recv() => match ask {
                    Ask::Interrupt => {
                        asks_at = (is_busy && typed.is_some()).then(|| Instant::now() + OBEYS_WITHIN);
                        Command::Interrupt
                    }
                    Ask::End => return Some(Exit::Interrupted),
                },
                () = sleep_until(asks), if asks_at.is_some() => {
                    asks_at = None;
                    let Some(typed) = &mut typed else { continue };
                    match still_busy(typed, signals).await {
                        Ok(StillBusy::Wait) => continue,
                        Ok(StillBusy::Interrupt) | Err(Ask::Interrupt) => {
                            asks_at = Some(Instant::now() + OBEYS_WITHIN);
                            Command::Interrupt
                        }
                        Ok(StillBusy::New) => Command::ReplaceKernel,
                        Ok(StillBusy::Leave) => return Some(Exit::Kernel),
                        Err(Ask::End) => return Some(Exit::Interrupted),
                    }
                }
            };
            if agent.send(command).await == Err(Rejection::Ended) {
                return Some(Exit::Failed);
            }
        }
    }
}

/// What to do about a kernel that does not handle.
enum StillBusy {
    Wait,
    Interrupt,
    /// Go on with a new one.
    New,
    /// The end of input.
    Leave,
}

/// Asks that.
///
/// # Errors
/// The signal that came instead of an answer.
async fn still_busy(
    typed: &mut LineSource,
    signals: &mut tokio::sync::mpsc::Receiver<Ask>,
) -> Result<StillBusy, Ask> {
    loop {
        let question = "It is still busy. [w]ait, [i]nterrupt it again, or end it and go on with a [n]ew kernel?";
        let Some(line) = typed.answer(question, signals).await? else {
            return Ok(StillBusy::Leave);
        };
        return Ok(match line.trim().to_lowercase().as_str() {
            "w" | "wait" => StillBusy::Wait,
            "i" | "interrupt" => StillBusy::Interrupt,
            "n" | "new" => StillBusy::New,
            _ => continue,
        });
    }
}

/// Whether the code shall run again.
///
/// # Errors
/// The signal that came instead of an answer.
async fn ask(
    typed: &mut LineSource,
    cells: usize,
    signals: &mut tokio::sync::mpsc::Receiver<Ask>,
) -> Result<bool, Ask> {
    let what = if cells == 1 {
        "its one cell of code".to_owned()
    } else {
        format!("its {cells} cells of code")
    };
    eprint("The kernel that ran this is gone, and its variables with it.\n");
    loop {
        let question = format!("[r]un {what} again, or go on [f]resh?");
        let Some(line) = typed.answer(&question, signals).await? else {
            return Ok(false);
        };
        match line.trim().to_lowercase().as_str() {
            "r" | "run" | "replay" | "y" | "yes" => return Ok(true),
            "f" | "fresh" | "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// What a person is told while a session comes back.
pub(super) fn lines(event: &EventKind) -> Vec<(anstyle::Style, String)> {
    let mut lines = Vec::new();
    match event {
        EventKind::KernelBusy { code, .. } => {
            let first = code.as_ref().and_then(|code| code.trim().lines().next());
            let with = first.map_or_else(String::new, |line| {
                format!(" with `{}`", human::shortened(line, CODE))
            });
            let text =
                format!("its kernel is still busy{with}: waiting for it; Ctrl-C interrupts it");
            lines.push((WARN, text));
        }
        EventKind::CellReplayed {
            number,
            of,
            status,
            differences,
            ..
        } => {
            let (style, what) = match (&**status, differences.is_empty()) {
                ("ok", true) => (DIM, "as before"),
                ("ok", false) => (WARN, "other output"),
                ("error", true) => (DIM, "the same error as before"),
                (status, true) => (DIM, status),
                (status, false) => (WARN, status),
            };
            lines.push((style, format!("cell {number} of {of}: {what}")));
            let differences = differences.iter();
            lines.extend(differences.map(|difference| (DIM, format!("  {difference}"))));
        }
        EventKind::SessionRestored {
            by,
            ran,
            differing,
            variables,
        } => {
            let mut text = match by {
                RestoredBy::Kernel => "its kernel is still there".to_owned(),
                RestoredBy::Replay => {
                    let cells = human::count(*ran, "cell");
                    match (*differing, *ran) {
                        (0, _) => format!("ran {cells} again, with the same outputs"),
                        (1, 1) => format!("ran {cells} again, with other outputs"),
                        _ => format!("ran {cells} again, {differing} with other outputs"),
                    }
                }
                RestoredBy::Nothing => "it goes on in a new kernel, without variables".to_owned(),
            };
            if let Some(variables) = variables.as_ref().filter(|names| !names.is_empty()) {
                let names = human::shortened(&variables.join(", "), NAMES);
                let _ = write!(text, "; variables: {names}");
            }
            lines.push((DIM, text));
        }
        _ => {}
    }
    lines
}
