//! Errors for clients: `{"error": {"message", "hint", "reason", "by"}}` with a status.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::store::OpenError;
use crate::agent::stream::Rejection;
use crate::app::containers::ContainerError;
use crate::app::executor::{ExecutorError, FileError};
use crate::app::forks::ForkError;
use crate::app::registry::{EndedSession, RegistryError};
use crate::error::{Failure, FailureKind};

/// Why a request failed.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    error: ErrorBody,
}

/// An answer that is no success.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ErrorAnswer {
    error: ErrorBody,
}

/// The same as Jupyter's clients read it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JupyterError {
    message: String,
    reason: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ErrorBody {
    /// For people.
    message: String,
    /// What can be done about it.
    hint: Option<String>,
    /// For programs.
    reason: &'static str,
    /// The client that was first, or that ended the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
}

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            status,
            error: ErrorBody {
                message: message.into(),
                hint: None,
                reason,
                by: None,
            },
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.error.hint = Some(hint.into());
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(super) fn no_session(id: &str) -> Self {
        Self::not_found(format!("no session `{id}` runs here")).hint(
            "`GET /api/sessions` lists those that run and those that can be resumed with `POST /api/sessions`",
        )
    }

    /// A session that ended while the server keeps running: it is only resumed if a person wants it.
    pub(super) fn ended(session: EndedSession) -> Self {
        let message = match &session.by {
            Some(by) => format!("{by} ended the session"),
            None => "the session has ended".to_owned(),
        };
        let mut problem = Self::new(StatusCode::GONE, "ended", message)
            .hint("`POST /api/sessions` with `resume` continues it");
        problem.error.by = session.by;
        problem
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }
}

impl Problem {
    /// The status and the text for a person.
    pub(super) fn into_words(self) -> (StatusCode, String) {
        let message = match self.error.hint {
            Some(hint) => format!("{}; {hint}", self.error.message),
            None => self.error.message,
        };
        (self.status, message)
    }

    /// In the format of Jupyter's clients.
    pub(super) fn into_jupyter(self) -> Response {
        let message = self.words();
        let reason = self.error.reason;
        (self.status, Json(JupyterError { message, reason })).into_response()
    }
}

impl Problem {
    /// In the format of OpenAI's clients, with their fields. They do not retry requests that would be rejected again.
    pub(super) fn into_openai(self) -> Response {
        let said = self.words();
        let Self { status, error } = self;
        let ErrorBody { hint, reason, .. } = error;
        let kind = if status.is_server_error() {
            "server_error"
        } else {
            "invalid_request_error"
        };
        let body = serde_json::json!({ "error": {
            "message": said,
            "type": kind,
            "param": null,
            "code": reason,
            "hint": hint,
            "reason": reason,
        }});
        let again = status == StatusCode::SERVICE_UNAVAILABLE;
        let retry = [("x-should-retry", if again { "true" } else { "false" })];
        (status, retry, Json(body)).into_response()
    }
}

impl Problem {
    /// In the format of clients of LibreChat's Code API.
    pub(super) fn into_codeapi(self) -> Response {
        let ErrorBody { message, hint, .. } = self.error;
        let body = serde_json::json!({ "error": message, "details": hint });
        (self.status, Json(body)).into_response()
    }

    /// On one line.
    pub(super) fn words(&self) -> String {
        match &self.error.hint {
            Some(hint) => format!("{}; {hint}", self.error.message),
            None => self.error.message.clone(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorAnswer { error: self.error })).into_response()
    }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let reason = match &rejection {
            Rejection::Busy => "busy",
            Rejection::Restoring => "restoring",
            Rejection::AlreadyAnswered { .. } => "already_answered",
            Rejection::NotWaiting => "not_waiting",
            Rejection::Ended => "ended",
        };
        let mut problem = Self::new(StatusCode::CONFLICT, reason, rejection.to_string());
        if let Rejection::AlreadyAnswered { by } = rejection {
            problem.error.by = Some(by);
        }
        problem
    }
}

impl From<RegistryError> for Problem {
    fn from(error: RegistryError) -> Self {
        let message = error.to_string();
        match error {
            RegistryError::Full { .. } => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_sessions", message)
                    .hint("end one with `DELETE /api/sessions/{id}`, or start the server with a larger --max-sessions")
            }
            RegistryError::Closing => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "closing", message)
            }
            RegistryError::Unknown(_) => Self::not_found(message),
            RegistryError::NotOpened(error) => error.into(),
            RegistryError::Failed(failure) => failure.into(),
        }
    }
}

impl From<ExecutorError> for Problem {
    fn from(error: ExecutorError) -> Self {
        let (message, hint) = (error.to_string(), error.hint());
        let (status, reason) = match error {
            ExecutorError::NotOpened(error) => return error.into(),
            ExecutorError::Rejected(rejection) => return rejection.into(),
            ExecutorError::Name(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            ExecutorError::Taken(_) => (StatusCode::CONFLICT, "taken"),
            ExecutorError::TooMany => (StatusCode::SERVICE_UNAVAILABLE, "too_many_sessions"),
            ExecutorError::Unknown { .. } => (StatusCode::NOT_FOUND, "not_found"),
            ExecutorError::Model { .. } => (StatusCode::NOT_FOUND, "model_not_found"),
            ExecutorError::Busy { .. } => (StatusCode::CONFLICT, "busy"),
        };
        let mut problem = Self::new(status, reason, message);
        problem.error.hint = hint;
        problem
    }
}

impl From<ContainerError> for Problem {
    fn from(error: ContainerError) -> Self {
        let message = error.to_string();
        let (status, reason) = match error {
            ContainerError::Session(error) => return error.into(),
            ContainerError::Unknown(_)
            | ContainerError::UnknownFile { .. }
            | ContainerError::UnknownStored(_) => (StatusCode::NOT_FOUND, "not_found"),
            ContainerError::TooManyFiles(_) => {
                return Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_files", message)
                    .hint("delete some with `DELETE /v1/files/{id}`");
            }
            ContainerError::FileName(_) => (StatusCode::BAD_REQUEST, "bad_request"),
            ContainerError::TooMany(_) => {
                return Self::new(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "too_many_containers",
                    message,
                )
                .hint("delete some with `DELETE /v1/containers/{id}`");
            }
            ContainerError::Io { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        Self::new(status, reason, message)
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        use std::io::ErrorKind as Kind;
        let (message, hint) = (error.to_string(), error.hint());
        let (status, reason) = match &error {
            FileError::Outside(_) => (StatusCode::FORBIDDEN, "outside"),
            FileError::Protected(_) | FileError::ReadOnly => (StatusCode::FORBIDDEN, "forbidden"),
            FileError::Io { error, .. } => match error.kind() {
                Kind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
                Kind::FileTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
                _ => (StatusCode::BAD_REQUEST, "failed"),
            },
        };
        let mut problem = Self::new(status, reason, message);
        problem.error.hint = hint.map(str::to_owned);
        problem
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        let message = error.to_string();
        match error {
            OpenError::Taken { .. } => Self::new(StatusCode::CONFLICT, "taken", message)
                .hint("a session can be used by one process at a time"),
            OpenError::NoJournal(_) => Self::not_found(message),
            OpenError::Newer { .. } | OpenError::Io { .. } => Self::internal(message),
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::NotOpened(error) => error.into(),
            ForkError::NoCell { .. } => Self::not_found(error.to_string())
                .hint("name a cell of the session by its id, or by its number from 1"),
        }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let (status, reason) = match failure.kind {
            FailureKind::Usage => (StatusCode::BAD_REQUEST, "bad_request"),
            FailureKind::Kernel => (StatusCode::SERVICE_UNAVAILABLE, "kernel"),
            FailureKind::Provider => (StatusCode::SERVICE_UNAVAILABLE, "model"),
            FailureKind::OutputClosed
            | FailureKind::Failed
            | FailureKind::Approval
            | FailureKind::Interrupted
            | FailureKind::Script(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        };
        let mut problem = Self::new(status, reason, failure.message);
        problem.error.hint = failure.hint;
        problem
    }
}

/// There is no such route.
pub(super) async fn no_route() -> Problem {
    Problem::not_found("there is no such route").hint("see `/openapi.json`")
}

/// The route does not support this method.
pub(super) async fn no_method() -> Problem {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method",
        "this route does not know this method",
    )
    .hint("see `/openapi.json`")
}
