//! The state of a code cell as one word: in events, notebooks and the audit log.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CodeStatus;
use crate::kernel::Verdict;

/// The state of a code cell without its details. The words are stable: notebooks keep them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CellStatus {
    /// It waits for a decision.
    #[serde(rename = "proposed")]
    Proposed,
    /// It is in the kernel.
    #[serde(rename = "running")]
    Running,
    /// It ran to its end.
    #[serde(rename = "ok")]
    Ok,
    /// It raised.
    #[serde(rename = "error")]
    Error,
    /// It was stopped on request.
    #[serde(rename = "interrupted")]
    Interrupted,
    /// Its time was up.
    #[serde(rename = "timed out")]
    TimedOut,
    /// It never ran.
    #[serde(rename = "not run")]
    NotRun,
    /// The person said no.
    #[serde(rename = "declined")]
    Declined,
    /// The kernel went with it.
    #[serde(rename = "kernel died")]
    KernelDied,
}

impl CellStatus {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "timed out",
            Self::NotRun => "not run",
            Self::Declined => "declined",
            Self::KernelDied => "kernel died",
        }
    }
}

impl fmt::Display for CellStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<&Verdict> for CellStatus {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::Ok,
            Verdict::Error { .. } => Self::Error,
            Verdict::Interrupted => Self::Interrupted,
            Verdict::TimedOut => Self::TimedOut,
            Verdict::Aborted => Self::NotRun,
            Verdict::KernelDied(_) => Self::KernelDied,
        }
    }
}

impl From<&CodeStatus> for CellStatus {
    fn from(status: &CodeStatus) -> Self {
        match status {
            CodeStatus::Proposed => Self::Proposed,
            CodeStatus::Running => Self::Running,
            CodeStatus::Finished(verdict) => verdict.into(),
            CodeStatus::Declined(_) => Self::Declined,
            CodeStatus::NotRun(_) => Self::NotRun,
        }
    }
}
