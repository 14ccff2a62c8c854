//! The task behind a [`super::Kernel`]: owns process, sockets and the table of executions, as plain locals.
//!
//! It lives through restarts: each life of the kernel is one [`Life`]; commands keep coming meanwhile. When the
//! last handle is gone a kernel that we started is shut down, and one that was there before is left alone.

mod asked;
mod gap;
mod life;
mod numbers;
mod open;
mod worker;

use tokio::sync::{mpsc, oneshot, watch};

use super::execution::Execution;
use super::host::ExitReason;
use super::late::Late;
use super::tap::Tapped;
use super::{ExecuteOptions, KernelError, KernelState};
use crate::jupyter::content::{Content, KernelInfo};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::raw::RawMessage;
use life::Life;
pub(super) use open::Target;

/// What a handle can ask for.
#[derive(Debug)]
pub(super) enum Command {
    Execute {
        options: ExecuteOptions,
        reply: oneshot::Sender<Result<Execution, KernelError>>,
    },
    Reply {
        execution: String,
        value: String,
    },
    RefuseInput {
        execution: String,
        why: String,
    },
    Interrupt {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    /// The same for what is not ours and so may be running unseen.
    InterruptAnyway,
    Restart {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
    /// Any other request; the caller bounds the wait.
    Ask {
        channel: Channel,
        content: Content,
        reply: oneshot::Sender<Message>,
    },
    /// From now on, whatever belongs to no execution of ours goes there.
    Tap {
        messages: mpsc::Sender<Tapped>,
    },
    /// From now on, outputs of finished executions go there.
    Late {
        outputs: mpsc::Sender<Late>,
    },
    /// A message of somebody else's, as it is.
    Forward {
        channel: Channel,
        message: Box<RawMessage>,
    },
    About {
        reply: oneshot::Sender<About>,
    },
}

/// Facts about a kernel that lives.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) info: KernelInfo,
    /// Where it has one.
    pub(super) connection_file: Option<std::path::PathBuf>,
    /// Of the kernel's own process, where it is one of ours.
    pub(super) pid: Option<u32>,
    /// A cell is running.
    pub(super) busy: bool,
    /// How it is interrupted.
    pub(super) interrupt_mode: InterruptMode,
}

/// How a life ended.
enum End {
    /// Nobody wants the kernel any more.
    Shutdown(Option<oneshot::Sender<()>>),
    /// It shall start again.
    Restart(oneshot::Sender<Result<(), KernelError>>),
    /// It died by itself.
    Died(ExitReason),
}

/// Runs until the last handle is gone or the kernel is shut down.
pub(super) async fn run(
    mut target: Target,
    mut inbox: mpsc::Receiver<Command>,
    state: watch::Sender<KernelState>,
    ready: oneshot::Sender<Result<(), KernelError>>,
) {
    let mut waiting = ready;
    let mut tap = None;
    loop {
        state.send_replace(KernelState::Starting);
        let end = match Life::start(&mut target, tap.take()).await {
            Ok(mut life) => {
                state.send_replace(KernelState::Idle);
                // A caller that stopped waiting has dropped its handle too; the inbox tells.
                let _ = waiting.send(Ok(()));
                let end = life.serve(&mut inbox, &state).await;
                let (end, listener) = life.finish(end).await;
                tap = listener;
                end
            }
            Err(error) => {
                let reason = match &error {
                    KernelError::DiedAtStart { reason, .. } => reason.clone(),
                    _ => ExitReason::Unknown,
                };
                let _ = waiting.send(Err(error));
                End::Died(reason)
            }
        };
        waiting = match end {
            End::Shutdown(reply) => {
                state.send_replace(KernelState::Dead(ExitReason::Requested));
                if let Some(reply) = reply {
                    let _ = reply.send(());
                }
                return;
            }
            End::Restart(reply) => reply,
            End::Died(reason) => {
                state.send_replace(KernelState::Dead(reason.clone()));
                // Who listens learns from the closed channel that there is nothing more to hear.
                tap = None;
                match lie_dead(target.name(), &reason, &mut inbox).await {
                    Some(reply) => reply,
                    None => return target.give_up().await,
                }
            }
        };
    }
}

/// Answers commands for a dead kernel until somebody wants it restarted.
async fn lie_dead(
    kernel: &str,
    reason: &ExitReason,
    inbox: &mut mpsc::Receiver<Command>,
) -> Option<oneshot::Sender<Result<(), KernelError>>> {
    let dead = || KernelError::Dead {
        kernel: kernel.to_owned(),
        reason: reason.clone(),
    };
    loop {
        match inbox.recv().await? {
            Command::Execute { reply, .. } => {
                let _ = reply.send(Err(dead()));
            }
            Command::Interrupt { reply } => {
                let _ = reply.send(Err(dead()));
            }
            Command::Shutdown { reply } => {
                let _ = reply.send(());
                return None;
            }
            Command::Restart { reply } => return Some(reply),
            // The dropped sender answers `Closed`.
            Command::Reply { .. }
            | Command::RefuseInput { .. }
            | Command::InterruptAnyway
            | Command::Ask { .. }
            | Command::Tap { .. }
            | Command::Late { .. }
            | Command::Forward { .. }
            | Command::About { .. } => {}
        }
    }
}
