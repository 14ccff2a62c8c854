//! What a session's kernels are asked beside its cells, for every front end: variables, completion, tables a window at a time.
//!
//! A cell that runs is never disturbed: where a kernel cannot answer beside it, that is [`AsideError::Busy`]. One at a time
//! asks; who asks can go at any time, and the next one waits until the kernel is done.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};

use super::stream::{Rejection, SessionHandle};
use crate::kernel::{
    Completeness, Completions, FramePart, FramePiece, FrameRequest, Kernel, KernelError,
    KernelState, Variable,
};
use crate::task;

/// How long an answer may take; the kernel is left to end what it began.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pieces of a file on their way to a front end; while it takes none, the kernel waits.
const PIECES: usize = 4;
/// Hundredths of a second after which a kernel that is not idle runs a cell.
const SETTLES_WITHIN: u32 = 50;
/// Rows of a window.
const ROWS: u64 = 500;
/// Characters of a name.
const NAME: usize = 200;

/// Asks the kernels of one session.
#[derive(Debug, Clone)]
pub struct Asides {
    handle: SessionHandle,
    /// The language of the main kernel.
    main: String,
    turn: Arc<Mutex<()>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AsideError {
    /// The session has ended.
    #[error(transparent)]
    Session(#[from] Rejection),
    /// Its kernel has not started.
    #[error("the kernel for {language} does not run (yet)")]
    NoKernel {
        /// Whose kernel.
        language: String,
    },
    /// It runs a cell.
    #[error("the kernel is running a cell")]
    Busy,
    /// It takes too long.
    #[error("the table takes too long")]
    TooSlow,
    /// It said nothing that can be read.
    #[error("the kernel did not answer")]
    NoAnswer,
    /// It is not the name of a variable.
    #[error("that is not the name of a variable")]
    NoName,
    /// The kernel says why it cannot be done.
    #[error("{message}")]
    Refused {
        /// `no_variable`, `no_column`, `no_frame`, `missing_library`, `failed`.
        kind: String,
        /// In words.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The kernel cannot be asked.
    #[error(transparent)]
    Kernel(KernelError),
}

impl AsideError {
    /// What can be done about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoKernel { .. } => Some("it starts with its first cell"),
            Self::Busy => Some("wait for its end, or interrupt it"),
            Self::TooSlow => Some("the kernel goes on with it; interrupt it if you need it now"),
            Self::Refused { hint, .. } => hint.as_deref(),
            Self::Session(_) | Self::NoAnswer | Self::NoName | Self::Kernel(_) => None,
        }
    }
}

impl From<KernelError> for AsideError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Unsupported { what, .. } if what.contains("while a cell runs") => {
                Self::Busy
            }
            other => Self::Kernel(other),
        }
    }
}

/// Which rows of a table, in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// The first one.
    pub offset: u64,
    /// How many.
    pub limit: u64,
    /// The column to sort by.
    pub sort: Option<String>,
    /// Largest first.
    pub descending: bool,
    /// Only rows with this text in them, in any case.
    pub filter: Option<String>,
}

impl Asides {
    /// Of the session that `handle` reaches, whose main kernel speaks `main`.
    pub fn of(handle: SessionHandle, main: &str) -> Self {
        Self {
            handle,
            main: main.to_owned(),
            turn: Arc::default(),
        }
    }

    /// The variables that live in the kernel for `language`; without one in the main kernel.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn variables(&self, language: Option<&str>) -> Result<Vec<Variable>, AsideError> {
        let kernel = self.kernel(language).await?;
        let _turn = self.turn().await?;
        Ok(kernel.variables().await?)
    }

    /// What could stand at `cursor`, in unicode code points; without it at the end.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn complete(
        &self,
        language: Option<&str>,
        code: &str,
        cursor: Option<usize>,
    ) -> Result<Completions, AsideError> {
        let kernel = self.kernel(language).await?;
        let _turn = self.turn().await?;
        until_idle(&kernel).await?;
        let end = code.chars().count();
        Ok(kernel
            .complete(code, cursor.unwrap_or(end).min(end))
            .await?)
    }

    /// Whether code is a whole statement. A kernel that is busy or not there cannot tell.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn is_complete(
        &self,
        language: Option<&str>,
        code: &str,
    ) -> Result<Completeness, AsideError> {
        let kernel = self.kernel(language).await?;
        if kernel.state() != KernelState::Idle {
            return Ok(Completeness::Unknown);
        }
        let _turn = self.turn().await?;
        Ok(kernel.is_complete(code).await?)
    }

    /// A window of the table `name`: `columns`, `rows`, `total`, `offset`.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn window(&self, name: &str, rows: &Rows) -> Result<Value, AsideError> {
        let part = FramePart::Window {
            offset: rows.offset,
            limit: rows.limit.min(ROWS),
        };
        self.one(request(name, rows, part)?).await
    }

    /// What a column of the table `name` has in it.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn profile(&self, name: &str, column: &str) -> Result<Value, AsideError> {
        let column = column.to_owned();
        let request = request(name, &Rows::default(), FramePart::Profile { column })?;
        let fields = self.one(request).await?;
        Ok(fields.get("profile").cloned().unwrap_or_default())
    }

    /// The table `name` as a file, while the kernel writes it: how many bytes it has, and what they are.
    ///
    /// # Errors
    /// [`AsideError`].
    pub async fn export(
        &self,
        name: &str,
        rows: &Rows,
        format: &'static str,
    ) -> Result<(u64, mpsc::Receiver<FramePiece>), AsideError> {
        let request = request(name, rows, FramePart::Export { format })?;
        let mut pieces = self.begin(request).await?;
        let first = first(&mut pieces).await?;
        Ok((
            first.get("size").and_then(Value::as_u64).unwrap_or(0),
            pieces,
        ))
    }

    /// The one line that answers `request`.
    async fn one(&self, request: FrameRequest) -> Result<Value, AsideError> {
        first(&mut self.begin(request).await?).await
    }

    async fn begin(&self, request: FrameRequest) -> Result<mpsc::Receiver<FramePiece>, AsideError> {
        let kernel = self.kernel(Some("python")).await?;
        let turn = self.turn().await?;
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
        Ok(pieces)
    }

    /// The kernel for a language, if it can take code.
    async fn kernel(&self, language: Option<&str>) -> Result<Kernel, AsideError> {
        let wanted = language.unwrap_or(&self.main);
        let mut kernels = self.handle.kernels().await?.into_iter();
        let found = kernels.find(|(language, _)| language.eq_ignore_ascii_case(wanted));
        let (_, kernel) = found.ok_or_else(|| AsideError::NoKernel {
            language: wanted.to_owned(),
        })?;
        Ok(kernel)
    }

    async fn turn(&self) -> Result<OwnedMutexGuard<()>, AsideError> {
        let turn = Arc::clone(&self.turn).lock_owned();
        let turn = tokio::time::timeout(PATIENCE, turn).await;
        turn.map_err(|_| AsideError::Busy)
    }
}

/// A request for a table, checked.
fn request(name: &str, rows: &Rows, what: FramePart) -> Result<FrameRequest, AsideError> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if name.is_empty() || name.len() > NAME || !name.chars().all(is_name) {
        return Err(AsideError::NoName);
    }
    Ok(FrameRequest {
        name: name.to_owned(),
        filter: rows.filter.clone().filter(|it| !it.is_empty()),
        sort: rows.sort.clone().filter(|it| !it.is_empty()),
        descending: rows.descending,
        what,
    })
}

/// The first line of an answer, or what the kernel refused.
async fn first(pieces: &mut mpsc::Receiver<FramePiece>) -> Result<Value, AsideError> {
    let first = tokio::time::timeout(PATIENCE, pieces.recv()).await;
    let Some(FramePiece::Fields(fields)) = first.map_err(|_| AsideError::TooSlow)? else {
        return Err(AsideError::NoAnswer);
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
    match text("refused") {
        None => Ok(fields),
        Some(kind) => Err(AsideError::Refused {
            kind,
            message: text("message").unwrap_or_default(),
            hint: text("hint"),
        }),
    }
}

/// A kernel says that it is idle a moment after the last answer has come.
async fn until_idle(kernel: &Kernel) -> Result<(), AsideError> {
    for _ in 0..SETTLES_WITHIN {
        if kernel.state() != KernelState::Busy {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(AsideError::Busy)
}
