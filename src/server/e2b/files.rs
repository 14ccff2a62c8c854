//! Files of a sandbox, whole: up and down.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest as _, Multipart, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::write::GzDecoder;
use futures_util::{Stream, StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::InSandbox;
use super::failure::E2bFailure;
use crate::app::sandboxes::{Entry, EntryType, ProgramSandbox, Upload};
use crate::server::download;
use crate::server::extract::Query;
use crate::server::files::of_io;

/// Bytes of an upload.
const LARGEST: u64 = 16 << 30;
/// Bytes that are sent at once.
const PIECE: usize = 64 << 10;
/// Bytes of a packed upload that are unpacked at once.
const PACKED: usize = 1 << 10;
/// How long the next piece of an upload may take.
const WITHIN: Duration = Duration::from_secs(30);
/// Files of one request.
const FILES: usize = 1000;
/// How headers begin that say what is remembered of a file.
const METADATA: &str = "x-metadata-";

/// Which file.
#[derive(Deserialize)]
pub(super) struct Wanted {
    path: Option<String>,
}

/// A file's bytes.
pub(super) async fn download(
    InSandbox(sandbox): InSandbox,
    Query(wanted): Query<Wanted>,
) -> Result<Response, E2bFailure> {
    let path = wanted.path.unwrap_or_default();
    let (file, length, small) = blocking(&sandbox, move |it| {
        let (file, length) = it.files().open(&path)?;
        let small = download::small(&file, length).map_err(|it| of_io(&it))?;
        Ok((file, length, small))
    })
    .await?;
    let kind = (CONTENT_TYPE, "application/octet-stream");
    if let Some(bytes) = small {
        return Ok(([kind], bytes).into_response());
    }
    let file = tokio::fs::File::from_std(file);
    let pieces = stream::unfold(Some(file.take(length)), |file| async {
        let mut file = file?;
        let mut buffer = vec![0; PIECE];
        match file.read(&mut buffer).await {
            Ok(0) => None,
            Ok(count) => {
                buffer.truncate(count);
                Some((Ok(Bytes::from(buffer)), Some(file)))
            }
            Err(error) => Some((Err(error), None)),
        }
    });
    let length = [(CONTENT_LENGTH, length.to_string())];
    Ok(([kind], length, Body::from_stream(pieces)).into_response())
}

/// Writes files: one as it is, or several in a form.
pub(super) async fn upload(
    InSandbox(sandbox): InSandbox,
    Query(wanted): Query<Wanted>,
    request: Request,
) -> Result<Json<Vec<Value>>, E2bFailure> {
    let headers = request.headers();
    let metadata = metadata(headers);
    let is = |name, part: &str| {
        let value = headers.get(name).and_then(|it| it.to_str().ok());
        value.is_some_and(|it| it.to_ascii_lowercase().starts_with(part))
    };
    let is_packed = is(CONTENT_ENCODING, "gzip");
    if !is(CONTENT_TYPE, "multipart/form-data") {
        let path = wanted
            .path
            .ok_or_else(|| invalid("the query says no `path`"))?;
        let pieces = request.into_body().into_data_stream();
        let pieces = pieces.map(|it| it.map_err(|error| invalid(error.to_string())));
        let entry = write(&sandbox, path, metadata, is_packed, pieces).await?;
        return Ok(Json(vec![shown(&entry)]));
    }
    if is_packed {
        return Err(invalid(
            "a form cannot be packed: send application/octet-stream",
        ));
    }
    let form = Multipart::from_request(request, &()).await;
    let mut form = form.map_err(|error| invalid(error.body_text()))?;
    let mut entries = Vec::new();
    loop {
        let field = tokio::time::timeout(WITHIN, form.next_field()).await;
        let field = field.map_err(|_| late())?;
        let Some(field) = field.map_err(|error| invalid(error.body_text()))? else {
            return Ok(Json(entries));
        };
        if field.name() != Some("file") {
            continue;
        }
        if entries.len() >= FILES {
            return Err(invalid(format!("a form has at most {FILES} files")));
        }
        // Without a path each file says its own.
        let named = wanted.path.clone().filter(|it| !it.is_empty());
        let named = named.or_else(|| field.file_name().map(str::to_owned));
        let path = named.ok_or_else(|| invalid("a file has no name"))?;
        let pieces = field.map(|it| it.map_err(|error| invalid(error.body_text())));
        let entry = write(&sandbox, path, metadata.clone(), false, pieces).await?;
        entries.push(shown(&entry));
    }
}

/// Writes one file, piece by piece.
async fn write(
    sandbox: &Arc<ProgramSandbox>,
    path: String,
    metadata: BTreeMap<String, String>,
    is_packed: bool,
    pieces: impl Stream<Item = Result<Bytes, E2bFailure>>,
) -> Result<Entry, E2bFailure> {
    let mut pieces = std::pin::pin!(pieces);
    let begun = move |it: &ProgramSandbox| Ok(it.files().upload(&path, metadata)?);
    let mut arriving = Arriving {
        upload: blocking(sandbox, begun).await?,
        unpacking: is_packed.then(|| GzDecoder::new(Vec::new())),
        written: 0,
    };
    loop {
        let piece = tokio::time::timeout(WITHIN, pieces.next()).await;
        let Some(piece) = piece.map_err(|_| late())?.transpose()? else {
            return on_disk(move || arriving.end()).await;
        };
        arriving = on_disk(move || arriving.with(&piece)).await?;
    }
}

/// A file that is being sent.
struct Arriving {
    upload: Upload,
    unpacking: Option<GzDecoder<Vec<u8>>>,
    written: u64,
}

impl Arriving {
    /// With more of what is sent.
    fn with(mut self, piece: &[u8]) -> Result<Self, E2bFailure> {
        if self.unpacking.is_none() {
            return self.written(piece);
        }
        // A little may become a thousand times as much.
        for part in piece.chunks(PACKED) {
            self = self.unpacked(|unpacking| unpacking.write_all(part))?;
        }
        Ok(self)
    }

    fn end(self) -> Result<Entry, E2bFailure> {
        let all = self.unpacked(GzDecoder::try_finish)?;
        Ok(all.upload.end()?)
    }

    /// With what comes of it when `step` unpacks something.
    fn unpacked(
        mut self,
        step: impl FnOnce(&mut GzDecoder<Vec<u8>>) -> std::io::Result<()>,
    ) -> Result<Self, E2bFailure> {
        let Some(unpacking) = &mut self.unpacking else {
            return Ok(self);
        };
        step(unpacking).map_err(|error| invalid(format!("not packed by gzip: {error}")))?;
        let plain = std::mem::take(unpacking.get_mut());
        self.written(&plain)
    }

    fn written(mut self, plain: &[u8]) -> Result<Self, E2bFailure> {
        self.written += plain.len() as u64;
        if self.written > LARGEST {
            return Err(E2bFailure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("a file has at most {LARGEST} bytes"),
            ));
        }
        self.upload = self.upload.write(plain)?;
        Ok(self)
    }
}

/// As an upload says it.
fn shown(entry: &Entry) -> Value {
    let kind = match entry.kind {
        EntryType::Directory => "dir",
        EntryType::File | EntryType::Other => "file",
    };
    let mut shown = json!({ "path": entry.path, "name": entry.name, "type": kind });
    if let Some(fields) = shown.as_object_mut()
        && !entry.metadata.is_empty()
    {
        fields.insert("metadata".to_owned(), json!(entry.metadata));
    }
    shown
}

fn metadata(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut metadata = BTreeMap::new();
    for (name, value) in headers {
        if let (Some(name), Ok(value)) = (name.as_str().strip_prefix(METADATA), value.to_str()) {
            // The first one counts.
            metadata
                .entry(name.to_owned())
                .or_insert_with(|| value.to_owned());
        }
    }
    metadata
}

fn invalid(message: impl Into<String>) -> E2bFailure {
    E2bFailure::new(StatusCode::BAD_REQUEST, message)
}

fn late() -> E2bFailure {
    E2bFailure::new(
        StatusCode::REQUEST_TIMEOUT,
        "the file did not arrive in time",
    )
}

/// Does something with a sandbox's files where it may take time.
pub(super) async fn blocking<T: Send + 'static>(
    sandbox: &Arc<ProgramSandbox>,
    what: impl FnOnce(&ProgramSandbox) -> Result<T, E2bFailure> + Send + 'static,
) -> Result<T, E2bFailure> {
    let sandbox = Arc::clone(sandbox);
    on_disk(move || what(&sandbox)).await
}

async fn on_disk<T: Send + 'static>(
    what: impl FnOnce() -> Result<T, E2bFailure> + Send + 'static,
) -> Result<T, E2bFailure> {
    let done = tokio::task::spawn_blocking(what).await;
    done.unwrap_or_else(|error| {
        Err(E2bFailure::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
        ))
    })
}
