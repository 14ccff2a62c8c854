//! `/v1/files`: files that a program uploads before it says which container needs them.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{FromRequest as _, Request, State};
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::super::extract::{Path, Query};
use super::super::files::{answer, write};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::listing::{Wanted, page};
use super::{Answer, unsupported};
use crate::app::containers::StoredFile;

/// The supported purposes: files for code to read.
const PURPOSES: [&str; 3] = ["user_data", "assistants", "vision"];

/// Takes a file.
pub(super) async fn create(State(shared): State<Arc<Shared>>, request: Request) -> Answer {
    let containers = &shared.openai.containers;
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|rejection| {
        Problem::bad_request(format!("this is not a form: {}", rejection.body_text()))
            .hint("send the file as multipart/form-data in the field `file`")
    })?;
    let broken = |error: MultipartError| {
        Problem::bad_request(format!("the form cannot be read: {}", error.body_text()))
    };
    let (mut purpose, mut written) = (None, None);
    while let Some(field) = form.next_field().await.map_err(broken)? {
        match field.file_name().map(str::to_owned) {
            Some(name) if written.is_none() => {
                let (id, place) = containers.place_stored().await?;
                let pieces = field.map(|piece| piece.map_err(io::Error::other));
                write(place, pieces).await?;
                written = Some((id, name));
            }
            Some(_) => return Err(Problem::bad_request("the form has more than one file").into()),
            None if field.name() == Some("purpose") => {
                purpose = Some(field.text().await.map_err(broken)?);
            }
            None => {}
        }
    }
    let (id, name) = written.ok_or_else(|| {
        Problem::bad_request("the form has no file")
            .hint("send it as multipart/form-data in the field `file`")
    })?;
    let purpose = purpose.unwrap_or_else(|| "user_data".to_owned());
    if !PURPOSES.contains(&purpose.as_str()) {
        return Err(unsupported(&format!("the purpose `{purpose}`")));
    }
    let file = containers.keep_stored(&id, &name, &purpose).await?;
    Ok(Json(object(&file)).into_response())
}

/// All files.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Query(wanted): Query<Wanted>,
) -> Answer {
    let all = shared.openai.containers.stored_files().await?;
    Ok(Json(page(all.iter().map(object).collect(), &wanted)?).into_response())
}

/// A file's metadata.
pub(super) async fn retrieve(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let (file, _) = shared.openai.containers.stored_file(&id).await?;
    Ok(Json(object(&file)).into_response())
}

/// A file's bytes.
pub(super) async fn content(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let (file, place) = shared.openai.containers.stored_file(&id).await?;
    Ok(answer(place, &file.name, &headers).await?)
}

/// Deletes a file.
pub(super) async fn delete(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    shared.openai.containers.delete_stored(&id).await?;
    let deleted = json!({ "id": id, "object": "file", "deleted": true });
    Ok(Json(deleted).into_response())
}

fn object(file: &StoredFile) -> Value {
    json!({
        "id": file.id,
        "object": "file",
        "bytes": file.bytes,
        "created_at": file.created,
        "filename": file.name,
        "purpose": file.purpose,
        "status": "processed",
    })
}
