//! Where a kernel runs: what can be done with it besides talking to it.

mod adopted;
mod kept;
mod process;
mod watch;

use std::fmt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use adopted::{Adopted, adopt_orphans};
pub(super) use kept::Kept;
pub(super) use process::{EndOf, Process};
pub(super) use watch::Watch;

use super::gateway::Remote;
use super::sandbox::Cage;

/// What stands behind a connection.
#[derive(Debug)]
pub(super) enum Host {
    /// A process of ours: it ends when we do.
    Local(Box<Process>),
    /// A process that an earlier one of ours has kept: it ends when we say so.
    Kept(Kept),
    /// A kernel that a gateway runs for us: it ends when we say so.
    Gateway(Box<Remote>),
    /// A kernel that somebody else started and will end.
    Attached,
}

impl Host {
    /// Whether it is ours to end, and so to restart.
    pub(super) fn is_ours(&self) -> bool {
        match self {
            Self::Local(_) | Self::Kept(_) | Self::Gateway(_) => true,
            Self::Attached => false,
        }
    }

    /// Whether it goes on without us.
    pub(super) fn is_kept(&self) -> bool {
        match self {
            Self::Local(process) => process.is_kept(),
            Self::Kept(_) => true,
            Self::Gateway(_) | Self::Attached => false,
        }
    }

    /// Whether it is asked to end by a `shutdown_request`. A gateway would take that for a death and start the kernel
    /// again.
    pub(super) fn ends_by_message(&self) -> bool {
        match self {
            Self::Local(_) | Self::Kept(_) => true,
            Self::Gateway(_) | Self::Attached => false,
        }
    }

    /// SIGINT, where there is a process to send it to; a gateway does what the kernelspec says.
    pub(super) fn interrupt(&self) {
        match self {
            Self::Local(process) => process.interrupt(),
            Self::Kept(process) => process.interrupt(),
            Self::Gateway(remote) => remote.interrupt(),
            Self::Attached => {}
        }
    }

    /// Ends it at once, with all that it started.
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

    /// Waits until it has ended, as far as that can be seen from here. Cancel-safe.
    pub(super) async fn wait(&mut self) -> ExitReason {
        match self {
            Self::Local(process) => process.wait().await,
            Self::Kept(process) => process.wait().await,
            Self::Gateway(remote) => remote.wait().await,
            // Its sockets tell.
            Self::Attached => std::future::pending().await,
        }
    }

    /// Gives it `grace` to end by itself, then makes it. What a gateway shall start again it ends by itself.
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

    /// The id of its process, where it is one of ours and runs.
    pub(super) fn pid(&self) -> Option<u32> {
        match self {
            Self::Local(process) => process.id(),
            Self::Kept(process) => Some(process.id()),
            Self::Gateway(_) | Self::Attached => None,
        }
    }

    /// The processes that confine it and have to be ended with it.
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

/// How a kernel's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// It exited.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It broke the wire protocol in a way that could have hurt us, and was killed.
    Hostile(String),
    /// It closed its connection although its process lived, and was killed.
    Disconnected,
    /// It was a gateway's kernel, and the gateway lost it or its state; in words.
    Gone(String),
    /// It did not react to interrupts after its time was up, and was killed.
    KilledAfterTimeout,
    /// It did not react to interrupts after its time was up; it is not ours to kill, so we left it.
    Abandoned,
    /// The process below it that runs the code ended, and it was killed, for it would never answer again.
    WorkerEnded,
    /// It came to a limit of confined kernels, in words: `it used more than 6 GB of memory`.
    Limit(String),
    /// It was restarted or shut down on request.
    Requested,
    /// Nobody knows.
    Unknown,
}

impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exit status {code}"),
            Self::Signalled(9) => f.write_str("signal 9, killed: perhaps out of memory"),
            Self::Signalled(11) => f.write_str("signal 11, segmentation fault"),
            Self::Signalled(signal) => write!(f, "signal {signal}"),
            Self::Hostile(what) => write!(f, "it was killed because {what}"),
            Self::Disconnected => f.write_str("it closed its connection and was killed"),
            Self::Gone(what) | Self::Limit(what) => f.write_str(what),
            Self::KilledAfterTimeout => {
                f.write_str("it was killed because it did not stop when its time was up")
            }
            Self::Abandoned => f.write_str(
                "it did not stop when its time was up; it is not ours to kill and was left running",
            ),
            Self::WorkerEnded => f.write_str("the process that ran its code ended"),
            Self::Requested => f.write_str("it was ended on request"),
            Self::Unknown => f.write_str("reason unknown"),
        }
    }
}

impl From<ExitStatus> for ExitReason {
    fn from(status: ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, Some(signal)) => Self::Signalled(signal),
            (None, None) => Self::Unknown,
        }
    }
}
