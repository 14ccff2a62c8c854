//! A front end's end of a session: items come out, commands go in. The session may be of this process or of another.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::log::Next;
use super::{Item, ItemId, Log, Snapshot};
use crate::agent::event::Command;
use crate::jupyter::raw::RawMessage;
use crate::kernel::Kernel;
use crate::session::Transcript;

/// Commands that may wait for the session.
pub(in crate::agent) const INBOX: usize = 64;

/// Reaches a session of this process; clones reach the same one. It does not keep the session alive.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    inbox: mpsc::Sender<Request>,
    joining: mpsc::Sender<Joining>,
    log: Log,
}

/// The newest item when a command was accepted, or why it was not.
pub type Answer = oneshot::Sender<Result<ItemId, Rejection>>;

/// Somebody looks at the session as it is, between two of its steps.
pub(in crate::agent) enum Joining {
    /// A client that joins.
    Snapshot(oneshot::Sender<Snapshot>),
    /// Whoever needs a part only.
    Look(Look),
}

/// Looks at the transcript, and at the kernels that can take code, with their languages; the main one is first if it is
/// among them. It is quick: the session waits for it.
pub(in crate::agent) type Look = Box<dyn FnOnce(&Transcript, Vec<(String, Kernel)>) + Send>;

/// A command and who wants it.
#[derive(Debug)]
pub(in crate::agent) struct Request {
    /// The client's name.
    pub(in crate::agent) by: String,
    pub(in crate::agent) command: Command,
    /// Of [`Command::Run`]: the request as a Jupyter front end sent it.
    sent: Option<Box<RawMessage>>,
    /// Whether it is accepted.
    answer: Answer,
}

/// A command that was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::agent) struct Wanted {
    /// The client's name.
    pub(in crate::agent) by: String,
    pub(in crate::agent) command: Command,
    /// See [`Request`].
    pub(in crate::agent) sent: Option<Box<RawMessage>>,
}

impl Request {
    /// The client that sent it may go on.
    pub(in crate::agent) fn accept(self, at: ItemId) -> Wanted {
        // One that is gone wanted it all the same.
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

/// What a client receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// The next item.
    Item(std::sync::Arc<Item>),
    /// Items in between are gone: this stands for all up to it.
    Snapshot(Box<Snapshot>),
}

/// One front end of a session.
#[derive(Debug)]
pub struct Client {
    name: String,
    source: Source,
    /// What came while an answer was waited for.
    early: VecDeque<Received>,
}

#[derive(Debug)]
enum Source {
    /// The session is in this process.
    Local {
        handle: SessionHandle,
        position: u64,
    },
    /// Another process serves it.
    Remote {
        items: mpsc::Receiver<Received>,
        commands: mpsc::Sender<RemoteCommand>,
    },
}

/// A command for a session of another process, and where its answer goes.
#[derive(Debug)]
pub struct RemoteCommand {
    /// The command.
    pub command: Command,
    /// Takes the answer.
    pub answer: Answer,
}

impl SessionHandle {
    pub(in crate::agent) fn new(
        inbox: mpsc::Sender<Request>,
        joining: mpsc::Sender<Joining>,
        log: Log,
    ) -> Self {
        Self {
            inbox,
            joining,
            log,
        }
    }

    /// A client that gets every item from the first on; where that is gone, a snapshot.
    pub fn from_start(&self, name: &str) -> Client {
        self.client_at(name, 0)
    }

    /// A client that begins with a snapshot.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn join(&self, name: &str) -> Result<(Snapshot, Client), Rejection> {
        let snapshot = self.snapshot().await?;
        let client = self.client_at(name, snapshot.at.sequence);
        Ok((snapshot, client))
    }

    /// A client that has all items up to `after` and gets the next ones; `None` if those are gone and it must
    /// [join](Self::join) anew.
    pub fn resume(&self, name: &str, after: ItemId) -> Option<Client> {
        self.log
            .reaches(after)
            .then(|| self.client_at(name, after.sequence))
    }

    /// What `look` finds in the transcript as it is now. It must be quick: the session waits for it.
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
            // Somebody who has gone needs nothing.
            let _ = answer.send(look(transcript, kernels));
        });
        let asked = self.joining.send(Joining::Look(look)).await;
        asked.map_err(|_| Rejection::Ended)?;
        found.await.map_err(|_| Rejection::Ended)
    }

    /// The session as it is now.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn snapshot(&self) -> Result<Snapshot, Rejection> {
        let (answer, snapshot) = oneshot::channel();
        let asked = self.joining.send(Joining::Snapshot(answer)).await;
        asked.map_err(|_| Rejection::Ended)?;
        snapshot.await.map_err(|_| Rejection::Ended)
    }

    /// Sends a command in the name of `by`. Returns the newest item there was when it was accepted: what it leads to comes
    /// behind that.
    ///
    /// # Errors
    /// Why it is not carried out.
    pub async fn send(&self, by: &str, command: Command) -> Result<ItemId, Rejection> {
        self.request(by, command, None).await
    }

    /// Runs code of the person's own in the main kernel, or that of `language`, which gets `sent`, the execute_request of a
    /// Jupyter front end, as it is: the kernel answers that front end's message.
    ///
    /// # Errors
    /// Why it is not carried out.
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

    /// The newest item that clients may have.
    pub fn newest(&self) -> ItemId {
        self.log.newest()
    }

    fn client_at(&self, name: &str, position: u64) -> Client {
        Client {
            name: name.to_owned(),
            source: Source::Local {
                handle: self.clone(),
                position,
            },
            early: VecDeque::new(),
        }
    }
}

impl Client {
    /// A client of a session that another process serves.
    pub fn remote(
        name: &str,
        items: mpsc::Receiver<Received>,
        commands: mpsc::Sender<RemoteCommand>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            source: Source::Remote { items, commands },
            early: VecDeque::new(),
        }
    }

    /// The name under which others see what it does.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The place of a cell in the session, from 1; `None` where that is not known: in another process.
    pub async fn number_of(&self, cell: &str) -> Option<usize> {
        let Source::Local { handle, .. } = &self.source else {
            return None;
        };
        let cell = cell.to_owned();
        let found = handle.look(move |all| all.position(&cell)).await;
        Some(found.ok()?? + 1)
    }

    /// The next item, or a snapshot if items are gone; `None` when the session has ended. Can be cancelled without loss.
    pub async fn next(&mut self) -> Option<Received> {
        if let Some(received) = self.early.pop_front() {
            return Some(received);
        }
        match &mut self.source {
            Source::Local { handle, position } => match handle.log.next(*position).await {
                Next::Item(item) => {
                    *position = item.id.sequence;
                    Some(Received::Item(item))
                }
                Next::Behind => {
                    let snapshot = handle.snapshot().await.ok()?;
                    *position = snapshot.at.sequence;
                    Some(Received::Snapshot(Box::new(snapshot)))
                }
                Next::Closed => None,
            },
            Source::Remote { items, .. } => items.recv().await,
        }
    }

    /// Sends a command; as [`SessionHandle::send`].
    ///
    /// # Errors
    /// Why it is not carried out.
    pub async fn send(&mut self, command: Command) -> Result<ItemId, Rejection> {
        match &mut self.source {
            Source::Local { handle, .. } => handle.send(&self.name, command).await,
            Source::Remote { items, commands } => {
                let (answer, mut answered) = oneshot::channel();
                let sent = commands.send(RemoteCommand { command, answer }).await;
                sent.map_err(|_| Rejection::Ended)?;
                loop {
                    // The answer stands behind items that somebody has to take.
                    tokio::select! {
                        answer = &mut answered => return answer.unwrap_or(Err(Rejection::Ended)),
                        Some(received) = items.recv() => self.early.push_back(received),
                    }
                }
            }
        }
    }
}
