//! Lets other processes of the same person attach to a running session, through a unix socket with the session
//! protocol (`docs/events.md`), one JSON object per line.
//!
//! - [`server`]: the process that runs the session listens; each connection is one client.
//! - [`connection`]: the attaching process, which gets a [`Client`](crate::agent::stream::Client).
//!
//! The socket has mode 0600 in a directory of mode 0700; a peer of another user is also rejected. A connection has no
//! queue of its own: it reads the session's log at its own pace, and is cut if it accepts nothing for
//! [`server::STALLED`]. A client that sends the id of its last item continues after it.

pub mod connection;
pub mod lines;
pub mod server;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Command;
use crate::agent::query::{Query, QueryAnswer, QueryError};
use crate::agent::stream::{Item, ItemId, Rejection, Snapshot};

pub use connection::{AttachError, attach};
pub use server::{Listener, listen, private_dir};

/// What a client sends.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FromClient {
    /// The first line.
    Hello {
        /// Of the protocol.
        version: u32,
        /// Under which others are to see what it does.
        name: String,
        /// What only the person's own programs can read: the file beside the socket. Code in a sandbox may reach the socket
        /// (Landlock does not stop that), and not the file.
        token: String,
        /// The last item that it has, to go on from there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<ItemId>,
    },
    /// It wants something.
    Command {
        /// Named in the answer.
        id: u64,
        /// What.
        command: Command,
    },
    /// It wants to know something.
    Query {
        /// Named in the answer.
        id: u64,
        /// What.
        query: Query,
    },
}

// The token must not reach a log.
impl std::fmt::Debug for FromClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hello { version, name, .. } => f
                .debug_struct("Hello")
                .field("version", version)
                .field("name", name)
                .finish_non_exhaustive(),
            Self::Command { id, command } => f
                .debug_struct("Command")
                .field("id", id)
                .field("command", command)
                .finish(),
            Self::Query { id, query } => f
                .debug_struct("Query")
                .field("id", id)
                .field("query", query)
                .finish(),
        }
    }
}

/// What the session's process sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FromServer {
    /// The first line.
    Welcome {
        /// Of the protocol.
        version: u32,
        /// The session's id.
        session: String,
        /// Under which others see what the client does: no two have the same.
        name: String,
    },
    /// The session as it is: before the first item, unless the client goes on where it was, and whenever items are
    /// gone.
    Snapshot(Box<Snapshot>),
    /// The next item.
    Item(Box<Item>),
    /// The command was accepted.
    Accepted {
        /// Of the command.
        id: u64,
        /// What it leads to comes behind this item.
        after: ItemId,
    },
    /// The command was not accepted.
    Rejected {
        /// Of the command.
        id: u64,
        /// Why.
        #[serde(flatten)]
        rejection: Rejection,
    },
    /// The answer to a query, for this client alone.
    Answer {
        /// Of the query.
        id: u64,
        /// What was asked for.
        #[serde(flatten)]
        answer: QueryAnswer,
    },
    /// A query has no answer.
    Refused {
        /// Of the query.
        id: u64,
        /// Why.
        #[serde(flatten)]
        error: QueryError,
    },
    /// A line of the client was not understood; it is as if it had not been sent.
    Unreadable {
        /// What is wrong with it.
        message: String,
    },
}

impl FromServer {
    /// The answer to a client's query.
    pub fn answered(id: u64, answer: Result<QueryAnswer, QueryError>) -> Self {
        match answer {
            Ok(answer) => Self::Answer { id, answer },
            Err(error) => Self::Refused { id, error },
        }
    }

    /// The reply to a client's command.
    pub fn decided(id: u64, decided: Result<ItemId, Rejection>) -> Self {
        match decided {
            Ok(after) => Self::Accepted { id, after },
            Err(rejection) => Self::Rejected { id, rejection },
        }
    }
}

/// The path of a session's socket; `dir` is the person's directory for sockets.
pub fn socket_of(dir: &Path, session: &str) -> PathBuf {
    sockets(dir).join(format!("{session}.sock"))
}

/// The path of its token.
fn token_of(dir: &Path, session: &str) -> PathBuf {
    sockets(dir).join(format!("{session}.token"))
}

fn sockets(dir: &Path) -> PathBuf {
    // Another person may have a directory of the same name in a shared temporary directory.
    dir.join(format!("sponde.{}", rustix::process::geteuid().as_raw()))
}

/// The sessions that can be attached to, by id, newest first.
pub fn attachable(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(sockets(dir));
    let mut ids: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // A socket without a listener was left by a run that was killed.
            std::os::unix::net::UnixStream::connect(entry.path()).ok()?;
            Some(name.strip_suffix(".sock")?.to_owned())
        })
        .collect();
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids
}
