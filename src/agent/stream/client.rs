//! A front end's connection to a session, of this process or another: items come out, commands go in.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::handle::Answer;
use super::log::Next;
use super::{Item, ItemId, Rejection, SessionHandle, Snapshot};
use crate::agent::asides::Asides;
use crate::agent::event::Command;
use crate::agent::frame_file;
use crate::agent::query::{Query, QueryAnswer, QueryError, QueryReason, Rows};
use crate::session::numbered::CellPlace;

/// Time limit for a query to another process: longer than that process waits for its kernels.
const ANSWER_WITHIN: Duration = Duration::from_secs(70);

/// What a client receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// The next item.
    Item(std::sync::Arc<Item>),
    /// Replaces all items up to it, some of which are gone.
    Snapshot(Box<Snapshot>),
}

/// One front end of a session.
#[derive(Debug)]
pub struct Client {
    name: String,
    source: Source,
    /// Items received while waiting for an answer.
    early: VecDeque<Received>,
}

#[derive(Debug)]
enum Source {
    /// The session is in this process.
    Local {
        handle: SessionHandle,
        position: u64,
    },
    /// Another process serves the session.
    Remote {
        items: mpsc::Receiver<Received>,
        requests: mpsc::Sender<RemoteRequest>,
    },
}

/// A request to a session of another process, and the channel for its answer.
#[derive(Debug)]
pub enum RemoteRequest {
    /// A command.
    Command(Command, Answer),
    /// A query.
    Query(Query, oneshot::Sender<Result<QueryAnswer, QueryError>>),
}

/// Sends queries to a session of this process or another; clones share it.
#[derive(Debug, Clone)]
pub struct Queries(Asked);

#[derive(Debug, Clone)]
enum Asked {
    Local(Asides),
    Remote(mpsc::Sender<RemoteRequest>),
}

impl Queries {
    /// Saves a table of the Python kernel as a file and returns its size in bytes. Only in the session's own process.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn save(&self, name: &str, rows: &Rows, file: &Path) -> Result<u64, QueryError> {
        match &self.0 {
            Asked::Local(asides) => frame_file::save(asides, name, rows, file).await,
            Asked::Remote(_) => {
                let message = "only the terminal in which the session began saves tables";
                Err(QueryError::new(QueryReason::Forbidden, message))
            }
        }
    }

    /// Sends a query and returns the answer. A remote answer arrives after pending items, so the caller's client must
    /// keep receiving.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn ask(&self, query: Query) -> Result<QueryAnswer, QueryError> {
        match &self.0 {
            Asked::Local(asides) => asides.answer(query).await,
            Asked::Remote(requests) => {
                let (answer, answered) = oneshot::channel();
                let asking = async {
                    let sent = requests.send(RemoteRequest::Query(query, answer)).await;
                    sent.map_err(|_| QueryError::ended())?;
                    answered.await.unwrap_or(Err(QueryError::ended()))
                };
                let answer = tokio::time::timeout(ANSWER_WITHIN, asking).await;
                answer.unwrap_or_else(|_| {
                    let message = "the session does not answer";
                    Err(QueryError::new(QueryReason::Timeout, message))
                })
            }
        }
    }
}

impl SessionHandle {
    /// A client that gets every item from the first on; a snapshot replaces items that are gone.
    pub fn from_start(&self, name: &str) -> Client {
        self.client_at(name, 0)
    }

    /// A client that starts with a snapshot.
    ///
    /// # Errors
    /// [`Rejection::Ended`].
    pub async fn join(&self, name: &str) -> Result<(Snapshot, Client), Rejection> {
        let snapshot = self.snapshot().await?;
        let client = self.client_at(name, snapshot.at.sequence);
        Ok((snapshot, client))
    }

    /// A client that has all items up to `after` and gets the next ones; `None` if some of those are gone and it must
    /// [join](Self::join) again.
    pub fn resume(&self, name: &str, after: ItemId) -> Option<Client> {
        self.log
            .reaches(after)
            .then(|| self.client_at(name, after.sequence))
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
        requests: mpsc::Sender<RemoteRequest>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            source: Source::Remote { items, requests },
            early: VecDeque::new(),
        }
    }

    /// The name under which others see its actions.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For queries to its session.
    pub fn queries(&self) -> Queries {
        Queries(match &self.source {
            Source::Local { handle, .. } => Asked::Local(Asides::of(handle.clone())),
            Source::Remote { requests, .. } => Asked::Remote(requests.clone()),
        })
    }

    /// The place of a cell in the session; `None` where that is not known.
    pub async fn place_of(&mut self, cell: &str) -> Option<CellPlace> {
        let query = Query::Position {
            cell: cell.to_owned(),
        };
        match self.ask(query).await {
            Ok(QueryAnswer::Position { place }) => place,
            Ok(_) | Err(_) => None,
        }
    }

    /// Sends a query to its session; items that arrive in the meantime are received later.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn ask(&mut self, query: Query) -> Result<QueryAnswer, QueryError> {
        let queries = self.queries();
        let asking = queries.ask(query);
        let Source::Remote { items, .. } = &mut self.source else {
            return asking.await;
        };
        tokio::pin!(asking);
        loop {
            // The answer arrives after items, which must be received.
            tokio::select! {
                answer = &mut asking => return answer,
                Some(received) = items.recv() => self.early.push_back(received),
            }
        }
    }

    /// The next item, or a snapshot if items are gone; `None` when the session has ended. Cancel-safe.
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

    /// The items after those received that are there now, about `bytes` of them. Empty if the session is in another
    /// process.
    pub fn ready(&mut self, bytes: usize) -> Vec<std::sync::Arc<Item>> {
        let Source::Local { handle, position } = &mut self.source else {
            return Vec::new();
        };
        let items = handle.log.ready(*position, bytes);
        if let Some(last) = items.last() {
            *position = last.id.sequence;
        }
        items
    }

    /// Counts all items up to `last` as received: the caller has them from elsewhere.
    pub fn has_up_to(&mut self, last: ItemId) {
        if let Source::Local { position, .. } = &mut self.source {
            *position = last.sequence.max(*position);
        }
    }

    /// Sends a command, like [`SessionHandle::send`].
    ///
    /// # Errors
    /// The [`Rejection`].
    pub async fn send(&mut self, command: Command) -> Result<ItemId, Rejection> {
        match &mut self.source {
            Source::Local { handle, .. } => handle.send(&self.name, command).await,
            Source::Remote { items, requests } => {
                let (answer, mut answered) = oneshot::channel();
                let sent = requests.send(RemoteRequest::Command(command, answer)).await;
                sent.map_err(|_| Rejection::Ended)?;
                loop {
                    // The answer arrives after items, which must be received.
                    tokio::select! {
                        answer = &mut answered => return answer.unwrap_or(Err(Rejection::Ended)),
                        Some(received) = items.recv() => self.early.push_back(received),
                    }
                }
            }
        }
    }
}
