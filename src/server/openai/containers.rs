//! `/v1/containers` and their files.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::extract::{Json as Body, Path, Query};
use super::super::files::answer;
use super::super::form_files::{Names, write_form_files};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::listing::{Wanted, page};
use super::{Answer, Refused, unsupported};
use crate::app::containers::{Container, ContainerFile, FileSource, MINUTES, MOST_MINUTES, Reach};

/// What a container is made with.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Create {
    name: String,
    /// How long it is kept without use; default is 20 minutes, `null` is for ever.
    #[serde(default)]
    expires_after: Expiry,
    #[serde(default)]
    file_ids: Vec<String>,
    /// What it may use is said at the start of the server.
    memory_limit: Option<String>,
    network_policy: Option<Value>,
    #[serde(default)]
    skills: Vec<Value>,
}

/// When a container is gone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Expiry {
    After {
        minutes: u32,
    },
    Never(()),
    #[default]
    #[serde(skip)]
    Usual,
}

/// Creates a container.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Body(wanted): Body<Create>,
) -> Answer {
    if !wanted.skills.is_empty() {
        return Err(unsupported("`skills`"));
    }
    let reach = reach_of(wanted.network_policy.as_ref())?;
    let minutes = match wanted.expires_after {
        Expiry::Usual => Some(MINUTES),
        Expiry::Never(()) => None,
        Expiry::After { minutes } if (1..=MOST_MINUTES).contains(&minutes) => Some(minutes),
        Expiry::After { .. } => {
            let message = format!("expires_after.minutes is 1 to {MOST_MINUTES}");
            return Err(Problem::bad_request(message).into());
        }
    };
    // The kernel's limits are those of the server.
    drop(wanted.memory_limit);
    let containers = &shared.openai.containers;
    for file in &wanted.file_ids {
        containers.stored_file(file).await?;
    }
    let made = containers.create_with(&wanted.name, minutes, reach);
    let container = made.await?;
    for file in &wanted.file_ids {
        containers.bring_stored(&container.id, file).await?;
    }
    Ok(Json(object(&container)).into_response())
}

/// The network for code: whatever the server permits or less, never more.
pub(super) fn reach_of(policy: Option<&Value>) -> Result<Reach, Refused> {
    let Some(policy) = policy.filter(|it| !it.is_null()) else {
        return Ok(Reach::Permitted);
    };
    match policy.get("type").and_then(Value::as_str) {
        Some("disabled") => Ok(Reach::Nothing),
        Some("allowlist") => {
            let problem = Problem::bad_request("a program cannot open the network for its code");
            Err(problem
                .hint("start the server with `--network allow:HOST,..`")
                .into())
        }
        _ => Err(Problem::bad_request("`network_policy` has no type that is known").into()),
    }
}

/// All containers.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let all = shared.openai.containers.list().await?;
    Ok(Json(page(all.iter().map(object).collect(), &wanted)?).into_response())
}

/// One container.
pub(super) async fn retrieve(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let container = shared.openai.containers.get(&id).await?;
    Ok(Json(object(&container)).into_response())
}

/// Deletes a container.
pub(super) async fn delete(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    shared.openai.containers.delete(&id).await?;
    let deleted = json!({ "id": id, "object": "container.deleted", "deleted": true });
    Ok(Json(deleted).into_response())
}

/// The files of a container, latest first.
pub(super) async fn files(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let mut files = shared.openai.containers.files(&id).await?;
    files.sort_by(|a, b| b.changed.cmp(&a.changed).then_with(|| b.path.cmp(&a.path)));
    Ok(Json(page(files.iter().map(file_object).collect(), &wanted)?).into_response())
}

/// Takes a file.
pub(super) async fn upload(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    // Checked before its bytes are read.
    shared.openai.containers.get(&id).await?;
    let containers = &shared.openai.containers;
    let mut files = write_form_files(containers, &id, request, Names::Bare, 1).await?;
    let (_, file) = files.pop().ok_or_else(|| {
        Problem::bad_request("the form has no file")
            .hint("send it as multipart/form-data in the field `file`; `file_id` is not supported")
    })?;
    Ok(Json(file_object(&file?)).into_response())
}

/// A file's metadata.
pub(super) async fn file(
    State(shared): State<Arc<Shared>>,
    Path((id, file)): Path<(String, String)>,
) -> Answer {
    let file = shared.openai.containers.file(&id, &file).await?;
    Ok(Json(file_object(&file)).into_response())
}

/// A file's bytes.
pub(super) async fn content(
    State(shared): State<Arc<Shared>>,
    Path((id, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let file = shared.openai.containers.file(&id, &file).await?;
    Ok(answer(file.place, &file.path, &headers).await?)
}

/// Deletes a file.
pub(super) async fn delete_file(
    State(shared): State<Arc<Shared>>,
    Path((id, file)): Path<(String, String)>,
) -> Answer {
    shared.openai.containers.delete_file(&id, &file).await?;
    let deleted = json!({ "id": file, "object": "container.file.deleted", "deleted": true });
    Ok(Json(deleted).into_response())
}

fn object(container: &Container) -> Value {
    let expires = container
        .minutes
        .map(|minutes| json!({ "anchor": "last_active_at", "minutes": minutes }));
    json!({
        "id": container.id,
        "object": "container",
        "created_at": container.created,
        "status": "running",
        "expires_after": expires,
        "last_active_at": container.used,
        "name": container.name,
    })
}

fn file_object(file: &ContainerFile) -> Value {
    json!({
        "id": file.id,
        "object": "container.file",
        "created_at": file.changed,
        "bytes": file.bytes,
        "container_id": file.container,
        "path": file.place,
        "source": match file.source {
            FileSource::Program => "user",
            FileSource::Code => "assistant",
        },
    })
}
