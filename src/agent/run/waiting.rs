//! Commands that come while the session waits for a kernel: an interrupt and a shutdown are handled, the others wait.

use tokio::sync::mpsc;

use super::rerun::Replayed;
use super::{MAIN, Session};
use crate::agent::event::Command;
use crate::agent::stream::handle::{Request, Wanted};
use crate::kernel::Kernel;
use crate::task;

impl Session {
    /// A command that comes while the end of a turn waits for its last point.
    pub(super) async fn while_ending(&mut self, wanted: Wanted) {
        if wanted.command != Command::Interrupt {
            return self.resuming.held.push_back(wanted);
        }
        self.give_up_point(None);
        let Some(end) = self.ending.take() else {
            return;
        };
        if self.asking.following.take().is_some() {
            self.conclude_turn(end).await;
        } else {
            self.finish_turn(end).await;
        }
    }

    /// Waits until the main kernel is ready or has failed; after a crash it restarts. Returns `Some` if the wait was
    /// stopped.
    pub(super) async fn until_started(
        &mut self,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Option<Replayed> {
        while self.kernels.is_starting(MAIN) {
            tokio::select! {
                (index, ready) = self.kernels.changed() => self.kernel_changed(index, ready).await,
                request = inbox.recv() => match request.map(|request| request.accept(self.subscribers.log.appended())) {
                    None => return Some(Replayed::Ending),
                    Some(wanted) => match wanted.command {
                        Command::Shutdown => return Some(Replayed::Ending),
                        Command::Interrupt => return Some(Replayed::Stopped),
                        _ => self.resuming.held.push_back(wanted),
                    },
                },
            }
        }
        None
    }

    /// Waits for `work` of `kernel`. An interrupt goes to the kernel, which cancels the work if it can. Returns `Some`
    /// if it was stopped.
    ///
    /// # Errors
    /// The error of `work`, as text.
    pub(super) async fn unless_stopped<E: std::fmt::Display>(
        &mut self,
        kernel: &Kernel,
        work: impl Future<Output = Result<(), E>>,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> Result<Option<Replayed>, String> {
        tokio::pin!(work);
        let mut is_interrupted = false;
        loop {
            tokio::select! {
                done = &mut work => return match done {
                    Ok(()) => Ok(None),
                    Err(_) if is_interrupted => Ok(Some(Replayed::Stopped)),
                    Err(error) => Err(error.to_string()),
                },
                request = inbox.recv() => match request.map(|request| request.accept(self.subscribers.log.appended())) {
                    None => return Ok(Some(Replayed::Ending)),
                    Some(wanted) => match wanted.command {
                        Command::Shutdown => return Ok(Some(Replayed::Ending)),
                        Command::Interrupt => {
                            is_interrupted = true;
                            let kernel = kernel.clone();
                            // A starting kernel accepts no commands until it is ready.
                            task::spawn("interrupt", async move { drop(kernel.interrupt().await) })
                                .detach();
                        }
                        _ => self.resuming.held.push_back(wanted),
                    },
                },
            }
        }
    }
}
