//! Code and contexts: what E2B's code interpreter has at its port.

use std::io;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::failure::E2bFailure;
use super::{InSandbox, line, parsed};
use crate::app::sandboxes::{CodeRun, ContextInfo};
use crate::server::extract::Path;

/// After so much silence there is a line that says nothing.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// The port of their daemon, which answers differently.
const ENVD_PORT: &str = "49983";

/// What `POST /execute` takes.
#[derive(Deserialize)]
struct Wanted {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<std::collections::BTreeMap<String, String>>,
}

/// What `POST /contexts` takes.
#[derive(Deserialize)]
struct New {
    language: Option<String>,
    cwd: Option<String>,
}

/// Whether the sandbox runs, as the code interpreter or their daemon says it.
pub(super) async fn health(InSandbox(_): InSandbox, request: Request) -> Response {
    let port = request.headers().get("e2b-sandbox-port");
    if port.is_some_and(|port| port == ENVD_PORT) {
        return StatusCode::NO_CONTENT.into_response();
    }
    Json("OK").into_response()
}

/// Runs code. Who closes the connection has interrupted it.
pub(super) async fn execute(InSandbox(sandbox): InSandbox, request: Request) -> Response {
    let started = async {
        let wanted: Wanted = parsed(request).await?;
        let context = match (&wanted.context_id, &wanted.language) {
            (Some(_), Some(_)) => {
                return Err(E2bFailure::new(
                    StatusCode::BAD_REQUEST,
                    "Only one of context_id or language can be provided",
                ));
            }
            (Some(id), None) => sandbox.context(id)?,
            (None, language) => sandbox.of_language(language.as_deref())?,
        };
        let variables = wanted.env_vars.unwrap_or_default().into_iter().collect();
        Ok(context.run(wanted.code, variables)?)
    };
    match started.await {
        Ok(run) => {
            let body = Body::from_stream(lines(run, sandbox.ended().clone()));
            ([(CONTENT_TYPE, "application/x-ndjson")], body).into_response()
        }
        Err(failure) => failure.into_text(),
    }
}

/// What code does, line by line. When its sandbox ends the connection is cut, which is how clients see it.
fn lines(
    run: CodeRun,
    ended: CancellationToken,
) -> impl futures_util::Stream<Item = io::Result<Bytes>> + Send {
    futures_util::stream::unfold(Some((run, ended)), |running| async {
        let (mut run, ended) = running?;
        let event = tokio::select! {
            biased;
            () = ended.cancelled() => {
                let error = io::Error::new(io::ErrorKind::ConnectionAborted, "the sandbox has ended");
                return Some((Err(error), None));
            }
            event = tokio::time::timeout(KEEPALIVE, run.next()) => event,
        };
        Some(match event {
            Err(_) => (Ok(line::keepalive()), Some((run, ended))),
            Ok(Some(event)) => (Ok(line::of(event, SystemTime::now())), Some((run, ended))),
            Ok(None) => (Ok(line::end()), None),
        })
    })
}

fn shown(context: &ContextInfo) -> Value {
    json!({ "id": context.id, "language": context.language, "cwd": context.cwd })
}

/// The contexts, those that were there at the beginning first.
pub(super) async fn contexts(InSandbox(sandbox): InSandbox) -> Json<Vec<Value>> {
    Json(sandbox.contexts().iter().map(shown).collect())
}

/// A new context.
pub(super) async fn new_context(InSandbox(sandbox): InSandbox, request: Request) -> Response {
    let made = async {
        let new: New = parsed(request).await?;
        let cwd = new.cwd.filter(|it| !it.is_empty());
        Ok::<_, E2bFailure>(sandbox.new_context(new.language.as_deref(), cwd).await?)
    };
    match made.await {
        Ok(context) => Json(shown(&context.info())).into_response(),
        Err(failure) => failure.into_text(),
    }
}

/// Ends a context.
pub(super) async fn remove_context(
    InSandbox(sandbox): InSandbox,
    Path(id): Path<String>,
) -> Response {
    match sandbox.remove_context(&id).await {
        Ok(()) => Json(Value::Null).into_response(),
        Err(error) => E2bFailure::from(error).into_text(),
    }
}

/// Starts a context's kernel anew.
pub(super) async fn restart_context(
    InSandbox(sandbox): InSandbox,
    Path(id): Path<String>,
) -> Response {
    let restarted = async { sandbox.context(&id)?.restart().await };
    match restarted.await {
        Ok(()) => Json(Value::Null).into_response(),
        Err(error) => E2bFailure::from(error).into_text(),
    }
}
