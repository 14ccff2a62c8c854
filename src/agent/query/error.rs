//! Why a query has no answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::stream::Rejection;
use crate::kernel::KernelError;

/// Why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// For programs.
    pub reason: QueryReason,
    /// For people.
    pub message: String,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Why a query has no answer, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryReason {
    /// The kernel runs a cell, and cannot answer beside it.
    Busy,
    /// Too many queries wait.
    TooMany,
    /// The kernel for that language has not started.
    NoKernel,
    /// It took too long.
    Timeout,
    /// What the kernel said is not understood.
    NoAnswer,
    /// The query is wrong.
    BadRequest,
    /// There is no such variable.
    NoVariable,
    /// There is no such column.
    NoColumn,
    /// The variable is no table.
    NoFrame,
    /// The kernel lacks a library.
    MissingLibrary,
    /// The kernel's language or implementation cannot do it.
    Unsupported,
    /// The kernel's code failed.
    Failed,
    /// There is no such cell, output, file or directory.
    NotFound,
    /// The path leads out of the workspace, or to what may not be read.
    Forbidden,
    /// The answer is too large to be sent.
    TooLarge,
    /// The kernel is gone.
    Kernel,
    /// The session has ended.
    Ended,
}

impl QueryError {
    /// Without a hint.
    pub fn new(reason: QueryReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            hint: None,
        }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The session has ended.
    pub fn ended() -> Self {
        Self::new(QueryReason::Ended, Rejection::Ended.to_string())
    }

    /// Too many wait.
    pub fn too_many() -> Self {
        Self::new(QueryReason::TooMany, "too many queries wait").hint("ask again in a moment")
    }

    /// The answer has so many bytes.
    pub fn too_large(bytes: usize) -> Self {
        let message = format!("the answer would have {bytes} bytes, which is too much");
        Self::new(QueryReason::TooLarge, message).hint("ask for a smaller part")
    }

    /// A cell runs.
    pub(in crate::agent) fn busy() -> Self {
        Self::new(QueryReason::Busy, "the kernel is running a cell")
            .hint("wait for its end, or interrupt it")
    }
}

impl From<Rejection> for QueryError {
    fn from(_: Rejection) -> Self {
        // Looking is rejected only when the session has ended.
        Self::ended()
    }
}

impl From<KernelError> for QueryError {
    fn from(error: KernelError) -> Self {
        let reason = match &error {
            KernelError::Unsupported { what, .. } if what.contains("while a cell runs") => {
                return Self::busy();
            }
            KernelError::Unsupported { .. } => QueryReason::Unsupported,
            KernelError::NoAnswer { .. } => QueryReason::Timeout,
            _ => QueryReason::Kernel,
        };
        Self::new(reason, error.to_string())
    }
}
