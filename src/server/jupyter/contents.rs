//! Files of the server's directory, as far as front ends need them to open, save and name notebooks. Confined like
//! `server::files`: no path leads up, no link is followed, and hidden files do not exist.
//!
//! Only the session itself writes the notebook of a running session: saving over it is rejected.

use std::io::{self, Write as _};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::super::extract::{Path, Query};
use super::super::files;
use super::super::problem::{self, Problem};
use super::super::state::Shared;
use super::listing::{self, Asked};
use super::{Answer, LARGEST_BODY, body, checkpoints, notebooks};
use crate::kernel::folder::{self, Folder};

/// How many names are tried for a new file.
const NAMES: usize = 1000;
/// A notebook without cells.
const EMPTY: &str = r#"{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"#;

/// A request that creates, saves or renames a file.
#[derive(Debug, Default, Deserialize)]
struct Sent {
    #[serde(rename = "type")]
    kind: Option<String>,
    format: Option<String>,
    content: Option<Value>,
    ext: Option<String>,
    copy_from: Option<String>,
    path: Option<String>,
    /// A large file comes in chunks: 1, 2, .. and -1 for the last.
    chunk: Option<i64>,
}

/// The full path of `path`.
pub(super) fn place(shared: &Shared, path: &str) -> Result<PathBuf, Problem> {
    let relative = files::relative(path)
        .ok_or_else(|| Problem::forbidden(format!("`{path}` is not in the server's directory")))?;
    let is_hidden =
        |it: std::path::Component<'_>| it.as_os_str().as_encoded_bytes().first() == Some(&b'.');
    if relative.components().any(is_hidden) {
        return Err(Problem::not_found(format!("`{path}` is hidden")));
    }
    Ok(shared.root.join(relative))
}

/// The server's directory.
pub(super) async fn get_root(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
) -> Answer {
    get(&shared, String::new(), asked).await
}

/// Creates a file in it.
pub(super) async fn create_in_root(State(shared): State<Arc<Shared>>, bytes: Bytes) -> Answer {
    create(&shared, "", body(&bytes)?).await
}

/// Handles any request for a path: only its suffix shows whether it is about checkpoints.
pub(super) async fn any(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<String>,
    Query(asked): Query<Asked>,
    request: Request,
) -> Answer {
    let path = path.trim_matches('/').to_owned();
    let method = request.method().clone();
    if let Some((file, id)) = checkpoint_of(&path) {
        let place = place(&shared, file)?;
        if method == Method::POST && id.is_some() {
            check_is_free(&shared, &place)?;
        }
        return checkpoints::any(&method, place, id).await;
    }
    if matches!(method, Method::GET | Method::HEAD) {
        return get(&shared, path, asked).await;
    }
    if method == Method::DELETE {
        return remove(&shared, &path).await;
    }
    let bytes = axum::body::to_bytes(request.into_body(), LARGEST_BODY).await;
    let bytes = bytes.map_err(|_| {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "a body of more than 128 MiB is not taken",
        )
    })?;
    let sent: Sent = body(&bytes)?;
    match method {
        Method::PUT => save(&shared, path, sent).await,
        Method::POST => create(&shared, &path, sent).await,
        Method::PATCH => rename(&shared, &path, sent).await,
        _ => Err(problem::no_method().await.into()),
    }
}

/// The file for a checkpoint's path, and the checkpoint's id.
fn checkpoint_of(path: &str) -> Option<(&str, Option<&str>)> {
    if let Some(file) = path.strip_suffix("/checkpoints") {
        return Some((file, None));
    }
    let (rest, id) = path.rsplit_once('/')?;
    Some((rest.strip_suffix("/checkpoints")?, Some(id)))
}

async fn get(shared: &Shared, path: String, asked: Asked) -> Answer {
    let place = place(shared, &path)?;
    let model = read(move || listing::model(&place, &path, &asked)).await?;
    Ok(axum::Json(model).into_response())
}

/// Saves a file, atomically unless it comes in chunks.
async fn save(shared: &Shared, path: String, sent: Sent) -> Answer {
    let place = place(shared, &path)?;
    check_is_free(shared, &place)?;
    if sent.kind.as_deref() == Some("directory") {
        let dir = place.clone();
        files::blocking(move || folder::make_dir(&dir, 0o755)).await?;
        return saved(StatusCode::CREATED, place, path).await;
    }
    let is_notebook = sent.kind.as_deref() == Some("notebook");
    let bytes = read(move || content_of(is_notebook, sent.format.as_deref(), sent.content)).await?;
    let is_there = folder::open_file(&place).is_ok();
    match sent.chunk {
        Some(piece) if piece != 1 => {
            let to = place.clone();
            files::blocking(move || append(&to, &bytes)).await?;
        }
        _ => files::write_bytes(place.clone(), bytes).await?,
    }
    let status = if is_there {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    saved(status, place, path).await
}

fn content_of(
    is_notebook: bool,
    format: Option<&str>,
    content: Option<Value>,
) -> Result<Vec<u8>, Problem> {
    let missing = || Problem::bad_request("there is no content to save");
    match (is_notebook, content.ok_or_else(missing)?, format) {
        (true, content, _) => notebooks::for_file(content),
        (false, Value::String(text), Some("base64")) => STANDARD
            .decode(text.split_ascii_whitespace().collect::<String>())
            .map_err(|error| Problem::bad_request(format!("this is not base64: {error}"))),
        (false, Value::String(text), _) => Ok(text.into_bytes()),
        (false, _, _) => Err(Problem::bad_request("the content of a file is text")),
    }
}

/// Appends a chunk to an existing file.
fn append(to: &FilePath, piece: &[u8]) -> io::Result<()> {
    folder::open_file(to)?;
    let folder = Folder::of(to)?;
    let flags = rustix::fs::OFlags::NOFOLLOW.bits();
    let mut options = std::fs::OpenOptions::new();
    options.append(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.cast_signed());
    options.open(folder.file())?.write_all(piece)
}

/// The initial content of a new file.
enum Content {
    Directory,
    Text(&'static str),
    CopyOf(PathBuf),
}

/// Creates a file or directory with an unused name, or copies an existing one.
async fn create(shared: &Shared, directory: &str, sent: Sent) -> Answer {
    let (stem, extension, content) = match (&sent.copy_from, sent.kind.as_deref()) {
        (Some(from), _) => {
            let file = place(shared, from)?;
            let name = from.rsplit('/').next().unwrap_or(from);
            let (stem, extension) = match name.rsplit_once('.') {
                Some((stem, extension)) => (stem, format!(".{extension}")),
                None => (name, String::new()),
            };
            (format!("{stem}-Copy"), extension, Content::CopyOf(file))
        }
        (None, Some("directory")) => {
            let name = "Untitled Folder".to_owned();
            (name, String::new(), Content::Directory)
        }
        (None, Some("file")) => {
            let extension = sent.ext.clone().unwrap_or_default();
            ("untitled".to_owned(), extension, Content::Text(""))
        }
        (None, _) => {
            let (stem, extension) = ("Untitled".to_owned(), ".ipynb".to_owned());
            (stem, extension, Content::Text(EMPTY))
        }
    };
    if extension.contains('/') {
        return Err(Problem::bad_request("there is no such extension").into());
    }
    for number in 0..NAMES {
        let number = match number {
            0 if sent.copy_from.is_none() => String::new(),
            0 => "1".to_owned(),
            number => number.to_string(),
        };
        let path = format!("{directory}/{stem}{number}{extension}");
        let path = path.trim_start_matches('/').to_owned();
        let file = place(shared, &path)?;
        if file.symlink_metadata().is_ok() {
            continue;
        }
        let made = file.clone();
        match &content {
            Content::Text(text) => files::write_bytes(made, text.as_bytes().to_vec()).await?,
            Content::CopyOf(other) => files::copy(other.clone(), made).await?,
            Content::Directory => files::blocking(move || folder::make_dir(&made, 0o755)).await?,
        }
        return saved(StatusCode::CREATED, file, path).await;
    }
    Err(Problem::new(StatusCode::CONFLICT, "taken", "all names are taken").into())
}

async fn rename(shared: &Shared, path: &str, sent: Sent) -> Answer {
    let to = sent.path.unwrap_or_default();
    let to = to.trim_matches('/').to_owned();
    if path.is_empty() || to.is_empty() {
        return Err(Problem::bad_request("both need a name").into());
    }
    let (from, file) = (place(shared, path)?, place(shared, &to)?);
    check_is_free(shared, &from)?;
    if file.symlink_metadata().is_ok() {
        return Err(Problem::new(
            StatusCode::CONFLICT,
            "taken",
            format!("`{to}` is there already"),
        )
        .into());
    }
    let target = file.clone();
    files::blocking(move || {
        let (from, to) = (Folder::of(&from)?, Folder::of(&target)?);
        std::fs::rename(from.file(), to.file())
    })
    .await?;
    saved(StatusCode::OK, file, to).await
}

async fn remove(shared: &Shared, path: &str) -> Answer {
    let place = place(shared, path)?;
    check_is_free(shared, &place)?;
    if place == shared.root {
        return Err(Problem::forbidden("this is the server's directory").into());
    }
    files::blocking(move || {
        let folder = Folder::of(&place)?;
        if std::fs::symlink_metadata(folder.file())?.is_dir() {
            folder::remove_dir(&place)
        } else {
            folder::remove_file(&place)
        }
    })
    .await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A file's unchanged bytes.
pub(super) async fn download(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let place = place(&shared, &path)?;
    Ok(files::answer(place, &path, &headers).await?)
}

/// The answer to a client that changed something.
async fn saved(status: StatusCode, place: PathBuf, path: String) -> Answer {
    let at = format!("/jupyter/api/contents/{path}");
    let asked = Asked::without_content();
    let model = read(move || listing::model(&place, &path, &asked)).await?;
    let mut response: Response = (status, axum::Json(model)).into_response();
    if let Ok(at) = at.parse() {
        response.headers_mut().insert(LOCATION, at);
    }
    Ok(response)
}

/// Rejects the notebook of a running session, which writes it itself and reads changes by others when it starts.
fn check_is_free(shared: &Shared, place: &FilePath) -> Result<(), Problem> {
    let live = shared.registry.list();
    let Some(session) = live.iter().find(|it| it.notebook == place) else {
        return Ok(());
    };
    Err(Problem::new(
        StatusCode::CONFLICT,
        "session",
        format!("the session {} writes this notebook while it runs", session.id),
    )
    .hint("code that you run in it is in the session's notebook anyway; save a copy under another name"))
}

/// Runs blocking disk access on another thread.
async fn read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Problem::internal(error.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_names_checkpoints() {
        for (path, expected) in [
            ("a.ipynb", None),
            ("a/b.ipynb", None),
            ("checkpoints", None),
            ("a/b.ipynb/checkpoints", Some(("a/b.ipynb", None))),
            ("b.ipynb/checkpoints/x", Some(("b.ipynb", Some("x")))),
        ] {
            assert_eq!(checkpoint_of(path), expected, "{path}");
        }
    }
}
