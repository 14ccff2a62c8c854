//! What a session's kernels can be asked: variables, completion, and tables a window at a time. A cell that runs is never
//! disturbed: where a kernel cannot answer beside it, the answer is 409 `busy`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedMutexGuard, mpsc};

use super::download;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::state::Shared;
use crate::app::registry::LiveSession;
use crate::kernel::task;
use crate::kernel::{FramePart, FramePiece, FrameRequest, Kernel, KernelError, KernelState};

/// How long a window may take; the kernel is left to end what it began.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pieces of a file on their way to a client; while it takes none, the kernel waits.
const PIECES: usize = 4;
/// Hundredths of a second after which a kernel that is not idle runs a cell.
const SETTLES_WITHIN: u32 = 20;
/// Rows of a window.
const ROWS: u64 = 500;
/// Characters of a name.
const NAME: usize = 200;

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
    let kernel = kernel(&live, whose.language.as_deref()).await?;
    let _turn = turn(&live).await?;
    let variables = kernel.variables().await?;
    let variables: Vec<Value> = variables
        .into_iter()
        .map(|it| {
            let (shape, size) = if it.shape.contains('x') {
                (Some(it.shape), None)
            } else {
                (None, it.shape.parse::<u64>().ok())
            };
            json!({ "name": it.name, "type": it.kind, "shape": shape, "size": size, "preview": it.head })
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
    let kernel = kernel(&live, typed.language.as_deref()).await?;
    let _turn = turn(&live).await?;
    until_idle(&kernel).await?;
    let end = typed.code.chars().count();
    let cursor = typed.cursor.unwrap_or(end).min(end);
    let completions = kernel.complete(&typed.code, cursor).await?;
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
    let part = FramePart::Window {
        offset: rows.offset,
        limit: rows.limit.unwrap_or(100).min(ROWS),
    };
    let fields = one(&shared, &id, request(name, rows, part)?).await?;
    Ok(axum::Json(fields).into_response())
}

/// What a column has in it.
pub(super) async fn profile(
    State(shared): State<Arc<Shared>>,
    Path((id, name, column)): Path<(String, String, String)>,
) -> Result<Response, Problem> {
    let rows = Rows {
        offset: 0,
        limit: None,
        sort: None,
        descending: false,
        filter: None,
    };
    let request = request(name, rows, FramePart::Profile { column })?;
    let fields = one(&shared, &id, request).await?;
    Ok(axum::Json(fields.get("profile").cloned().unwrap_or_default()).into_response())
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
    let rows = Rows {
        offset: 0,
        limit: None,
        sort: wanted.sort,
        descending: wanted.descending,
        filter: wanted.filter,
    };
    let file = format!("{name}.{format}");
    let mut asked = Asked::begin(
        &shared,
        &id,
        request(name, rows, FramePart::Export { format })?,
    )
    .await?;
    let Some(first) = asked.first().await? else {
        return Err(no_answer());
    };
    let length = first.get("size").and_then(Value::as_u64).unwrap_or(0);
    let pieces = futures_util::stream::unfold((asked, 0), move |(mut asked, sent)| async move {
        loop {
            match asked.pieces.recv().await {
                Some(FramePiece::Bytes(bytes)) => {
                    let sent = sent + bytes.len() as u64;
                    return Some((Ok(Bytes::from(bytes)), (asked, sent)));
                }
                Some(FramePiece::Fields(_)) => {}
                None if sent == length => return None,
                // A client that counts sees that it is not whole.
                None => {
                    let error = std::io::Error::other("the kernel sent less than it said");
                    return Some((Err(error), (asked, length)));
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

/// A request for a table, checked.
fn request(name: String, rows: Rows, what: FramePart) -> Result<FrameRequest, Problem> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_name) {
        return Err(Problem::bad_request("that is not the name of a variable"));
    }
    Ok(FrameRequest {
        name,
        filter: rows.filter.filter(|it| !it.is_empty()),
        sort: rows.sort.filter(|it| !it.is_empty()),
        descending: rows.descending,
        what,
    })
}

/// The one line that answers `request`.
async fn one(shared: &Shared, id: &str, request: FrameRequest) -> Result<Value, Problem> {
    let mut asked = Asked::begin(shared, id, request).await?;
    asked.first().await?.ok_or_else(no_answer)
}

/// Something that a kernel was asked. Whoever asks can go at any time; the next one waits until the kernel is done.
struct Asked {
    pieces: mpsc::Receiver<FramePiece>,
}

impl Asked {
    async fn begin(shared: &Shared, id: &str, request: FrameRequest) -> Result<Self, Problem> {
        let live = shared.live(id)?;
        let kernel = kernel(&live, Some("python")).await?;
        let turn = turn(&live).await?;
        until_idle(&kernel).await?;
        let mut answer = kernel.frame(&request).await?;
        let (sender, pieces) = mpsc::channel(PIECES);
        task::spawn("table", async move {
            let _turn = turn;
            while let Some(piece) = answer.next().await {
                // To the end also if nobody wants it any more.
                let _ = sender.send(piece).await;
            }
        })
        .detach();
        Ok(Self { pieces })
    }

    /// The first line, or what the kernel refused.
    async fn first(&mut self) -> Result<Option<Value>, Problem> {
        let first = tokio::time::timeout(PATIENCE, self.pieces.recv()).await;
        let Ok(first) = first else {
            return Err(Problem::new(
                StatusCode::GATEWAY_TIMEOUT,
                "timeout",
                "the table takes too long",
            )
            .hint("the kernel goes on with it; interrupt it if you need it now"));
        };
        match first {
            Some(FramePiece::Fields(fields)) => match fields.get("refused").and_then(Value::as_str)
            {
                None => Ok(Some(fields)),
                Some(kind) => Err(refused(kind, &fields)),
            },
            Some(FramePiece::Bytes(_)) | None => Ok(None),
        }
    }
}

fn refused(kind: &str, fields: &Value) -> Problem {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_default();
    let problem = match kind {
        "no_variable" => Problem::new(StatusCode::NOT_FOUND, "no_variable", message),
        "no_column" => Problem::new(StatusCode::NOT_FOUND, "no_column", message),
        "no_frame" => Problem::new(StatusCode::BAD_REQUEST, "no_frame", message),
        "missing_library" => Problem::new(StatusCode::NOT_IMPLEMENTED, "missing_library", message),
        _ => Problem::new(StatusCode::BAD_REQUEST, "failed", message),
    };
    match text("hint") {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// The kernel for a language, if it can take code.
async fn kernel(live: &LiveSession, language: Option<&str>) -> Result<Kernel, Problem> {
    let kernels = live.handle().kernels().await?;
    let main = live.kernels.first().map(|it| it.language.as_str());
    let wanted = language.or(main).unwrap_or("python");
    let mut kernels = kernels.into_iter();
    let found = kernels.find(|(language, _)| language.eq_ignore_ascii_case(wanted));
    let (_, kernel) = found.ok_or_else(|| {
        Problem::new(
            StatusCode::CONFLICT,
            "no_kernel",
            format!("the kernel for {wanted} does not run (yet)"),
        )
        .hint("it starts with its first cell; wait for `kernel_ready`")
    })?;
    Ok(kernel)
}

/// One at a time asks beside the cells.
async fn turn(live: &LiveSession) -> Result<OwnedMutexGuard<()>, Problem> {
    let turn = Arc::clone(&live.asides).lock_owned();
    let turn = tokio::time::timeout(PATIENCE, turn).await;
    turn.map_err(|_| busy())
}

/// A kernel says that it is idle a moment after the last answer has come.
async fn until_idle(kernel: &Kernel) -> Result<(), Problem> {
    for _ in 0..SETTLES_WITHIN {
        if kernel.state() != KernelState::Busy {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(busy())
}

fn busy() -> Problem {
    Problem::new(StatusCode::CONFLICT, "busy", "the kernel is running a cell")
        .hint("wait for its end, or interrupt it")
}

fn no_answer() -> Problem {
    Problem::new(
        StatusCode::BAD_GATEWAY,
        "no_answer",
        "the kernel did not answer",
    )
}

impl From<KernelError> for Problem {
    fn from(error: KernelError) -> Self {
        let message = error.to_string();
        match error {
            KernelError::Unsupported { what, .. } if what.contains("while a cell runs") => busy(),
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
