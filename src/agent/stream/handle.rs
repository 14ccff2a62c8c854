//! Access to a session of this process: sends commands, and reads its state.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, Semaphore, mpsc, oneshot};

use super::{ItemId, Log, Snapshot};
use crate::agent::event::Command;
use crate::agent::query::SessionStatus;
use crate::jupyter::raw::RawMessage;
use crate::kernel::Kernel;
use crate::session::Transcript;

/// Maximum commands queued for the session.
pub(in crate::agent) const INBOX: usize = 64;
/// Maximum queries from all clients waiting for a session's kernels.
const QUERIES: usize = 32;

/// A handle to a session of this process; clones share it. It does not keep the session alive.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    inbox: mpsc::Sender<Request>,
    joining: mpsc::Sender<Joining>,
    pub(super) log: Log,
    pub(in crate::agent) place: Arc<SessionPlace>,
}

/// Facts that hold for a session's lifetime, and the locks for its queries.
#[derive(Debug)]
pub(in crate::agent) struct SessionPlace {
    /// The language of the main kernel.
    pub(in crate::agent) language: String,
    /// The kernels' working directory.
    pub(in crate::agent) directory: PathBuf,
    /// The notebook's path.
    pub(in crate::agent) notebook: PathBuf,
    /// Held by the query that is using a kernel.
    pub(in crate::agent) turn: Arc<Mutex<()>>,
    /// Slots for waiting queries.
    pub(in crate::agent) queries: Semaphore,
}

impl SessionPlace {
    pub(in crate::agent) fn new(language: String, directory: PathBuf, notebook: PathBuf) -> Self {
        Self {
            language,
            directory,
            notebook,
            turn: Arc::default(),
            queries: Semaphore::new(QUERIES),
        }
    }
}

/// The newest item when a command was accepted, or why it was rejected.
pub type Answer = oneshot::Sender<Result<ItemId, Rejection>>;

/// A request to read the session's state between two of its steps.
pub(in crate::agent) enum Joining {
    /// A client that joins.
    Snapshot(oneshot::Sender<Snapshot>),
    /// A request for its status.
    Status(oneshot::Sender<SessionStatus>),
    /// A request for a part of its state.
    Look(Look),
}

/// Reads the transcript and the kernels that can take code, with their languages; the main one is first if among them.
/// Must be quick, because the session waits for it.
pub(in crate::agent) type Look = Box<dyn FnOnce(&Transcript, Vec<(String, Kernel)>) + Send>;

/// A command and the client that sent it.
#[derive(Debug)]
pub(in crate::agent) struct Request {
    /// The client's name.
    pub(in crate::agent) by: String,
    pub(in crate::agent) command: Command,
    /// For [`Command::Run`]: the original request of a Jupyter front end.
    sent: Option<Box<RawMessage>>,
    /// Receives whether the command was accepted.
    answer: Answer,
}

/// An accepted command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent) struct Wanted {
    /// The client's name.
    pub(in crate::agent) by: String,
    pub(in crate::agent) command: Command,
    /// See [`Request::sent`].
    pub(in crate::agent) sent: Option<Box<RawMessage>>,
}

impl Request {
    /// Accepts the command and lets its client continue.
    pub(in crate::agent) fn accept(self, at: ItemId) -> Wanted {
        // The command counts even if its client is gone.
        let _ = self.answer.send(Ok(at));
        Wanted {
            by: self.by,
            command: self.command,
            sent: self.sent,
        }
    }

    pub(in crate::agent) fn reject(self, why: Rejection) {
        let _ = self.answer.send(Err(why));
    }
}

/// Why a command is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Rejection {
    /// A turn is going on.
    #[error("still busy with the last turn: interrupt it first")]
    Busy,
    /// A resumed session is being brought back, and too many commands wait for that.
    #[error("still busy with bringing the session back")]
    Restoring,
    /// Another client was first.
    #[error("already answered by {by}")]
    AlreadyAnswered {
        /// Its name.
        by: String,
    },
    /// No question waits for this answer.
    #[error("nothing waits for this answer")]
    NotWaiting,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl SessionHandle {
    pub(in crate::agent) fn new(
        inbox: mpsc::Sender<Request>,
        joining: mpsc::Sender<Joining>,
        log: Log,
        place: SessionPlace,
    ) -> Self {
        Self {
            inbox,
            joining,
            log,
            place: Arc::new(place),
        }
    }

    /// The result of `look` on the current transcript. It must be quick, because the session waits for it.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Transcript) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        self.ask(|transcript, _| look(transcript)).await
    }

    /// Its kernels that can take code now, with their languages.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn kernels(&self) -> Result<Vec<(String, Kernel)>, Rejection> {
        self.ask(|_, kernels| kernels).await
    }

    async fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Transcript, Vec<(String, Kernel)>) -> T + Send + 'static,
    ) -> Result<T, Rejection> {
        let (answer, found) = oneshot::channel();
        let look: Look = Box::new(move |transcript, kernels| {
            // The caller may be gone.
            let _ = answer.send(look(transcript, kernels));
        });
        let asked = self.joining.send(Joining::Look(look)).await;
        asked.map_err(|_| Rejection::Ended)?;
        found.await.map_err(|_| Rejection::Ended)
    }

    /// A snapshot of the session.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn snapshot(&self) -> Result<Snapshot, Rejection> {
        let (answer, snapshot) = oneshot::channel();
        let asked = self.joining.send(Joining::Snapshot(answer)).await;
        asked.map_err(|_| Rejection::Ended)?;
        snapshot.await.map_err(|_| Rejection::Ended)
    }

    /// The session's status.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn status(&self) -> Result<SessionStatus, Rejection> {
        let (answer, status) = oneshot::channel();
        let asked = self.joining.send(Joining::Status(answer)).await;
        asked.map_err(|_| Rejection::Ended)?;
        status.await.map_err(|_| Rejection::Ended)
    }

    /// Sends a command on behalf of `by`. Returns the newest item at the time it was accepted; its effects follow that
    /// item.
    ///
    /// # Errors
    /// The [`Rejection`].
    pub async fn send(&self, by: &str, command: Command) -> Result<ItemId, Rejection> {
        self.request(by, command, None).await
    }

    /// Runs the person's own code in the main kernel, or that of `language`. The kernel gets `sent`, the
    /// execute_request of a Jupyter front end, unchanged, so that it replies to that front end's message.
    ///
    /// # Errors
    /// The [`Rejection`].
    pub async fn run_sent(
        &self,
        by: &str,
        code: String,
        language: Option<String>,
        sent: RawMessage,
    ) -> Result<ItemId, Rejection> {
        let command = Command::Run { code, language };
        self.request(by, command, Some(Box::new(sent))).await
    }

    async fn request(
        &self,
        by: &str,
        command: Command,
        sent: Option<Box<RawMessage>>,
    ) -> Result<ItemId, Rejection> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            by: by.to_owned(),
            command,
            sent,
            answer,
        };
        let sent = self.inbox.send(request).await;
        sent.map_err(|_| Rejection::Ended)?;
        answered.await.unwrap_or(Err(Rejection::Ended))
    }

    /// The newest item visible to clients.
    pub fn newest(&self) -> ItemId {
        self.log.newest()
    }
}
