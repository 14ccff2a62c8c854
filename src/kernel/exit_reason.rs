//! How a kernel ended.

use std::fmt;
use std::process::ExitStatus;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
