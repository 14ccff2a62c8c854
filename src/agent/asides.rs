//! Answers queries ([`super::query`]) from front ends by asking a session's kernels outside its cells.
//!
//! A running cell is never disturbed: if a kernel cannot answer alongside it, the error is [`QueryReason::Busy`].
//! Queries run one at a time and a bounded number waits. A caller may give up at any time; the next query then waits
//! until the kernel is done.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, mpsc};

use super::query::{
    CodeAt, CodeState, ColumnProfile, CompletionList, Documentation, FileEntry, FrameWindow,
    OutputLines, OutputPage, Query, QueryAnswer, QueryError, QueryReason, Rows, VariableInfo,
    VariableList,
};
use super::stream::SessionHandle;
use super::{listing, reading};
use crate::jupyter::mime::MimeBundle;
use crate::kernel::{FramePart, FramePiece, FrameRequest, Kernel, KernelState};
use crate::session::numbered::{self, CellPlace};
use crate::task;

/// Time limit for an answer; the kernel finishes what it began.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit including the wait for earlier queries.
const ALTOGETHER: Duration = Duration::from_mins(1);
/// Buffered pieces of an exported file; if the front end does not read them, the kernel waits.
const PIECES: usize = 4;
/// How long, in hundredths of a second, to wait for a kernel to become idle before reporting it as busy.
const SETTLES_WITHIN: u32 = 50;
/// Maximum and default number of rows in a window.
const ROWS: u64 = 500;
const USUAL_ROWS: u64 = 100;
/// Maximum characters of a name.
const NAME: usize = 200;
/// Maximum completion candidates.
const CANDIDATES: usize = 1000;
/// Maximum variables in a list.
const VARIABLES: usize = 2000;
/// Maximum bytes of one representation of documentation.
const DOCUMENTATION: usize = 256 << 10;
/// Maximum bytes of code to complete.
const CODE: usize = 1 << 20;

/// Answers queries about one session; clones share it.
#[derive(Debug, Clone)]
pub struct Asides {
    handle: SessionHandle,
}

impl Asides {
    /// For the session of `handle`.
    pub fn of(handle: SessionHandle) -> Self {
        Self { handle }
    }

    /// Answers any query.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn answer(&self, query: Query) -> Result<QueryAnswer, QueryError> {
        Ok(match query {
            Query::Complete(at) => QueryAnswer::Completions(self.complete(&at).await?),
            Query::IsComplete { code, language } => {
                QueryAnswer::Completeness(self.is_complete(language.as_deref(), &code).await?)
            }
            Query::Inspect { at, source } => {
                QueryAnswer::Documentation(self.inspect(&at, source).await?)
            }
            Query::Variables { language } => {
                QueryAnswer::Variables(self.variables(language.as_deref()).await?)
            }
            Query::Frame { name, rows } => QueryAnswer::Frame(self.window(&name, &rows).await?),
            Query::Profile { name, column } => {
                QueryAnswer::Profile(self.profile(&name, &column).await?)
            }
            Query::Files { path } => QueryAnswer::Files {
                entries: self.files(&path).await?,
            },
            Query::Output(wanted) => QueryAnswer::Output(self.output(wanted).await?),
            Query::Cell { number } => {
                let found = self.handle.look(move |all| numbered::cell(all, number));
                let found = found.await?;
                let cell = found.map_err(|words| QueryError::new(QueryReason::NotFound, words))?;
                QueryAnswer::Cell(cell)
            }
            Query::Position { cell } => {
                let found = self.handle.look(move |all| CellPlace::of(all, &cell));
                QueryAnswer::Position {
                    place: found.await?,
                }
            }
            Query::ChangedFiles => QueryAnswer::ChangedFiles {
                files: self.handle.look(numbered::changed_files).await?,
            },
            Query::Status => QueryAnswer::Status(Box::new(self.handle.status().await?)),
        })
    }

    /// The variables of the kernel for `language`; the main kernel by default.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn variables(&self, language: Option<&str>) -> Result<VariableList, QueryError> {
        self.bounded(async {
            let kernel = self.kernel(language).await?;
            let _turn = self.turn().await?;
            let mut variables = kernel.variables().await?;
            let more = variables.len().saturating_sub(VARIABLES);
            variables.truncate(VARIABLES);
            Ok(VariableList {
                variables: variables.into_iter().map(VariableInfo::from).collect(),
                more,
            })
        })
        .await
    }

    /// Completions at the cursor.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn complete(&self, at: &CodeAt) -> Result<CompletionList, QueryError> {
        self.bounded(async {
            let kernel = self.at(at).await?;
            let _turn = self.turn().await?;
            until_idle(&kernel).await?;
            let mut found = kernel.complete(&at.code, cursor(at)).await?;
            found.matches.truncate(CANDIDATES);
            Ok(found.into())
        })
        .await
    }

    /// Documentation for the name at the cursor.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn inspect(&self, at: &CodeAt, source: bool) -> Result<Documentation, QueryError> {
        self.bounded(async {
            let kernel = self.at(at).await?;
            let _turn = self.turn().await?;
            until_idle(&kernel).await?;
            let found = kernel
                .inspect(&at.code, cursor(at), u8::from(source))
                .await?;
            Ok(Documentation {
                data: found.as_ref().map(short).filter(|it| !it.is_empty()),
            })
        })
        .await
    }

    /// Whether code is a complete statement. `Unknown` if the kernel is busy or not running.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn is_complete(
        &self,
        language: Option<&str>,
        code: &str,
    ) -> Result<CodeState, QueryError> {
        self.bounded(async {
            let kernel = self.kernel(language).await?;
            if kernel.state() != KernelState::Idle {
                return Ok(CodeState::Unknown);
            }
            let _turn = self.turn().await?;
            Ok(kernel.is_complete(code).await?.into())
        })
        .await
    }

    /// A window of the table `name`.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn window(&self, name: &str, rows: &Rows) -> Result<FrameWindow, QueryError> {
        let part = FramePart::Window {
            offset: rows.offset,
            limit: rows.limit.unwrap_or(USUAL_ROWS).min(ROWS),
        };
        let fields = self.one(request(name, rows, part)?).await?;
        serde_json::from_value(fields).map_err(|_| not_understood())
    }

    /// Statistics of a column of the table `name`.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn profile(&self, name: &str, column: &str) -> Result<ColumnProfile, QueryError> {
        let column = column.to_owned();
        let request = request(name, &Rows::default(), FramePart::Profile { column })?;
        let mut fields = self.one(request).await?;
        let profile = fields.get_mut("profile").map(Value::take);
        serde_json::from_value(profile.unwrap_or_default()).map_err(|_| not_understood())
    }

    /// Exports the table `name` as a file while the kernel writes it: its size in bytes, and its pieces.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn export(
        &self,
        name: &str,
        rows: &Rows,
        format: &'static str,
    ) -> Result<(u64, mpsc::Receiver<FramePiece>), QueryError> {
        let request = request(name, rows, FramePart::Export { format })?;
        self.bounded(async {
            let mut pieces = self.begin(request).await?;
            let first = first(&mut pieces).await?;
            let size = first.get("size").and_then(Value::as_u64);
            Ok((size.unwrap_or(0), pieces))
        })
        .await
    }

    /// The entries of a directory in the workspace.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn files(&self, path: &str) -> Result<Vec<FileEntry>, QueryError> {
        let relative = listing::relative(path).ok_or_else(|| {
            let message = format!("`{path}` is not in the session's directory");
            QueryError::new(QueryReason::Forbidden, message)
        })?;
        let dir = self.handle.place.directory.join(relative);
        let path = path.to_owned();
        self.bounded(elsewhere(move || {
            listing::entries(&dir).map_err(|error| not_listed(&path, &error))
        }))
        .await
    }

    /// Lines of a cell's output.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn output(&self, wanted: OutputLines) -> Result<OutputPage, QueryError> {
        let notebook = self.handle.place.notebook.clone();
        self.bounded(async {
            let cell = wanted.cell.clone();
            let found = self
                .handle
                .look(move |transcript| reading::code_of(transcript, &cell).cloned())
                .await?;
            let code = found.map_err(|words| QueryError::new(QueryReason::NotFound, words))?;
            elsewhere(move || reading::page(&code, &notebook, &wanted)).await
        })
        .await
    }

    /// Runs `work` with a time limit, unless too many queries already wait.
    async fn bounded<T>(
        &self,
        work: impl Future<Output = Result<T, QueryError>>,
    ) -> Result<T, QueryError> {
        let place = self.handle.place.queries.try_acquire();
        let _place = place.map_err(|_| QueryError::too_many())?;
        let done = tokio::time::timeout(ALTOGETHER, work).await;
        done.unwrap_or_else(|_| {
            let message = "the session does not answer";
            Err(QueryError::new(QueryReason::Timeout, message))
        })
    }

    /// The single-line answer to `request`.
    async fn one(&self, request: FrameRequest) -> Result<Value, QueryError> {
        self.bounded(async { first(&mut self.begin(request).await?).await })
            .await
    }

    async fn begin(&self, request: FrameRequest) -> Result<mpsc::Receiver<FramePiece>, QueryError> {
        let kernel = self.kernel(Some("python")).await?;
        let turn = self.turn().await?;
        until_idle(&kernel).await?;
        let mut answer = kernel.frame(&request).await?;
        let (sender, pieces) = mpsc::channel(PIECES);
        task::spawn("table", async move {
            let _turn = turn;
            while let Some(piece) = answer.next().await {
                // Read to the end even if nobody wants it any more.
                let _ = sender.send(piece).await;
            }
        })
        .detach();
        Ok(pieces)
    }

    /// The kernel for this code, if it can take code.
    async fn at(&self, at: &CodeAt) -> Result<Kernel, QueryError> {
        if at.code.len() > CODE {
            let message = "the code is too long to be looked at";
            return Err(QueryError::new(QueryReason::BadRequest, message));
        }
        self.kernel(at.language.as_deref()).await
    }

    /// The kernel for a language, if it can take code.
    async fn kernel(&self, language: Option<&str>) -> Result<Kernel, QueryError> {
        let wanted = language.unwrap_or(&self.handle.place.language);
        let mut kernels = self.handle.kernels().await?.into_iter();
        let found = kernels.find(|(language, _)| language.eq_ignore_ascii_case(wanted));
        let (_, kernel) = found.ok_or_else(|| {
            let language: String = wanted.chars().take(NAME).collect();
            let message = format!("the kernel for {language} does not run (yet)");
            QueryError::new(QueryReason::NoKernel, message).hint("it starts with its first cell")
        })?;
        Ok(kernel)
    }

    async fn turn(&self) -> Result<OwnedMutexGuard<()>, QueryError> {
        let turn = Arc::clone(&self.handle.place.turn).lock_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        turn.map_err(|_| QueryError::busy())
    }
}

/// Runs blocking disk work on another thread.
async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, QueryError> + Send + 'static,
) -> Result<T, QueryError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(QueryError::new(QueryReason::Failed, error.to_string())))
}

fn not_listed(path: &str, error: &io::Error) -> QueryError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => QueryReason::NotFound,
        // Also if a link is in the way.
        _ => QueryReason::Forbidden,
    };
    QueryError::new(reason, format!("`{path}` cannot be listed: {error}"))
}

/// The cursor's position in unicode code points.
fn cursor(at: &CodeAt) -> usize {
    let end = at.code.chars().count();
    at.cursor.unwrap_or(end).min(end)
}

/// Drops representations that are too large.
fn short(bundle: &MimeBundle) -> MimeBundle {
    let fits = |value: &Value| match value {
        Value::String(text) => text.len() <= DOCUMENTATION,
        other => other.to_string().len() <= DOCUMENTATION,
    };
    let all = bundle.iter().filter(|(_, value)| fits(value));
    all.fold(MimeBundle::new(), |kept, (mime, value)| {
        kept.with(mime, value.clone())
    })
}

fn not_understood() -> QueryError {
    QueryError::new(QueryReason::NoAnswer, "the kernel did not answer")
}

/// A validated request for a table.
fn request(name: &str, rows: &Rows, what: FramePart) -> Result<FrameRequest, QueryError> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_name) {
        let message = "that is not the name of a variable";
        return Err(QueryError::new(QueryReason::BadRequest, message));
    }
    Ok(FrameRequest {
        name: name.to_owned(),
        filter: rows.filter.clone().filter(|it| !it.is_empty()),
        sort: rows.sort.clone().filter(|it| !it.is_empty()),
        descending: rows.descending,
        what,
    })
}

/// The first line of an answer, or the kernel's refusal.
async fn first(pieces: &mut mpsc::Receiver<FramePiece>) -> Result<Value, QueryError> {
    let first = tokio::time::timeout(PATIENCE, pieces.recv()).await;
    let too_slow = |_| {
        QueryError::new(QueryReason::Timeout, "the table takes too long")
            .hint("the kernel is still working on it; interrupt it if you need it now")
    };
    let Some(FramePiece::Fields(fields)) = first.map_err(too_slow)? else {
        return Err(not_understood());
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(refused) = text("refused") else {
        return Ok(fields);
    };
    let reason = match refused.as_str() {
        "no_variable" => QueryReason::NoVariable,
        "no_column" => QueryReason::NoColumn,
        "no_frame" => QueryReason::NoFrame,
        "missing_library" => QueryReason::MissingLibrary,
        _ => QueryReason::Failed,
    };
    let error = QueryError::new(reason, text("message").unwrap_or_default());
    Err(match text("hint") {
        Some(hint) => error.hint(hint),
        None => error,
    })
}

/// Waits until the kernel is idle; it reports that shortly after its last answer.
async fn until_idle(kernel: &Kernel) -> Result<(), QueryError> {
    for _ in 0..SETTLES_WITHIN {
        if kernel.state() != KernelState::Busy {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(QueryError::busy())
}
