//! Uploads and downloads: each upload has its own container.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::download::mime_of;
use super::super::extract::{Path, Query};
use super::super::files::answer;
use super::super::form_files::{Names, Taken, write_form_files};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::ids::{container_of, file_of, session_of};
use super::{Answer, KEPT, Refused, no_file};
use crate::app::containers::ContainerFile;

/// Maximum files of one upload.
const FILES: usize = 200;

/// How much is told of each file.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Wanted {
    /// `simple`, `summary`, `full` or `normalized`.
    #[serde(default)]
    detail: String,
}

/// Stores the files of a form in a new container. Returns its id, and the result for each file.
async fn take(shared: &Shared, request: Request) -> Result<(String, Taken), Refused> {
    let containers = &shared.codeapi.containers;
    let made = containers.create("upload", Some(KEPT)).await?;
    let taken = write_form_files(containers, &made.id, request, Names::Paths, FILES).await;
    let is_empty = taken
        .as_ref()
        .is_ok_and(|taken| taken.iter().all(|(_, file)| file.is_err()));
    if taken.is_err() || is_empty {
        containers.delete(&made.id).await?;
    }
    let taken = taken?;
    if taken.is_empty() {
        let problem = Problem::bad_request("No files provided");
        return Err(problem
            .hint("send files in a form, as multipart/form-data")
            .into());
    }
    Ok((session_of(&made.id), taken))
}

/// Takes a file.
pub(super) async fn upload(State(shared): State<Arc<Shared>>, request: Request) -> Answer {
    let (session, taken) = take(&shared, request).await?;
    let mut files = Vec::new();
    for (name, file) in taken {
        files.push(json!({ "fileId": file_of(&file?.id), "filename": name }));
    }
    Ok(Json(json!({
        "message": "success",
        "storage_session_id": session,
        // The name of this field until 2026.
        "session_id": session,
        "files": files,
    }))
    .into_response())
}

/// Takes as many of the files as possible.
pub(super) async fn upload_batch(State(shared): State<Arc<Shared>>, request: Request) -> Answer {
    let (session, taken) = take(&shared, request).await?;
    let all = taken.len();
    let failed = taken.iter().filter(|(_, file)| file.is_err()).count();
    let told = |(name, file): (String, Result<ContainerFile, Problem>)| match file {
        Ok(file) => json!({ "status": "success", "filename": name, "fileId": file_of(&file.id) }),
        Err(problem) => json!({ "status": "error", "filename": name, "error": problem.words() }),
    };
    let (message, status) = match failed {
        0 => ("success", StatusCode::OK),
        failed if failed == all => ("error", StatusCode::BAD_REQUEST),
        _ => ("partial_success", StatusCode::OK),
    };
    let body = json!({
        "message": message,
        "storage_session_id": session,
        "session_id": session,
        "files": taken.into_iter().map(told).collect::<Vec<_>>(),
        "succeeded": all - failed,
        "failed": failed,
    });
    Ok((status, Json(body)).into_response())
}

/// The requested file.
async fn found(shared: &Shared, session: &str, file: &str) -> Result<ContainerFile, Refused> {
    let container = container_of(session).ok_or_else(no_file)?;
    let files = shared.codeapi.containers.files(&container).await?;
    let found = files.into_iter().find(|it| file_of(&it.id) == file);
    found.ok_or_else(no_file)
}

/// A file's bytes.
pub(super) async fn download(
    State(shared): State<Arc<Shared>>,
    Path((session, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Answer {
    let file = found(&shared, &session, &file).await?;
    Ok(answer(file.place, &file.path, &headers).await?)
}

/// A file's metadata.
pub(super) async fn object(
    State(shared): State<Arc<Shared>>,
    Path((session, file)): Path<(String, String)>,
) -> Answer {
    let file = found(&shared, &session, &file).await?;
    Ok(Json(json!({
        "name": object_name(&session, &file),
        "originalFilename": file.path,
        "size": file.bytes,
        "lastModified": modified(&file),
        "etag": file_of(&file.id),
        "contentType": mime_of(&file.path),
        "readOnly": false,
    }))
    .into_response())
}

/// The files of a container.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Path(session): Path<String>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let container = container_of(&session).ok_or_else(no_file)?;
    let files = shared.codeapi.containers.files(&container).await?;
    let told = |file: &ContainerFile| {
        let name = object_name(&session, file);
        match wanted.detail.as_str() {
            "summary" => json!({
                "name": name, "size": file.bytes, "lastModified": modified(file),
                "etag": file_of(&file.id),
            }),
            "full" => json!({
                "name": name, "size": file.bytes, "lastModified": modified(file),
                "etag": file_of(&file.id), "contentType": mime_of(&file.path), "versionId": null,
                "metadata": {
                    "content-type": mime_of(&file.path),
                    "original-filename": file.path,
                    "original-filename-encoded": "none",
                },
            }),
            "normalized" => json!({
                "id": file_of(&file.id), "name": file.path, "storage_session_id": session,
                "size": file.bytes, "lastModified": modified(file),
                "contentType": mime_of(&file.path),
            }),
            _ => Value::from(name),
        }
    };
    Ok(Json(files.iter().map(told).collect::<Vec<_>>()).into_response())
}

/// Deletes a file.
pub(super) async fn remove(
    State(shared): State<Arc<Shared>>,
    Path((session, file)): Path<(String, String)>,
) -> Answer {
    let found = found(&shared, &session, &file).await?;
    let containers = &shared.codeapi.containers;
    containers.delete_file(&found.container, &found.id).await?;
    Ok(Json(json!({
        "message": "File deleted successfully", "session_id": session, "fileId": file,
    }))
    .into_response())
}

/// The file's name in the object store of LibreChat's own service.
fn object_name(session: &str, file: &ContainerFile) -> String {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let ending = name.rfind('.').and_then(|at| name.get(at..));
    format!(
        "{session}/{}{}",
        file_of(&file.id),
        ending.unwrap_or_default()
    )
}

fn modified(file: &ContainerFile) -> Option<String> {
    let time = jiff::Timestamp::from_second(file.changed).ok()?;
    Some(time.to_string())
}
