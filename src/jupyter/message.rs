//! A Jupyter message: header, parent header, metadata, content, buffers (messaging spec, "General Message Format").
//!
//! Invariant: every message we create has a header of protocol version 5.4 and a fresh `msg_id`. The date is passed in;
//! this module has no clock.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::content::Content;

/// The protocol version we speak (messaging spec, "Versioning").
pub const PROTOCOL_VERSION: &str = "5.4";

/// One of the sockets of a kernel (messaging spec, "Introduction"); the heartbeat carries no messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Channel {
    /// Requests that run in order: execute, complete, inspect.
    Shell,
    /// Requests that must not queue behind a running cell: interrupt, shutdown.
    Control,
    /// The kernel asks us for a line of input.
    Stdin,
    /// Everything the kernel publishes: status, streams, results.
    IoPub,
}

impl Channel {
    /// The name used in connection files and on the websocket.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::IoPub => "iopub",
        }
    }
}

/// The header of a message (messaging spec, "Message header").
///
/// Real kernels leave fields out; a missing one reads as empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Unique id of the message.
    pub msg_id: String,
    /// Id of the client's session, which is also the identity of our sockets.
    pub session: String,
    /// Name of the sender.
    pub username: String,
    /// ISO 8601 time.
    pub date: String,
    /// Type of the content.
    pub msg_type: String,
    /// Protocol version of the sender.
    pub version: String,
    /// The subshell that runs the request (JEP 91).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subshell_id: Option<String>,
}

/// A message, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its own header.
    pub header: Header,
    /// The header of the request it answers; `None` for an empty parent.
    pub parent: Option<Header>,
    /// Metadata, usually empty.
    pub metadata: Map<String, Value>,
    /// The content, typed by `header.msg_type`.
    pub content: Content,
    /// Raw binary buffers (widgets).
    pub buffers: Vec<Bytes>,
}

impl Message {
    /// A new request of ours.
    pub fn request(content: Content, session: &str, username: &str, date: String) -> Self {
        Self::request_named(new_id(), content, session, username, date)
    }

    /// The same with a `msg_id` from [`new_id`] that was created earlier.
    pub(crate) fn request_named(
        msg_id: String,
        content: Content,
        session: &str,
        username: &str,
        date: String,
    ) -> Self {
        Self {
            header: Header {
                msg_id,
                session: session.to_owned(),
                username: username.to_owned(),
                date,
                msg_type: content.msg_type().to_owned(),
                version: PROTOCOL_VERSION.to_owned(),
                subshell_id: None,
            },
            parent: None,
            metadata: Map::new(),
            content,
            buffers: Vec::new(),
        }
    }

    /// The same message with `parent` as its parent, as `input_reply` needs it.
    #[must_use]
    pub fn answering(mut self, parent: Header) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Whether its parent is a request of that session.
    pub fn is_child_of(&self, session: &str) -> bool {
        self.parent
            .as_ref()
            .is_some_and(|parent| parent.session == session)
    }

    /// The `msg_id` of the request this message belongs to.
    pub fn parent_id(&self) -> Option<&str> {
        self.parent
            .as_ref()
            .map(|p| p.msg_id.as_str())
            .filter(|id| !id.is_empty())
    }
}

/// A unique `msg_id`.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
