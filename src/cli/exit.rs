//! Exit codes of the program.

use std::process::ExitCode;

use crate::error::FailureKind;

/// How `sponde` ends (README, "Exit codes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The turn or a cell failed.
    Failed,
    /// The command line or an input file is wrong.
    Usage,
    /// Code needed approval and did not get it.
    Approval,
    /// The kernel could not start, or died.
    Kernel,
    /// The model could not be asked.
    Provider,
    /// Ctrl-C.
    Interrupted,
    /// The script's own exit code.
    Script(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Approval => 3,
            Exit::Kernel => 4,
            Exit::Provider => 5,
            Exit::Interrupted => 130,
            Exit::Script(status) => status,
        })
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Failed => Self::Failed,
            FailureKind::Usage => Self::Usage,
            FailureKind::Approval => Self::Approval,
            FailureKind::Kernel => Self::Kernel,
            FailureKind::Provider => Self::Provider,
            FailureKind::Interrupted => Self::Interrupted,
            FailureKind::OutputClosed => Self::Done,
            FailureKind::Script(status) => Self::Script(status),
        }
    }
}
