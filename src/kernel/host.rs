//! Where a kernel runs, and what can be done with it besides messages.

mod adopted;
mod kept;
mod process;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub(super) use adopted::{Adopted, adopt_orphans};
pub(super) use kept::Kept;
pub(super) use process::{EndOf, Process};
pub(super) use watch::Watch;

pub use super::exit_reason::ExitReason;
use super::gateway::Remote;
use super::sandbox::Cage;

/// What runs the kernel.
#[derive(Debug)]
pub(super) enum Host {
    /// A process of ours: it ends when we do.
    Local(Box<Process>),
    /// A process that an earlier process of ours kept: it ends when we say so.
    Kept(Kept),
    /// A kernel that a gateway runs for us: it ends when we say so.
    Gateway(Box<Remote>),
    /// A kernel that somebody else started and will end.
    Attached,
}

impl Host {
    /// Whether we may end it, and so restart it.
    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Local(_) | Self::Kept(_) | Self::Gateway(_) => true,
            Self::Attached => false,
        }
    }

    /// Whether it keeps running after we exit.
    pub(super) fn is_kept(&self) -> bool {
        match self {
            Self::Local(process) => process.is_kept(),
            Self::Kept(_) => true,
            Self::Gateway(_) | Self::Attached => false,
        }
    }

    /// Whether a `shutdown_request` ends it. A gateway would take the exit for a crash and restart the kernel.
    pub(super) fn ends_by_message(&self) -> bool {
        match self {
            Self::Local(_) | Self::Kept(_) => true,
            Self::Gateway(_) | Self::Attached => false,
        }
    }

    /// Sends SIGINT if there is a process; a gateway does what the kernelspec says.
    pub(super) fn interrupt(&self) {
        match self {
            Self::Local(process) => process.interrupt(),
            Self::Kept(process) => process.interrupt(),
            Self::Gateway(remote) => remote.interrupt(),
            Self::Attached => {}
        }
    }

    /// Kills it at once, with everything it started.
    pub(super) async fn kill(&mut self) {
        match self {
            Self::Local(process) => {
                process.kill();
                process.wait().await;
            }
            Self::Kept(process) => {
                process.kill();
                process.wait().await;
            }
            Self::Gateway(remote) => remote.end().await,
            Self::Attached => {}
        }
    }

    /// Waits until it has ended, as far as we can see that. Cancel-safe.
    pub(super) async fn wait(&mut self) -> ExitReason {
        match self {
            Self::Local(process) => process.wait().await,
            Self::Kept(process) => process.wait().await,
            Self::Gateway(remote) => remote.wait().await,
            // Its sockets report the end.
            Self::Attached => std::future::pending().await,
        }
    }

    /// Gives it `grace` to exit by itself, then kills it. For a restart, a gateway ends the kernel itself.
    pub(super) async fn end(&mut self, restart: bool, grace: Duration) -> ExitReason {
        match self {
            Self::Local(process) => process.end(grace).await,
            Self::Kept(process) => process.end(grace).await,
            Self::Gateway(_) if restart => ExitReason::Requested,
            Self::Gateway(remote) => {
                remote.end().await;
                ExitReason::Requested
            }
            Self::Attached => ExitReason::Requested,
        }
    }

    /// The last lines it wrote to its own stderr.
    pub(super) async fn log(&mut self) -> String {
        match self {
            Self::Local(process) => process.log().await,
            Self::Kept(_) | Self::Gateway(_) | Self::Attached => String::new(),
        }
    }

    /// The process id, if we own the process and it runs.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Local(process) => process.id(),
            Self::Kept(process) => Some(process.id()),
            Self::Gateway(_) | Self::Attached => None,
        }
    }

    /// The processes that confine it and have to end with it.
    pub(super) fn around(&self) -> Vec<u32> {
        match self {
            Self::Local(process) => process
                .cage()
                .map(|cage| cage.first())
                .into_iter()
                .collect(),
            Self::Kept(process) => process.around(),
            Self::Gateway(_) | Self::Attached => Vec::new(),
        }
    }

    /// The namespaces that it runs in.
    pub(super) fn cage(&self) -> Option<&Arc<Cage>> {
        match self {
            Self::Local(process) => process.cage(),
            Self::Kept(_) | Self::Gateway(_) | Self::Attached => None,
        }
    }
}
