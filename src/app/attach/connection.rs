//! The client side: a process that attaches to a session of another process.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};

use super::lines::Lines;
use super::{FromClient, FromServer, socket_of, token_of};
use crate::agent::query::{QueryAnswer, QueryError};
use crate::agent::stream::client::RemoteRequest;
use crate::agent::stream::handle::Answer;
use crate::agent::stream::{Client, ItemId, Received, Snapshot, VERSION};
use crate::task::{self, Task};

/// How long the other process may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How many items may wait for the front end. While it accepts none, we read none, and the other process keeps them.
const WAITING: usize = 64;

/// Why a session cannot be attached to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No process listens.
    #[error("session `{session}` does not run in another process ({source})")]
    NotRunning {
        /// Its id.
        session: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// The other process speaks another version.
    #[error("session `{session}` runs in another version of sponde")]
    OtherVersion {
        /// Its id.
        session: String,
    },
    /// The connection broke, or what came is not understood.
    #[error("session `{session}` does not answer: {reason}")]
    Broken {
        /// Its id.
        session: String,
        /// What happened.
        reason: String,
    },
}

/// An attached session of another process.
#[derive(Debug)]
pub struct Attached {
    /// The session's state when we attached; `None` if we continue after a known item.
    pub snapshot: Option<Snapshot>,
    /// Delivers the next items, and sends commands.
    pub client: Client,
    _task: Task,
}

/// Attaches to `session` as the client `name`. `after` is the last item that the caller has, if it was attached
/// before.
///
/// # Errors
/// [`AttachError`].
pub async fn attach(
    dir: &Path,
    session: &str,
    name: &str,
    after: Option<ItemId>,
) -> Result<Attached, AttachError> {
    let broken = |reason: String| AttachError::Broken {
        session: session.to_owned(),
        reason,
    };
    let path = socket_of(dir, session);
    let stream = UnixStream::connect(&path)
        .await
        .map_err(|source| AttachError::NotRunning {
            session: session.to_owned(),
            source,
        })?;
    let token = std::fs::read_to_string(token_of(dir, session));
    let (read, mut write) = stream.into_split();
    let hello = FromClient::Hello {
        version: VERSION,
        name: name.to_owned(),
        token: token.map_err(|error| broken(error.to_string()))?,
        after,
    };
    let sent = write.write_all(&line_of(&hello)).await;
    sent.map_err(|error| broken(error.to_string()))?;
    // We trust the session's process as much as ourselves.
    let mut lines = Lines::new(read, usize::MAX);
    let mut first = async || -> Result<FromServer, AttachError> {
        let line = tokio::time::timeout(ANSWER_WITHIN, lines.next()).await;
        match line {
            Ok(Ok(Some(Ok(line)))) => Ok(line),
            Ok(Ok(Some(Err(error)))) => Err(broken(error.to_string())),
            Ok(Ok(None)) => Err(broken("it hung up".to_owned())),
            Ok(Err(error)) => Err(broken(error.to_string())),
            Err(_) => Err(broken("it takes too long".to_owned())),
        }
    };
    let name = match first().await? {
        FromServer::Welcome { version, name, .. } if version == VERSION => name,
        FromServer::Welcome { .. } => {
            return Err(AttachError::OtherVersion {
                session: session.to_owned(),
            });
        }
        _ => return Err(broken("its first line is no welcome".to_owned())),
    };
    // A client that continues may wait long for the next line.
    let snapshot = match after {
        Some(_) => None,
        None => match first().await? {
            FromServer::Snapshot(snapshot) => Some(*snapshot),
            _ => return Err(broken("it sent no snapshot".to_owned())),
        },
    };
    let (items, received) = mpsc::channel(WAITING);
    let (requests, wanted) = mpsc::channel(WAITING);
    let (asked, answers) = mpsc::channel(WAITING);
    let relay = async move {
        tokio::select! {
            () = receive(lines, items, answers) => {}
            () = send(write, wanted, asked) => {}
        }
    };
    Ok(Attached {
        snapshot,
        client: Client::remote(&name, received, requests),
        _task: task::spawn("attached session", relay),
    })
}

/// The task that waits for an answer.
enum Waits {
    Command(Answer),
    Query(oneshot::Sender<Result<QueryAnswer, QueryError>>),
}

/// Delivers items until the session ends or nobody wants more.
async fn receive(
    mut lines: Lines<OwnedReadHalf>,
    items: mpsc::Sender<Received>,
    mut asked: mpsc::Receiver<(u64, Waits)>,
) {
    let mut waiting: HashMap<u64, Waits> = HashMap::new();
    loop {
        let line = tokio::select! {
            biased;
            Some((id, waits)) = asked.recv() => {
                waiting.insert(id, waits);
                continue;
            }
            line = lines.next() => line,
        };
        let line = match line.and_then(|line| line.transpose().map_err(io::Error::from)) {
            Ok(Some(FromServer::Item(item))) => {
                if items.send(Received::Item(Arc::new(*item))).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(Some(FromServer::Snapshot(snapshot))) => {
                if items.send(Received::Snapshot(snapshot)).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(Some(line)) => line,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "the connection to the session broke");
                return;
            }
        };
        // The request may not be registered yet.
        while let Ok((id, waits)) = asked.try_recv() {
            waiting.insert(id, waits);
        }
        hand_over(line, &mut waiting);
    }
}

/// Passes an answer to the task that waits for it, if it still does.
fn hand_over(line: FromServer, waiting: &mut HashMap<u64, Waits>) {
    let (id, command, query) = match line {
        FromServer::Accepted { id, after } => (id, Some(Ok(after)), None),
        FromServer::Rejected { id, rejection } => (id, Some(Err(rejection)), None),
        FromServer::Answer { id, answer } => (id, None, Some(Ok(answer))),
        FromServer::Refused { id, error } => (id, None, Some(Err(error))),
        FromServer::Unreadable { message } => {
            tracing::warn!(message, "the session did not understand a line of ours");
            return;
        }
        FromServer::Welcome { .. } | FromServer::Snapshot(_) | FromServer::Item(_) => return,
    };
    match (waiting.remove(&id), command, query) {
        (Some(Waits::Command(waits)), Some(answer), _) => drop(waits.send(answer)),
        (Some(Waits::Query(waits)), _, Some(answer)) => drop(waits.send(answer)),
        _ => {}
    }
}

/// Sends commands and queries until their senders are gone.
async fn send(
    mut write: tokio::net::unix::OwnedWriteHalf,
    mut wanted: mpsc::Receiver<RemoteRequest>,
    asked: mpsc::Sender<(u64, Waits)>,
) {
    let mut id = 0;
    while let Some(request) = wanted.recv().await {
        id += 1;
        let (waits, line) = match request {
            RemoteRequest::Command(command, answer) => {
                (Waits::Command(answer), FromClient::Command { id, command })
            }
            RemoteRequest::Query(query, answer) => {
                (Waits::Query(answer), FromClient::Query { id, query })
            }
        };
        // Registered before the request is sent: the answer may come at once.
        if asked.send((id, waits)).await.is_err() {
            return;
        }
        if write.write_all(&line_of(&line)).await.is_err() {
            return;
        }
    }
}

fn line_of(line: &FromClient) -> Vec<u8> {
    // Plain data is serialized into memory, which cannot fail.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text
}
