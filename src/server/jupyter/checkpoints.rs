//! Checkpoints of files: one per file, next to it, in the same folder as in jupyter_server.

use std::io;
use std::path::{Path, PathBuf};

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use super::super::files;
use super::super::problem::Problem;
use super::Answer;
use super::status::time;
use crate::kernel::folder;

/// The folder of checkpoints.
const FOLDER: &str = ".ipynb_checkpoints";
/// The id of the only checkpoint.
const ID: &str = "checkpoint";

/// Handles a request about the checkpoints of the file at `place`; `id` names one.
pub(super) async fn any(method: &Method, place: PathBuf, id: Option<&str>) -> Answer {
    let kept = kept(&place).ok_or_else(|| Problem::not_found("there is no such file"))?;
    if id.is_some_and(|id| id != ID) {
        return Err(Problem::not_found("there is no such checkpoint").into());
    }
    match (method, id) {
        (&Method::GET, None) => {
            let there = files::blocking(move || Ok(model(&kept).ok())).await?;
            let all: Vec<Checkpoint> = there.into_iter().collect();
            Ok(axum::Json(all).into_response())
        }
        (&Method::POST, None) => {
            files::copy(place, kept.clone()).await?;
            let model = files::blocking(move || model(&kept)).await?;
            Ok((StatusCode::CREATED, axum::Json(model)).into_response())
        }
        (&Method::POST, Some(_)) => {
            files::copy(kept, place).await?;
            Ok(none())
        }
        (&Method::DELETE, Some(_)) => {
            files::blocking(move || folder::remove_file(&kept)).await?;
            Ok(none())
        }
        _ => Err(super::super::problem::no_method().await.into()),
    }
}

fn none() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

fn kept(place: &Path) -> Option<PathBuf> {
    let stem = place.file_stem()?.to_str()?;
    let extension = place.extension().and_then(|it| it.to_str());
    let name = match extension {
        Some(extension) => format!("{stem}-checkpoint.{extension}"),
        None => format!("{stem}-checkpoint"),
    };
    Some(place.parent()?.join(FOLDER).join(name))
}

/// A checkpoint as clients see it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Checkpoint {
    id: &'static str,
    last_modified: Option<String>,
}

fn model(kept: &Path) -> io::Result<Checkpoint> {
    let metadata = folder::open_file(kept)?.metadata()?;
    let last_modified = metadata.modified().ok().and_then(time);
    Ok(Checkpoint {
        id: ID,
        last_modified,
    })
}
