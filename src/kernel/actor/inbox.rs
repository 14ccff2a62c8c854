//! Commands from a kernel's handles, including those that were deferred.

use std::collections::VecDeque;

use tokio::sync::{mpsc, oneshot};

use super::{Command, Restore, Target};
use crate::kernel::KernelError;
use crate::kernel::actor::open::{Opened, wake};

/// The command queue.
pub(super) struct Inbox {
    commands: mpsc::Receiver<Command>,
    /// Commands that came while a copy was waking, which takes seconds at most.
    held: VecDeque<Command>,
}

/// The result of waking a copy.
pub(super) enum Woken {
    Opened(Box<Opened>),
    /// It failed, or was interrupted.
    Failed(KernelError),
    /// No handle wants the kernel any more.
    Shutdown(Option<oneshot::Sender<()>>),
}

impl Inbox {
    pub(super) fn new(commands: mpsc::Receiver<Command>) -> Self {
        Self {
            commands,
            held: VecDeque::new(),
        }
    }

    /// The next command; `None` when the last handle is gone. Cancel-safe.
    pub(super) async fn recv(&mut self) -> Option<Command> {
        match self.held.pop_front() {
            Some(command) => Some(command),
            None => self.commands.recv().await,
        }
    }

    /// Wakes a copy. An interrupt cancels this and a shutdown is returned at once; other commands are held back.
    pub(super) async fn wake(&mut self, target: &Target, restore: &Restore) -> Woken {
        let waking = wake(target, &restore.checkpoints, restore.id);
        tokio::pin!(waking);
        let interrupted = || {
            Woken::Failed(KernelError::NotRestored {
                kernel: target.name().to_owned(),
                reason: "it was interrupted".to_owned(),
            })
        };
        loop {
            tokio::select! {
                opened = &mut waking => return match opened {
                    Ok(opened) => Woken::Opened(Box::new(opened)),
                    Err(error) => Woken::Failed(error),
                },
                command = self.commands.recv() => match command {
                    None => return Woken::Shutdown(None),
                    Some(Command::Shutdown { reply }) => return Woken::Shutdown(Some(reply)),
                    Some(Command::Interrupt { reply }) => {
                        let _ = reply.send(Ok(()));
                        return interrupted();
                    }
                    Some(Command::InterruptAnyway) => return interrupted(),
                    Some(other) => self.held.push_back(other),
                },
            }
        }
    }
}
