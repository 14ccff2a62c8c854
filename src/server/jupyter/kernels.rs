//! Lists, starts, interrupts, restarts and ends kernels.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::extract::Path;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::status::time;
use super::{Answer, body, contents};
use crate::app::registry::SharedKernel;

/// A request to start a kernel. `env` is not accepted: the environment is the server's.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    pub(super) name: Option<String>,
    /// The kernel works in this directory, or in this notebook's.
    pub(super) path: Option<String>,
}

/// All running kernels.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let kernels = shared.kernels.list().await;
    let models: Vec<KernelModel> = kernels.iter().map(|it| model(it)).collect();
    Ok(axum::Json(models).into_response())
}

/// Starts a kernel without a session.
pub(super) async fn start(State(shared): State<Arc<Shared>>, bytes: Bytes) -> Answer {
    let kernel = begin(&shared, body(&bytes)?).await?;
    let at = format!("/jupyter/api/kernels/{}", kernel.id);
    let answer = axum::Json(model(&kernel));
    Ok((StatusCode::CREATED, [(LOCATION, at)], answer).into_response())
}

/// Starts the requested kernel in the requested directory.
pub(super) async fn begin(shared: &Shared, wanted: Wanted) -> Result<Arc<SharedKernel>, Problem> {
    let Wanted { name, path } = wanted;
    let name = name.filter(|it| !it.is_empty());
    // A path would start a program of the client's choice.
    if let Some(name) = &name
        && (name.contains('/') || name.starts_with('.'))
    {
        return Err(Problem::forbidden("a kernel is named, not its path")
            .hint("`GET /jupyter/api/kernelspecs` lists them"));
    }
    let directory = directory(shared, path.as_deref().unwrap_or_default())?;
    let started = shared.kernels.start(name.as_deref(), directory).await;
    Ok(started?)
}

/// The directory of a kernel for the notebook or directory at `path`.
fn directory(shared: &Shared, path: &str) -> Result<PathBuf, Problem> {
    let place = contents::place(shared, path)?;
    let mut at = place.as_path();
    // A missing path belongs to its nearest existing parent. A link may not lead out of the root.
    while !at.is_dir() {
        match at.parent() {
            Some(parent) if parent.starts_with(&shared.root) => at = parent,
            _ => return Ok(shared.root.clone()),
        }
    }
    let resolved = at.canonicalize();
    match resolved {
        Ok(resolved) if resolved.starts_with(&shared.root) => Ok(resolved),
        _ => Err(Problem::forbidden(format!(
            "`{path}` is not in the server's directory"
        ))),
    }
}

/// One kernel.
pub(super) async fn get(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let kernel = find(&shared, &id).await?;
    Ok(axum::Json(model(&kernel)).into_response())
}

/// Ends a kernel. A session's kernel ends with its session.
pub(super) async fn end(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    finish(&shared, &id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Ends the kernel `id`.
pub(super) async fn finish(shared: &Shared, id: &str) -> Result<(), Problem> {
    if shared.kernels.end(id).await {
        return Ok(());
    }
    let kernel = find(shared, id).await?;
    let session = kernel.session().map(|it| it.id.clone());
    let session = session.unwrap_or_default();
    Err(
        Problem::forbidden(format!("this kernel belongs to the session {session}")).hint(format!(
            "`DELETE /api/sessions/{session}` ends both; a restart is possible"
        )),
    )
}

/// Interrupts the running code.
pub(super) async fn interrupt(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    find(&shared, &id).await?.interrupt().await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Restarts it.
pub(super) async fn restart(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let kernel = find(&shared, &id).await?;
    kernel.restart().await?;
    Ok(axum::Json(model(&kernel)).into_response())
}

/// The kernel `id`.
pub(super) async fn find(shared: &Shared, id: &str) -> Result<Arc<SharedKernel>, Problem> {
    let kernel = shared.kernels.get(id).await;
    kernel.ok_or_else(|| Problem::not_found(format!("there is no kernel `{id}`")))
}

/// A kernel as clients see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct KernelModel {
    id: String,
    name: String,
    last_activity: Option<String>,
    execution_state: &'static str,
    connections: usize,
}

/// The description of a kernel for clients.
pub(super) fn model(kernel: &SharedKernel) -> KernelModel {
    let activity = kernel.activity();
    KernelModel {
        id: kernel.id.clone(),
        name: kernel.name.clone(),
        last_activity: time(activity.last),
        execution_state: activity.state,
        connections: activity.connections,
    }
}
