//! Resuming a session: waits for its kernel, and asks the person what to do about it.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::eprint;
use super::line_source::LineSource;
use super::render::Renderer;
use super::stop::Ask;
use crate::agent::store::Opened;
use crate::agent::stream::{Rejection, View};
use crate::agent::{Command, EventKind, KernelMemory};
use crate::cli::exit::Exit;

/// How long a kernel may take to handle an interrupt before the person is asked what to do.
const OBEYS_WITHIN: Duration = Duration::from_secs(3);

/// A session that existed before.
pub(super) struct Resumed {
    /// The opened session.
    pub opened: Opened,
    /// Whether its code runs again if its kernel is gone; `None`: not decided yet.
    pub replay: Option<bool>,
}

/// How a session is resumed.
#[derive(Clone, Copy)]
pub(super) enum Coming {
    /// It is a new session.
    Not,
    /// Its code runs again if wanted; `None` asks.
    Back(Option<bool>),
}

impl Coming {
    /// Splits off the opened session from how it is resumed.
    pub(super) fn split(resumed: Option<Resumed>) -> (Option<Opened>, Self) {
        match resumed {
            Some(Resumed { opened, replay }) if !opened.transcript.cells().is_empty() => {
                (Some(opened), Self::Back(replay))
            }
            Some(Resumed { opened, .. }) => (Some(opened), Self::Not),
            None => (None, Self::Not),
        }
    }

    /// The same for a session that continues a notebook. `wanted`: its code runs again.
    pub(super) fn or_replay(self, may_replay: bool, wanted: bool) -> Self {
        match self {
            Self::Not if may_replay => Self::Back(wanted.then_some(true)),
            other => other,
        }
    }

    /// Waits for the session's kernel, and runs its code again if wanted. Returns `Some` if the session ends instead.
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
                        // No later event could be acted on.
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

/// What to do about a kernel that does not handle an interrupt.
enum StillBusy {
    Wait,
    Interrupt,
    /// Continue with a new kernel.
    New,
    /// The input ended.
    Leave,
}

/// Asks what to do about the busy kernel.
///
/// # Errors
/// The signal that came instead of an answer.
async fn still_busy(
    typed: &mut LineSource,
    signals: &mut tokio::sync::mpsc::Receiver<Ask>,
) -> Result<StillBusy, Ask> {
    loop {
        let question =
            "It is still busy. [w]ait, [i]nterrupt it again, or continue with a [n]ew kernel?";
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

/// Asks whether the code runs again.
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
