//! What a session's kernels can be asked ([`crate::agent::asides`]), over HTTP. A cell that runs is never disturbed: where a kernel
//! cannot answer beside it, the answer is 409 `busy`.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::download;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::state::Shared;
use crate::agent::asides::{self, AsideError};
use crate::kernel::{FramePiece, KernelError};

/// Which kernel.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Whose {
    /// A language; without it the main kernel.
    language: Option<String>,
}

/// The variables that live in a kernel.
pub(super) async fn variables(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(whose): Query<Whose>,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    let variables = live.asides.variables(whose.language.as_deref()).await?;
    let variables: Vec<Value> = variables
        .into_iter()
        .map(|it| {
            let (shape, size) = if it.shape.contains('x') {
                (Some(it.shape), None)
            } else {
                (None, it.shape.parse::<u64>().ok())
            };
            json!({ "name": it.name, "type": it.kind, "shape": shape, "size": size, "bytes": it.bytes, "preview": it.head })
        })
        .collect();
    Ok(axum::Json(variables).into_response())
}

/// Code, and where the cursor stands in it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct CodeAtCursor {
    code: String,
    /// In unicode code points; without it at the end.
    cursor: Option<usize>,
    language: Option<String>,
}

/// What could stand at the cursor.
pub(super) async fn complete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(typed): Query<CodeAtCursor>,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    let language = typed.language.as_deref();
    let completions = live
        .asides
        .complete(language, &typed.code, typed.cursor)
        .await?;
    let answer = json!({
        "matches": completions.matches,
        "start": completions.cursor_start,
        "end": completions.cursor_end,
    });
    Ok(axum::Json(answer).into_response())
}

/// Which rows of a table.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Rows {
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
    sort: Option<String>,
    #[serde(default)]
    descending: bool,
    filter: Option<String>,
}

/// A window of a table.
pub(super) async fn window(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    Query(rows): Query<Rows>,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    let fields = live.asides.window(&name, &rows.wanted()).await?;
    Ok(axum::Json(fields).into_response())
}

/// What a column has in it.
pub(super) async fn profile(
    State(shared): State<Arc<Shared>>,
    Path((id, name, column)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    let profile = live.asides.profile(&name, &column).await?;
    Ok(axum::Json(profile).into_response())
}

/// As what a table is downloaded.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Export {
    format: String,
    sort: Option<String>,
    #[serde(default)]
    descending: bool,
    filter: Option<String>,
}

/// A table as a file, while the kernel writes it.
pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    Query(wanted): Query<Export>,
) -> Result<Response, Problem> {
    let (format, mime) = match wanted.format.as_str() {
        "csv" => ("csv", "text/csv; charset=utf-8"),
        "parquet" => ("parquet", "application/vnd.apache.parquet"),
        "xlsx" => (
            "xlsx",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        ),
        other => {
            return Err(Problem::bad_request(format!("`{other}` is not a format"))
                .hint("there are csv, parquet and xlsx"));
        }
    };
    let rows = asides::Rows {
        sort: wanted.sort,
        descending: wanted.descending,
        filter: wanted.filter,
        ..asides::Rows::default()
    };
    let file = format!("{name}.{format}");
    let live = shared.live(&id)?;
    let (length, pieces) = live.asides.export(&name, &rows, format).await?;
    let pieces = futures_util::stream::unfold((pieces, 0), move |(mut pieces, sent)| async move {
        loop {
            match pieces.recv().await {
                Some(FramePiece::Bytes(bytes)) => {
                    let sent = sent + bytes.len() as u64;
                    return Some((Ok(Bytes::from(bytes)), (pieces, sent)));
                }
                Some(FramePiece::Fields(_)) => {}
                None if sent == length => return None,
                // A client that counts sees that it is not whole.
                None => {
                    let error = std::io::Error::other("the kernel sent less than it said");
                    return Some((Err(error), (pieces, length)));
                }
            }
        }
    });
    let mut response = Body::from_stream(pieces).into_response();
    response.headers_mut().extend(download::head(mime, &file));
    response
        .headers_mut()
        .insert(axum::http::header::CONTENT_LENGTH, length.into());
    Ok(response)
}

impl Rows {
    fn wanted(self) -> asides::Rows {
        asides::Rows {
            offset: self.offset,
            limit: self.limit.unwrap_or(100),
            sort: self.sort,
            descending: self.descending,
            filter: self.filter,
        }
    }
}

impl From<AsideError> for Problem {
    fn from(error: AsideError) -> Self {
        let (hint, message) = (error.hint().map(str::to_owned), error.to_string());
        let problem = match error {
            AsideError::Session(rejection) => return rejection.into(),
            AsideError::Kernel(error) => return error.into(),
            AsideError::NoKernel { .. } => Self::new(StatusCode::CONFLICT, "no_kernel", message),
            AsideError::Busy => Self::new(StatusCode::CONFLICT, "busy", message),
            AsideError::TooSlow => Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message),
            AsideError::NoAnswer => Self::new(StatusCode::BAD_GATEWAY, "no_answer", message),
            AsideError::NoName => Self::bad_request(message),
            AsideError::Refused { kind, .. } => match kind.as_str() {
                "no_variable" => Self::new(StatusCode::NOT_FOUND, "no_variable", message),
                "no_column" => Self::new(StatusCode::NOT_FOUND, "no_column", message),
                "no_frame" => Self::new(StatusCode::BAD_REQUEST, "no_frame", message),
                "missing_library" => {
                    Self::new(StatusCode::NOT_IMPLEMENTED, "missing_library", message)
                }
                _ => Self::new(StatusCode::BAD_REQUEST, "failed", message),
            },
        };
        match hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }
}

impl From<KernelError> for Problem {
    fn from(error: KernelError) -> Self {
        let message = error.to_string();
        match error {
            KernelError::Unsupported { .. } => {
                Self::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message)
            }
            KernelError::NoAnswer { .. } => {
                Self::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message)
            }
            _ => Self::new(StatusCode::BAD_GATEWAY, "kernel", message),
        }
    }
}
