//! The task behind a [`super::Kernel`]: owns the process, the sockets and the table of executions as plain locals.
//!
//! The task survives restarts: each life of the kernel is one [`Life`], and commands keep arriving between them. When
//! the last handle is dropped, a kernel that we started is shut down; one that we attached to is left running.

mod asked;
mod gap;
mod inbox;
mod life;
mod limits;
mod numbers;
mod open;
mod refused;
mod worker;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::checkpoint::{CheckpointId, Checkpoints};
use super::command::{About, Command, Hearer};
use super::execution::{Events, ExecutionEvent, Outcome, Verdict};
use super::host::ExitReason;
use super::{KernelError, KernelState};
use inbox::{Inbox, Woken};
use life::Life;
pub(super) use open::Target;
use open::open;

/// How a life ended.
enum End {
    /// No handle wants the kernel any more.
    Shutdown(Option<oneshot::Sender<()>>),
    /// Restart it.
    Restart(oneshot::Sender<Result<(), KernelError>>),
    /// Replace it with the process of a checkpoint. The kernel lives on if that fails.
    Restore(Restore),
    /// It died by itself.
    Died(ExitReason),
}

/// A request to go back to a checkpoint.
struct Restore {
    checkpoints: Checkpoints,
    id: CheckpointId,
    reply: oneshot::Sender<Result<(), KernelError>>,
}

/// How the next life begins.
enum Begin {
    Start(oneshot::Sender<Result<(), KernelError>>),
    Restore(Restore),
}

/// Runs until the last handle is gone or the kernel is shut down.
pub(super) async fn run(
    mut target: Target,
    inbox: mpsc::Receiver<Command>,
    state: watch::Sender<KernelState>,
    ready: oneshot::Sender<Result<(), KernelError>>,
) {
    let mut inbox = Inbox::new(inbox);
    let mut begin = Begin::Start(ready);
    let mut tap = None;
    loop {
        state.send_replace(KernelState::Starting);
        let (opened, waiting) = match begin {
            Begin::Start(reply) => (open(&mut target).await, reply),
            Begin::Restore(restore) => match inbox.wake(&target, &restore).await {
                Woken::Opened(opened) => (Ok(*opened), restore.reply),
                Woken::Failed(error) => (Err(error), restore.reply),
                Woken::Shutdown(reply) => {
                    state.send_replace(KernelState::Dead(ExitReason::Requested));
                    if let Some(reply) = reply {
                        let _ = reply.send(());
                    }
                    return;
                }
            },
        };
        let end = match opened {
            Ok(opened) => {
                let life = Life::of(&target, opened, tap.take());
                state.send_replace(KernelState::Idle);
                // A caller that stopped waiting has dropped its handle too; the inbox reports that.
                let _ = waiting.send(Ok(()));
                let (end, listener) = live(life, &target, &mut inbox, &state).await;
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
        begin = match end {
            End::Shutdown(reply) => {
                state.send_replace(KernelState::Dead(ExitReason::Requested));
                if let Some(reply) = reply {
                    let _ = reply.send(());
                }
                return;
            }
            End::Restart(reply) => Begin::Start(reply),
            End::Restore(restore) => Begin::Restore(restore),
            End::Died(reason) => {
                state.send_replace(KernelState::Dead(reason.clone()));
                // Closing the channel tells the listener that nothing more will come.
                tap = None;
                match lie_dead(target.name(), &reason, &mut inbox).await {
                    Some(begin) => begin,
                    None => return target.give_up().await,
                }
            }
        };
    }
}

/// Serves a life until it ends. Restoring a checkpoint replaces this life with another; a failed restore leaves it
/// running.
async fn live(
    mut life: Life,
    target: &Target,
    inbox: &mut Inbox,
    state: &watch::Sender<KernelState>,
) -> (End, Option<Hearer>) {
    loop {
        let end = life.serve(inbox, state).await;
        let End::Restore(restore) = end else {
            return life.finish(end).await;
        };
        match inbox.wake(target, &restore).await {
            Woken::Opened(opened) => {
                let (end, tap) = life.finish(End::Restore(restore)).await;
                life = Life::of(target, *opened, tap);
                if let End::Restore(restore) = end {
                    let _ = restore.reply.send(Ok(()));
                }
            }
            Woken::Failed(error) => {
                let _ = restore.reply.send(Err(error));
            }
            Woken::Shutdown(reply) => return life.finish(End::Shutdown(reply)).await,
        }
    }
}

/// Answers commands for a dead kernel until somebody wants it restarted.
async fn lie_dead(kernel: &str, reason: &ExitReason, inbox: &mut Inbox) -> Option<Begin> {
    let dead = || KernelError::Dead {
        kernel: kernel.to_owned(),
        reason: reason.clone(),
    };
    loop {
        match inbox.recv().await? {
            Command::Execute {
                events,
                reply: None,
                ..
            } => {
                let end = ExecutionEvent::Finished(Outcome {
                    verdict: Verdict::KernelDied(reason.clone()),
                    count: None,
                });
                let _ = events.send((end, None));
            }
            Command::Execute {
                reply: Some(reply), ..
            }
            | Command::Interrupt { reply } => {
                let _ = reply.send(Err(dead()));
            }
            Command::Shutdown { reply } => {
                let _ = reply.send(());
                return None;
            }
            Command::Restart { reply } => return Some(Begin::Start(reply)),
            Command::Restore {
                checkpoints,
                id,
                reply,
            } => {
                return Some(Begin::Restore(Restore {
                    checkpoints,
                    id,
                    reply,
                }));
            }
            // Dropping the sender makes the caller see `Closed`.
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

/// Rejects code for a kernel that has not yet read what it was sent before.
fn refuse(kernel: &str, events: &Events, reply: Option<oneshot::Sender<Result<(), KernelError>>>) {
    if let Some(reply) = reply {
        let _ = reply.send(Err(KernelError::Unsupported {
            kernel: kernel.to_owned(),
            what: "accept more code until it has read the queued requests",
        }));
    } else {
        let end = ExecutionEvent::Finished(Outcome {
            verdict: Verdict::Aborted,
            count: None,
        });
        let _ = events.send((end, None));
    }
}

/// Sleeps until `at`, or for ever if there is none.
async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
