//! Files of the server's directory, with the permissions of code.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::download;
use super::super::extract::{Json as Body, Query};
use super::super::files::answer;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::{Answer, Refused};
use crate::app::executor::{FileError, FileKind, lines_of};
use crate::app::files::{EntryKind, FileEntry};

/// Default number of lines.
const LINES: usize = 1000;

/// Which directory.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Where {
    #[serde(default)]
    directory: String,
}

/// Which file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Which {
    path: String,
}

/// Which lines of which file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Part {
    path: String,
    /// Numbers, or `null` as models write it.
    start_line: Option<String>,
    end_line: Option<String>,
}

/// What is to be in a file.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Written {
    path: String,
    content: String,
}

/// The directory of all files: chats have no separate ones.
pub(super) async fn cwd(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let root = shared.terminal.executor.directory();
    let label = root.file_name().unwrap_or(root.as_os_str());
    Json(json!({
        "cwd": root,
        "home": root,
        "root": { "path": root, "label": label.to_string_lossy() },
    }))
}

/// Lists a directory.
pub(super) async fn list(State(shared): State<Arc<Shared>>, Query(of): Query<Where>) -> Answer {
    let workspace = shared.terminal.executor.workspace();
    let (place, entries) = blocking(move || {
        let entries = workspace.list(&of.directory)?;
        Ok((workspace.place(&of.directory)?, entries))
    })
    .await?;
    let entries: Vec<Value> = entries.iter().filter_map(entry).collect();
    Ok(Json(json!({ "dir": place, "entries": entries })).into_response())
}

fn entry(it: &FileEntry) -> Option<Value> {
    let kind = match it.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link | EntryKind::Other => return None,
    };
    let modified = it.modified.as_deref().and_then(|it| it.parse().ok());
    let modified = modified.map(|it: jiff::Timestamp| it.as_second());
    Some(json!({ "name": it.name, "type": kind, "size": it.bytes, "modified": modified }))
}

/// Lines of a text; pictures unchanged.
pub(super) async fn read(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(part): Query<Part>,
) -> Answer {
    let workspace = shared.terminal.executor.workspace();
    let path = part.path.clone();
    let (place, bytes) =
        blocking(move || Ok((workspace.place(&path)?, workspace.read(&path)?))).await?;
    let name = part.path.rsplit('/').next().unwrap_or_default();
    match FileKind::of(&bytes) {
        FileKind::Text => {}
        FileKind::Image(mime) => return Ok(download::bytes(bytes, mime, name, &headers)),
        FileKind::Binary => {
            let message = format!("`{name}` is no text and no picture ({} bytes)", bytes.len());
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            let problem = Problem::new(status, "binary", message);
            return Err(problem.hint("look at it with run_code").into());
        }
    }
    let first = number(part.start_line.as_deref(), "start_line")?
        .unwrap_or(1)
        .max(1);
    let last = number(part.end_line.as_deref(), "end_line")?;
    let most = last.map_or(LINES, |last| (last + 1).saturating_sub(first));
    let text = String::from_utf8_lossy(&bytes);
    let (content, last, total) = lines_of(&text, first, most);
    let mut answer = json!({ "path": place, "total_lines": total, "content": content });
    if first > 1 || last < total {
        answer["lines"] = json!([first, last]);
    }
    Ok(Json(answer).into_response())
}

fn number(value: Option<&str>, name: &str) -> Result<Option<usize>, Refused> {
    match value.map(str::trim) {
        None | Some("" | "null") => Ok(None),
        Some(value) => {
            let wrong = |_| Problem::bad_request(format!("`{name}` is no number: `{value}`"));
            Ok(Some(value.parse().map_err(wrong)?))
        }
    }
}

/// Whether a file exists that can be shown to the person; the client shows it.
pub(super) async fn display(
    State(shared): State<Arc<Shared>>,
    Query(Which { path }): Query<Which>,
) -> Answer {
    let workspace = shared.terminal.executor.workspace();
    let shown = blocking(move || Ok((workspace.place(&path)?, workspace.has(&path)?))).await?;
    let (path, exists) = shown;
    Ok(Json(json!({ "path": path, "exists": exists })).into_response())
}

/// The bytes of a file.
pub(super) async fn view(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(Which { path }): Query<Which>,
) -> Answer {
    let place = shared.terminal.executor.workspace().place(&path)?;
    Ok(answer(place, &path, &headers).await?)
}

/// Writes a file atomically.
pub(super) async fn write(
    State(shared): State<Arc<Shared>>,
    Body(wanted): Body<Written>,
) -> Answer {
    let workspace = shared.terminal.executor.workspace();
    let written = blocking(move || {
        let size = workspace.write(&wanted.path, wanted.content.as_bytes())?;
        Ok((workspace.place(&wanted.path)?, size))
    });
    let (path, size) = written.await?;
    Ok(Json(json!({ "path": path, "size": size })).into_response())
}

/// Runs blocking disk access on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(done?)
}
