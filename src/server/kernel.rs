//! Queries of a session's kernel over HTTP ([`crate::agent::query`]). A running cell is never disturbed: if the kernel
//! cannot answer meanwhile, the answer is 409 `busy`.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;

use super::download;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::state::Shared;
use crate::agent::frame_file;
use crate::agent::query::{
    CodeAt, ColumnProfile, CompletionList, Documentation, FrameWindow, OutputLines, OutputPage,
    QueryError, QueryReason, Rows, VariableInfo,
};
use crate::kernel::{FramePiece, KernelError};

/// Which kernel.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Whose {
    /// A language; without it the main kernel.
    language: Option<String>,
}

/// The variables in a kernel.
pub(super) async fn variables(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(whose): Query<Whose>,
) -> Result<Json<Vec<VariableInfo>>, Problem> {
    let live = shared.live(&id)?;
    let list = live.asides.variables(whose.language.as_deref()).await?;
    Ok(Json(list.variables))
}

/// Completions at the cursor.
pub(super) async fn complete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(at): Query<CodeAt>,
) -> Result<Json<CompletionList>, Problem> {
    Ok(Json(shared.live(&id)?.asides.complete(&at).await?))
}

/// Code, where the cursor stands in it, and what is wanted.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Inspected {
    code: String,
    /// In unicode code points; without it at the end.
    cursor: Option<usize>,
    language: Option<String>,
    /// Whether the source is wanted too.
    #[serde(default)]
    source: bool,
}

/// Documentation for the name at the cursor.
pub(super) async fn inspect(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<Inspected>,
) -> Result<Json<Documentation>, Problem> {
    let live = shared.live(&id)?;
    let at = CodeAt {
        code: wanted.code,
        cursor: wanted.cursor,
        language: wanted.language,
    };
    Ok(Json(live.asides.inspect(&at, wanted.source).await?))
}

/// Which lines of a cell's output.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct WhichLines {
    /// The first line, from 1; a negative number counts from the end.
    start: Option<i64>,
    /// How many; 200 if left out.
    lines: Option<usize>,
    /// Only lines with this text in them, in any case.
    search: Option<String>,
    /// The file, where the output of a cell is in several.
    file: Option<String>,
}

/// Lines of a cell's output.
pub(super) async fn output(
    State(shared): State<Arc<Shared>>,
    Path((id, cell)): Path<(String, String)>,
    Query(wanted): Query<WhichLines>,
) -> Result<Json<OutputPage>, Problem> {
    let live = shared.live(&id)?;
    let wanted = OutputLines {
        cell,
        start: wanted.start,
        lines: wanted.lines,
        search: wanted.search,
        file: wanted.file,
    };
    Ok(Json(live.asides.output(wanted).await?))
}

/// A window of a table.
pub(super) async fn window(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    Query(rows): Query<Rows>,
) -> Result<Json<FrameWindow>, Problem> {
    Ok(Json(shared.live(&id)?.asides.window(&name, &rows).await?))
}

/// The profile of a column.
pub(super) async fn profile(
    State(shared): State<Arc<Shared>>,
    Path((id, name, column)): Path<(String, String, String)>,
) -> Result<Json<ColumnProfile>, Problem> {
    let live = shared.live(&id)?;
    Ok(Json(live.asides.profile(&name, &column).await?))
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

/// Streams a table as a file while the kernel writes it.
pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Path((id, name)): Path<(String, String)>,
    Query(wanted): Query<Export>,
) -> Result<Response, Problem> {
    let Some(format) = frame_file::format(&wanted.format) else {
        let words = format!("`{}` is not a format", wanted.format);
        return Err(Problem::bad_request(words).hint("there are csv, parquet and xlsx"));
    };
    let mime = match format {
        "parquet" => "application/vnd.apache.parquet",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        _ => "text/csv; charset=utf-8",
    };
    let rows = Rows {
        sort: wanted.sort,
        descending: wanted.descending,
        filter: wanted.filter,
        ..Rows::default()
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
                // A client can tell from the length that it is incomplete.
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

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        use QueryReason as Reason;
        let (status, reason) = match error.reason {
            Reason::Busy => (StatusCode::CONFLICT, "busy"),
            Reason::TooMany => (StatusCode::TOO_MANY_REQUESTS, "too_many"),
            Reason::NoKernel => (StatusCode::CONFLICT, "no_kernel"),
            Reason::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
            Reason::NoAnswer => (StatusCode::BAD_GATEWAY, "no_answer"),
            Reason::BadRequest => (StatusCode::BAD_REQUEST, "bad_request"),
            Reason::NoVariable => (StatusCode::NOT_FOUND, "no_variable"),
            Reason::NoColumn => (StatusCode::NOT_FOUND, "no_column"),
            Reason::NoFrame => (StatusCode::BAD_REQUEST, "no_frame"),
            Reason::MissingLibrary => (StatusCode::NOT_IMPLEMENTED, "missing_library"),
            Reason::Unsupported => (StatusCode::NOT_IMPLEMENTED, "unsupported"),
            Reason::Failed => (StatusCode::BAD_REQUEST, "failed"),
            Reason::NotFound => (StatusCode::NOT_FOUND, "not_found"),
            Reason::Forbidden => (StatusCode::FORBIDDEN, "forbidden"),
            Reason::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Reason::Kernel => (StatusCode::BAD_GATEWAY, "kernel"),
            Reason::Ended => (StatusCode::CONFLICT, "ended"),
        };
        let problem = Self::new(status, reason, error.message);
        match error.hint {
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
