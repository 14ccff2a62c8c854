//! E2B's API below `/e2b`, so that its SDKs work here (`docs/e2b.md`, ADR 0031): the control plane, code, files and
//! commands.
//!
//! Headers name the sandbox of a request. Only [`admit`] authorizes such requests and finds the sandbox.

mod admit;
mod code;
mod control;
mod failure;
mod files;
mod filesystem;
mod frame;
mod line;
mod listing;
mod missing;
mod ports;
mod process;
mod snapshots;
pub(super) mod state;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest as _, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{delete, get, post};
use serde::de::DeserializeOwned;

use super::operation::{Add, operation};
use crate::app::sandboxes::ProgramSandbox;
pub(super) use admit::{admit, is_at, knows};
use failure::E2bFailure;
pub(super) use ports::refuse_port;

/// How long a body may take to arrive.
const WITHIN: Duration = Duration::from_mins(1);
/// The version of E2B's sandbox daemon that we emulate.
const ENVD: &str = "0.6.4";
/// Adds the routes.
pub(super) fn routes(add: &mut Add<'_>) {
    let json = |method, summary| operation(method, summary).bytes("application/json");
    for path in ["/e2b/sandboxes", "/e2b/v2/sandboxes"] {
        add(
            path,
            get(listing::list).post(control::create),
            vec![
                json("get", "E2B: the sandboxes (docs/e2b.md)"),
                json("post", "E2B: create a sandbox"),
            ],
        );
    }
    add(
        "/e2b/sandboxes/{id}",
        get(control::detail).delete(control::kill),
        vec![
            json("get", "E2B: a sandbox"),
            operation("delete", "E2B: end a sandbox"),
        ],
    );
    for path in [
        "/e2b/sandboxes/{id}/connect",
        "/e2b/v2/sandboxes/{id}/connect",
    ] {
        add(
            path,
            post(control::connect),
            vec![json("post", "E2B: use a sandbox, also a paused one")],
        );
    }
    add(
        "/e2b/sandboxes/{id}/resume",
        post(control::connect),
        vec![json("post", "E2B: have a paused sandbox go on")],
    );
    add(
        "/e2b/sandboxes/{id}/pause",
        post(control::pause),
        vec![operation(
            "post",
            "E2B: stop a sandbox and everything in it",
        )],
    );
    add(
        "/e2b/sandboxes/{id}/timeout",
        post(control::timeout),
        vec![operation("post", "E2B: when a sandbox ends")],
    );
    add(
        "/e2b/sandboxes/{id}/refreshes",
        post(control::refresh),
        vec![operation("post", "E2B: a sandbox ends later")],
    );
    add(
        "/e2b/sandboxes/{id}/metrics",
        get(control::metrics),
        vec![json("get", "E2B: what a sandbox takes")],
    );
    add(
        "/e2b/sandboxes/{id}/fork",
        post(snapshots::fork),
        vec![json(
            "post",
            "E2B: sandboxes that begin with the files of one",
        )],
    );
    add(
        "/e2b/sandboxes/{id}/snapshots",
        post(snapshots::make),
        vec![json("post", "E2B: keep the files of a sandbox")],
    );
    add(
        "/e2b/snapshots",
        get(snapshots::list),
        vec![json("get", "E2B: the snapshots")],
    );
    add(
        "/e2b/templates/{id}",
        delete(snapshots::remove).fallback(missing::route),
        vec![operation("delete", "E2B: remove a snapshot")],
    );
    in_sandbox(add);
}

/// The routes for requests with a sandbox's headers.
fn in_sandbox(add: &mut Add<'_>) {
    let json = |method, summary| operation(method, summary).bytes("application/json");
    add(
        "/e2b/health",
        get(code::health),
        vec![json("get", "E2B: whether a sandbox runs")],
    );
    add(
        "/e2b/execute",
        post(code::execute),
        vec![
            operation("post", "E2B: run code; lines of JSON while it runs")
                .bytes("application/x-ndjson"),
        ],
    );
    add(
        "/e2b/contexts",
        get(code::contexts).post(code::new_context),
        vec![
            json("get", "E2B: the contexts of a sandbox"),
            json("post", "E2B: a new context"),
        ],
    );
    add(
        "/e2b/contexts/{id}",
        delete(code::remove_context),
        vec![json("delete", "E2B: end a context")],
    );
    add(
        "/e2b/contexts/{id}/restart",
        post(code::restart_context),
        vec![json("post", "E2B: restart a context's kernel")],
    );
    add(
        "/e2b/envs",
        get(control::variables),
        vec![json("get", "E2B: environment variables of a sandbox")],
    );
    for path in ["/e2b/files", "/files"] {
        add(
            path,
            get(files::download)
                .post(files::upload)
                .layer(DefaultBodyLimit::disable()),
            vec![
                operation("get", "E2B: a file of a sandbox").bytes("*/*"),
                json("post", "E2B: write files of a sandbox"),
            ],
        );
    }
    add(
        "/e2b/filesystem.Filesystem/{method}",
        post(filesystem::call),
        vec![json("post", "E2B: directories of a sandbox (Connect)")],
    );
    add(
        "/e2b/process.Process/{method}",
        post(process::call),
        vec![json("post", "E2B: commands of a sandbox (Connect)")],
    );
    add(
        "/e2b/{*rest}",
        get(missing::route)
            .post(missing::route)
            .put(missing::route)
            .patch(missing::route)
            .delete(missing::route),
        vec![json("get", "E2B: what needs a virtual machine; it says so")],
    );
}

/// The sandbox of a request, found by [`admit`]; it must be running.
struct InSandbox(Arc<ProgramSandbox>);

impl<S: Send + Sync> FromRequestParts<S> for InSandbox {
    type Rejection = E2bFailure;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, E2bFailure> {
        let found = parts.extensions.get::<Arc<ProgramSandbox>>().cloned();
        let sandbox = found.ok_or_else(|| {
            E2bFailure::new(
                StatusCode::BAD_REQUEST,
                "the request does not say which sandbox is meant: send `E2b-Sandbox-Id`",
            )
        })?;
        sandbox.running()?;
        Ok(Self(sandbox))
    }
}

/// Reads a body within the time limit.
async fn body(request: Request) -> Result<Bytes, E2bFailure> {
    match tokio::time::timeout(WITHIN, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(rejection)) => Err(E2bFailure::new(rejection.status(), rejection.body_text())),
        Err(_) => Err(E2bFailure::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )),
    }
}

/// Parses a JSON body; an empty one counts as an empty object.
async fn parsed<T: DeserializeOwned>(request: Request) -> Result<T, E2bFailure> {
    let body = body(request).await?;
    parse(&body)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, E2bFailure> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| {
        E2bFailure::new(
            StatusCode::BAD_REQUEST,
            format!("not the JSON that is needed: {error}"),
        )
    })
}
