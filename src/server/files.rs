//! Files of a session's directory: lists, reads, writes and removes them. Nothing outside the directory is reachable:
//! paths have no `..`, and no link is followed, including one that code puts there meanwhile ([`folder`]).

use std::io::{self, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::multipart::Multipart;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{Stream, StreamExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use super::download::{self, Wanted};
use super::extract::{Path, Query};
use super::problem::Problem;
use super::state::Shared;
pub(super) use crate::app::files::relative;
use crate::app::files::{FileEntry, Writing};
use crate::kernel::folder::{self, Folder};

/// Maximum bytes of an uploaded file.
const LARGEST: u64 = 4 << 30;
/// How long the next piece of a file may take to arrive.
const PIECE_WITHIN: Duration = Duration::from_secs(30);
/// Bytes copied at a time.
const COPIED: usize = 1 << 20;
/// Maximum files of one drop.
const DROPPED: usize = 1000;

/// Which directory.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Where {
    #[serde(default)]
    path: String,
}

/// Lists a directory.
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(of): Query<Where>,
) -> Result<Json<Vec<FileEntry>>, Problem> {
    Ok(Json(shared.live(&id)?.asides.files(&of.path).await?))
}

/// A file's bytes.
pub(super) async fn get(
    State(shared): State<Arc<Shared>>,
    Path((id, path)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    answer(place(&shared, &id, &path)?, &path, &headers).await
}

/// Sends the requested bytes of the file at `place`.
pub(super) async fn answer(
    place: PathBuf,
    path: &str,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let (mut file, length, small) = blocking(move || {
        let file = folder::open_file(&place)?;
        let length = file.metadata()?.len();
        let small = download::small(&file, length)?;
        Ok((file, length, small))
    })
    .await?;
    let name = path.rsplit('/').next().unwrap_or(path);
    if let Some(bytes) = small {
        let mime = download::mime_of(name);
        return Ok(download::bytes(bytes, mime, name, headers));
    }
    match Wanted::of(headers, length).answer(length) {
        Err(response) => Ok(*response),
        Ok((part, status)) => {
            if part.start > 0 {
                file.seek(SeekFrom::Start(part.start))
                    .map_err(|it| of_io(&it))?;
            }
            let reader = tokio::fs::File::from_std(file).take(part.end - part.start);
            let body = Body::from_stream(ReaderStream::with_capacity(reader, 64 << 10));
            let mime = download::mime_of(name);
            Ok(download::of(body, part, length, status, mime, name))
        }
    }
}

/// A file that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Written {
    path: String,
    bytes: u64,
}

/// A file of a form that was written.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Dropped {
    name: String,
    bytes: u64,
}

/// Writes a file atomically.
pub(super) async fn put(
    State(shared): State<Arc<Shared>>,
    Path((id, path)): Path<(String, String)>,
    body: Body,
) -> Result<(StatusCode, Json<Written>), Problem> {
    let to = place(&shared, &id, &path)?;
    let pieces = body.into_data_stream();
    let bytes = write(to, pieces.map(|piece| piece.map_err(io::Error::other))).await?;
    Ok((StatusCode::CREATED, Json(Written { path, bytes })))
}

/// Writes the files of a form into a directory.
pub(super) async fn drop_files(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(to): Query<Where>,
    mut form: Multipart,
) -> Result<(StatusCode, Json<Vec<Dropped>>), Problem> {
    let dir = place(&shared, &id, &to.path)?;
    let broken = |error: axum::extract::multipart::MultipartError| {
        Problem::bad_request(format!("the form cannot be read: {}", error.body_text()))
    };
    let mut written = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let Some(name) = field.file_name().map(str::to_owned) else {
            continue;
        };
        if written.len() >= DROPPED {
            return Err(Problem::bad_request(format!(
                "{DROPPED} files are the most for one request"
            )));
        }
        // A browser sends only a name; we do not create directories in it.
        let name = name
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
            .to_owned();
        let file = dir.join(
            relative(&name)
                .filter(|it| it.components().count() == 1)
                .ok_or_else(|| Problem::bad_request("a file has no name that can be used"))?,
        );
        let pieces = field.map(|piece| piece.map_err(io::Error::other));
        let bytes = write(file, pieces).await?;
        written.push(Dropped { name, bytes });
    }
    Ok((StatusCode::CREATED, Json(written)))
}

/// Removes a file, a link, or an empty directory.
pub(super) async fn delete(
    State(shared): State<Arc<Shared>>,
    Path((id, path)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let place = place(&shared, &id, &path)?;
    if place == shared.live(&id)?.directory {
        return Err(Problem::forbidden("the session works in this directory"));
    }
    blocking(move || {
        let folder = Folder::of(&place)?;
        if std::fs::symlink_metadata(folder.file())?.is_dir() {
            folder::remove_dir(&place)
        } else {
            folder::remove_file(&place)
        }
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The full path of `path` in the session's directory.
fn place(shared: &Shared, id: &str, path: &str) -> Result<PathBuf, Problem> {
    let live = shared.live(id)?;
    let relative = relative(path)
        .ok_or_else(|| Problem::forbidden(format!("`{path}` is not in the session's directory")))?;
    Ok(live.directory.join(relative))
}

/// Writes the incoming bytes to a temporary file next to `to`, then renames it.
pub(super) async fn write(
    to: PathBuf,
    pieces: impl Stream<Item = io::Result<Bytes>>,
) -> Result<u64, Problem> {
    let mut writing = blocking(move || Writing::begin(&to)).await?;
    tokio::pin!(pieces);
    loop {
        let piece = tokio::time::timeout(PIECE_WITHIN, pieces.next()).await;
        let piece = match piece {
            Ok(None) => break,
            Ok(Some(Ok(piece))) => piece,
            Ok(Some(Err(error))) => {
                return Err(Problem::bad_request(format!("the file broke off: {error}")));
            }
            Err(_) => {
                return Err(Problem::new(
                    StatusCode::REQUEST_TIMEOUT,
                    "timeout",
                    "the rest of the file did not arrive",
                ));
            }
        };
        if writing.bytes + piece.len() as u64 > LARGEST {
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                "a file of more than 4 GiB is not taken",
            )
            .hint("copy it into the directory yourself"));
        }
        writing = blocking(move || writing.write(&piece)).await?;
    }
    blocking(move || writing.end()).await
}

/// Runs blocking disk access on another thread.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(of_io(&error)),
        Err(error) => Err(Problem::internal(error.to_string())),
    }
}

pub(super) fn of_io(error: &io::Error) -> Problem {
    use io::ErrorKind as Kind;
    let (status, reason) = match error.kind() {
        Kind::NotFound => (StatusCode::NOT_FOUND, "not_found"),
        // The last kind: a link is in the way, or it is no regular file.
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem | Kind::Other => {
            (StatusCode::FORBIDDEN, "forbidden")
        }
        Kind::IsADirectory | Kind::NotADirectory | Kind::DirectoryNotEmpty => {
            (StatusCode::CONFLICT, "kind")
        }
        Kind::StorageFull | Kind::QuotaExceeded => (StatusCode::INSUFFICIENT_STORAGE, "full"),
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            (StatusCode::FORBIDDEN, "forbidden")
        }
        _ => (StatusCode::BAD_REQUEST, "bad_request"),
    };
    Problem::new(status, reason, error.to_string())
}

/// Copies a file atomically.
pub(super) async fn copy(from: PathBuf, to: PathBuf) -> Result<(), Problem> {
    let file = blocking(move || folder::open_file(&from)).await?;
    let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), COPIED);
    write(to, pieces).await.map(|_| ())
}

/// Writes a file atomically.
pub(super) async fn write_bytes(to: PathBuf, bytes: Vec<u8>) -> Result<(), Problem> {
    let pieces = futures_util::stream::iter([Ok(Bytes::from(bytes))]);
    write(to, pieces).await.map(|_| ())
}
