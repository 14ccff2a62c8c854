//! Jupyter's sessions: which notebook uses which kernel. Each Sponde session is also one of them.

use std::path::Path as FilePath;
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
use super::kernels::KernelModel;
use super::state::Entry;
use super::{Answer, body, kernels, lock};
use crate::app::registry::SharedKernel;

/// How many sessions are remembered.
const SESSIONS: usize = 1000;

/// A request to create or change a session.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wanted {
    path: Option<String>,
    name: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    kernel: Option<WantedKernel>,
}

#[derive(Debug, Default, Deserialize)]
struct WantedKernel {
    id: Option<String>,
    name: Option<String>,
}

/// All sessions with a running kernel.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let kernels = shared.kernels.list().await;
    let known: Vec<(String, Entry)> = {
        let mut sessions = lock(&shared.jupyter.sessions);
        sessions.retain(|_, entry| kernels.iter().any(|it| it.id == entry.kernel));
        let known = sessions.iter();
        known.map(|(id, it)| (id.clone(), it.clone())).collect()
    };
    let of = |entry: &Entry| kernels.iter().find(|it| it.id == entry.kernel);
    let mut models: Vec<SessionModel> = known
        .iter()
        .filter_map(|(id, entry)| Some(model(id, entry, of(entry)?)))
        .collect();
    // A Sponde session is listed whether or not a front end has its notebook open.
    let own = kernels
        .iter()
        .filter_map(|it| Some((it, own(&shared, it)?)));
    let taken = |kernel: &SharedKernel| known.iter().any(|(_, entry)| entry.kernel == kernel.id);
    models.extend(
        own.filter(|(kernel, _)| !taken(kernel))
            .map(|(kernel, entry)| model(&kernel.id, &entry, kernel)),
    );
    Ok(axum::Json(models).into_response())
}

/// The kernel for a notebook: the one that it already has, the named one, or a new one.
pub(super) async fn create(State(shared): State<Arc<Shared>>, bytes: Bytes) -> Answer {
    let wanted: Wanted = body(&bytes)?;
    let path = wanted.path.unwrap_or_default();
    if let Some((id, entry, kernel)) = of_path(&shared, &path).await {
        return Ok(created(&id, &entry, &kernel));
    }
    let known = wanted.kernel.unwrap_or_default();
    let kernel = if let Some(id) = known.id.filter(|it| !it.is_empty()) {
        kernels::find(&shared, &id).await?
    } else {
        let wanted = kernels::Wanted {
            name: known.name,
            path: Some(path.clone()),
        };
        kernels::begin(&shared, wanted).await?
    };
    let entry = Entry {
        path,
        name: wanted.name.unwrap_or_default(),
        kind: wanted.kind.unwrap_or_else(|| "notebook".to_owned()),
        kernel: kernel.id.clone(),
    };
    let id = uuid::Uuid::new_v4().to_string();
    let mut sessions = lock(&shared.jupyter.sessions);
    if sessions.len() >= SESSIONS {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_sessions",
            "too many notebooks use kernels here",
        )
        .into());
    }
    sessions.insert(id.clone(), entry.clone());
    Ok(created(&id, &entry, &kernel))
}

fn created(id: &str, entry: &Entry, kernel: &SharedKernel) -> axum::response::Response {
    let at = [(LOCATION, format!("/jupyter/api/sessions/{id}"))];
    let answer = axum::Json(model(id, entry, kernel));
    (StatusCode::CREATED, at, answer).into_response()
}

/// The session of the notebook at `path`, if it has a kernel.
async fn of_path(shared: &Shared, path: &str) -> Option<(String, Entry, Arc<SharedKernel>)> {
    let known = {
        let sessions = lock(&shared.jupyter.sessions);
        let mut sessions = sessions.iter();
        let found = sessions.find(|(_, it)| it.path == path && !path.is_empty());
        found.map(|(id, it)| (id.clone(), it.clone()))
    };
    if let Some((id, entry)) = known
        && let Some(kernel) = shared.kernels.get(&entry.kernel).await
    {
        return Some((id, entry, kernel));
    }
    let kernels = shared.kernels.list().await;
    kernels.into_iter().find_map(|kernel| {
        let entry = own(shared, &kernel).filter(|it| it.path == path)?;
        Some((kernel.id.clone(), entry, kernel))
    })
}

/// One session.
pub(super) async fn get(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let (entry, kernel) = find(&shared, &id).await?;
    Ok(axum::Json(model(&id, &entry, &kernel)).into_response())
}

async fn find(shared: &Shared, id: &str) -> Result<(Entry, Arc<SharedKernel>), Problem> {
    let missing = || Problem::not_found(format!("there is no session `{id}`"));
    let known = lock(&shared.jupyter.sessions).get(id).cloned();
    if let Some(entry) = known {
        let kernel = shared.kernels.get(&entry.kernel).await;
        return Ok((entry, kernel.ok_or_else(missing)?));
    }
    let kernel = shared.kernels.get(id).await.ok_or_else(missing)?;
    let entry = own(shared, &kernel).ok_or_else(missing)?;
    Ok((entry, kernel))
}

/// Renames a session, or gives it another kernel.
pub(super) async fn change(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    bytes: Bytes,
) -> Answer {
    let wanted: Wanted = body(&bytes)?;
    let (mut entry, mut kernel) = find(&shared, &id).await?;
    entry.path = wanted.path.unwrap_or(entry.path);
    entry.name = wanted.name.unwrap_or(entry.name);
    entry.kind = wanted.kind.unwrap_or(entry.kind);
    if let Some(other) = wanted.kernel {
        let before = Arc::clone(&kernel);
        kernel = if let Some(other) = other.id.filter(|it| !it.is_empty()) {
            kernels::find(&shared, &other).await?
        } else {
            let wanted = kernels::Wanted {
                name: other.name,
                path: Some(entry.path.clone()),
            };
            kernels::begin(&shared, wanted).await?
        };
        // Ends the front end's own kernel for this notebook, unless another notebook uses it too; a Sponde session's
        // kernel keeps running.
        let is_used = lock(&shared.jupyter.sessions)
            .iter()
            .any(|(other, entry)| *other != id && entry.kernel == before.id);
        if before.id != kernel.id && !is_used {
            shared.kernels.end(&before.id).await;
        }
    }
    entry.kernel.clone_from(&kernel.id);
    lock(&shared.jupyter.sessions).insert(id.clone(), entry.clone());
    Ok(axum::Json(model(&id, &entry, &kernel)).into_response())
}

/// Ends a session, and its kernel unless that belongs to a Sponde session.
pub(super) async fn end(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let (_, kernel) = find(&shared, &id).await?;
    let was_known = lock(&shared.jupyter.sessions).remove(&id).is_some();
    if kernel.session().is_none() || !was_known {
        kernels::finish(&shared, &kernel.id).await?;
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A Sponde session, in the form that a front end would have created for its notebook.
fn own(shared: &Shared, kernel: &SharedKernel) -> Option<Entry> {
    let session = kernel.session()?;
    let is_main = session.kernels.first().map(|it| &it.kernel) == Some(&kernel.name);
    let below = session.notebook.strip_prefix(&shared.root);
    let path = match below {
        Ok(path) => path.to_string_lossy().into_owned(),
        // Its notebook is stored elsewhere, and cannot be opened with this path.
        Err(_) => format!("{}.ipynb", session.id),
    };
    let name = FilePath::new(&path).file_name();
    let name = name.map(|it| it.to_string_lossy().into_owned());
    is_main.then(|| Entry {
        name: name.unwrap_or_default(),
        path,
        kind: "notebook".to_owned(),
        kernel: kernel.id.clone(),
    })
}

/// A session as clients see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionModel {
    id: String,
    path: String,
    name: String,
    #[serde(rename = "type")]
    kind: String,
    kernel: KernelModel,
    notebook: NotebookModel,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NotebookModel {
    path: String,
    name: String,
}

fn model(id: &str, entry: &Entry, kernel: &SharedKernel) -> SessionModel {
    SessionModel {
        id: id.to_owned(),
        path: entry.path.clone(),
        name: entry.name.clone(),
        kind: entry.kind.clone(),
        kernel: kernels::model(kernel),
        notebook: NotebookModel {
            path: entry.path.clone(),
            name: entry.name.clone(),
        },
    }
}
