//! Errors as E2B's clients read them: `{"code", "message"}`, text for code, and Connect's codes for files and commands.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::app::sandboxes::{ContextError, FileError, ProcessError, SandboxError, SnapshotError};
use crate::server::problem::Problem;

/// Why a request was not carried out.
#[derive(Debug)]
pub(in crate::server) struct E2bFailure {
    status: StatusCode,
    /// Connect's word for it.
    code: &'static str,
    message: String,
}

impl E2bFailure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        let code = match status {
            StatusCode::UNAUTHORIZED => "unauthenticated",
            StatusCode::FORBIDDEN => "permission_denied",
            StatusCode::NOT_FOUND => "not_found",
            StatusCode::CONFLICT => "already_exists",
            StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE => "resource_exhausted",
            StatusCode::NOT_IMPLEMENTED => "unimplemented",
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            StatusCode::GATEWAY_TIMEOUT => "deadline_exceeded",
            status if status.is_client_error() => "invalid_argument",
            _ => "internal",
        };
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    /// As the code interpreter says it.
    pub(super) fn into_text(self) -> Response {
        (self.status, self.message).into_response()
    }

    /// As Connect says it, of one request.
    pub(super) fn into_connect(self) -> Response {
        (self.status, Json(self.connect_error())).into_response()
    }

    /// The same within a stream.
    pub(super) fn connect_error(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }
}

impl E2bFailure {
    /// As the control plane says it.
    pub(super) fn error(&self) -> Value {
        json!({ "code": self.status.as_u16(), "message": self.message })
    }
}

impl IntoResponse for E2bFailure {
    fn into_response(self) -> Response {
        (self.status, Json(self.error())).into_response()
    }
}

impl From<Problem> for E2bFailure {
    fn from(problem: Problem) -> Self {
        let (status, message) = problem.into_words();
        Self::new(status, message)
    }
}

impl From<SandboxError> for E2bFailure {
    fn from(error: SandboxError) -> Self {
        let message = error.to_string();
        match error {
            SandboxError::Full { .. } => Self::new(StatusCode::TOO_MANY_REQUESTS, message),
            SandboxError::Closing => Self::new(StatusCode::SERVICE_UNAVAILABLE, message),
            SandboxError::Unknown(_) | SandboxError::NoSnapshot(_) => {
                Self::new(StatusCode::NOT_FOUND, message)
            }
            SandboxError::Snapshot(SnapshotError::TooMany) => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, message)
            }
            SandboxError::Snapshot(SnapshotError::TooLarge | SnapshotError::Name(_)) => {
                Self::new(StatusCode::BAD_REQUEST, message)
            }
            SandboxError::Snapshot(SnapshotError::Failed(_)) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
            // As their proxy says it of a sandbox that does not run.
            SandboxError::Paused(_) => Self::new(
                StatusCode::BAD_GATEWAY,
                format!("the sandbox was not found: {message}"),
            ),
            SandboxError::Invalid(_) => Self::new(StatusCode::BAD_REQUEST, message),
            SandboxError::Failed(failure) => {
                let message = match failure.hint {
                    Some(hint) => format!("{}; {hint}", failure.message),
                    None => failure.message,
                };
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, message)
            }
        }
    }
}

impl From<ContextError> for E2bFailure {
    fn from(error: ContextError) -> Self {
        let status = match &error {
            ContextError::Unknown(_) => StatusCode::NOT_FOUND,
            ContextError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            ContextError::Invalid(_) => StatusCode::BAD_REQUEST,
            ContextError::NoKernel(_) | ContextError::Kernel(_) | ContextError::Refused { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<FileError> for E2bFailure {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::Outside(_) => StatusCode::FORBIDDEN,
            FileError::NotFound(_) => StatusCode::NOT_FOUND,
            FileError::Exists(_) => StatusCode::CONFLICT,
            FileError::Invalid(_) => StatusCode::BAD_REQUEST,
            FileError::Io { error, .. } => match error.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    StatusCode::INSUFFICIENT_STORAGE
                }
                std::io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        };
        Self::new(status, error.to_string())
    }
}

impl From<ProcessError> for E2bFailure {
    fn from(error: ProcessError) -> Self {
        let status = match &error {
            ProcessError::Unknown(_) => StatusCode::NOT_FOUND,
            ProcessError::TooMany => StatusCode::TOO_MANY_REQUESTS,
            ProcessError::Invalid(_) => StatusCode::BAD_REQUEST,
            ProcessError::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
