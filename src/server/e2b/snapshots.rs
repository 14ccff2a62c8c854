//! Snapshots and forks: files of a sandbox with which others begin.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::control::{lifetime, made};
use super::failure::E2bFailure;
use super::parsed;
use crate::app::sandboxes::SnapshotInfo;
use crate::server::extract::{Path, Query};
use crate::server::state::Shared;

/// How long a fork lives if nobody says it.
const LIFETIME: u64 = 15;
/// Snapshots of a page at most.
const PAGE: usize = 100;

/// `SandboxForkRequest`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Fork {
    count: Option<usize>,
    timeout: Option<u64>,
}

/// `SandboxSnapshotRequest`. Kernels begin anew in any case, so `memory` says nothing.
#[derive(Deserialize, Default)]
#[serde(default)]
struct New {
    name: Option<String>,
}

/// Which are listed.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Wanted {
    #[serde(rename = "sandboxID")]
    sandbox: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

/// Sandboxes that begin with the files of one, each with its own success or failure.
pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, E2bFailure> {
    let wanted: Fork = parsed(request).await?;
    let lives = lifetime(Some(wanted.timeout.unwrap_or(LIFETIME)))?;
    let sandboxes = &shared.e2b.sandboxes;
    let forks = sandboxes.fork(&id, wanted.count.unwrap_or(1), lives);
    let forks = forks.await?.into_iter().map(|fork| match fork {
        Ok(sandbox) => json!({ "sandbox": made(&sandbox) }),
        Err(error) => json!({ "error": E2bFailure::from(error).error() }),
    });
    let forks: Vec<Value> = forks.collect();
    Ok((StatusCode::CREATED, Json(forks)).into_response())
}

/// Keeps the files of a sandbox.
pub(super) async fn make(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, E2bFailure> {
    let wanted: New = parsed(request).await?;
    let made = shared.e2b.sandboxes.snapshot(&id, wanted.name).await?;
    Ok((StatusCode::CREATED, Json(shown(&made))).into_response())
}

/// The snapshots, a page at a time; `x-next-token` says how it goes on.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let mut all = shared.e2b.sandboxes.snapshots();
    all.retain(|it| wanted.has(it));
    let limit = wanted.limit.unwrap_or(PAGE).clamp(1, PAGE);
    let more = all.len() > limit;
    all.truncate(limit);
    let shown: Vec<Value> = all.iter().map(shown).collect();
    let mut response = Json(shown).into_response();
    let last = all.last().filter(|_| more);
    if let Some(token) = last.and_then(|it| it.id.parse().ok()) {
        response.headers_mut().insert("x-next-token", token);
    }
    response
}

/// Removes a snapshot.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<StatusCode, E2bFailure> {
    if shared.e2b.sandboxes.delete_snapshot(&id).await {
        return Ok(StatusCode::NO_CONTENT);
    }
    let message = format!("there is no snapshot `{id}`");
    Err(E2bFailure::new(StatusCode::NOT_FOUND, message))
}

impl Wanted {
    fn has(&self, snapshot: &SnapshotInfo) -> bool {
        let is_named = |name: &String| {
            let own = snapshot.name.as_ref();
            own == Some(name) || *name == snapshot.id
        };
        self.sandbox.as_ref().is_none_or(|it| *it == snapshot.of)
            && self.name.as_ref().is_none_or(is_named)
            && self.next_token.as_ref().is_none_or(|it| snapshot.id > *it)
    }
}

fn shown(snapshot: &SnapshotInfo) -> Value {
    let names: Vec<&String> = snapshot.name.iter().map(|_| &snapshot.id).collect();
    json!({ "snapshotID": snapshot.id, "names": names })
}
