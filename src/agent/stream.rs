//! A session's stream as subscribers see it: a numbered list of items, each an [`Edit`] of the transcript or an event
//! outside it (`docs/events.md`).
//!
//! - [`log`]: the newest items of a session, bounded in bytes. The session appends and never waits.
//! - [`snapshot`]: everything a new subscriber needs before its first item.
//! - [`handle`]: access to the session: commands, and reading its state.
//! - [`client`]: a front end's connection: items out, commands and queries in.
//! - [`view`]: the stream as a screen shows it.
//!
//! A subscriber is a position in the log. One that falls behind the oldest item must take a new snapshot, so that a
//! thousand slow subscribers cost the session nothing.

pub mod client;
pub mod handle;
pub mod log;
pub mod snapshot;
pub mod view;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::event::EventKind;
use crate::session::Edit;

pub use client::{Client, Queries, Received};
pub use handle::{Rejection, SessionHandle};
pub use log::Log;
pub use snapshot::{PendingRequest, SessionState, Snapshot};
pub use view::View;

/// Version of the protocol; raised when a client of the previous version would misread something.
pub const VERSION: u32 = 1;

/// Where an item stands in a session's stream, as `<epoch>-<sequence>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId {
    /// When the process that runs the session opened it, in milliseconds since 1970: sequences of two epochs have nothing
    /// to do with each other.
    pub epoch: u64,
    /// Counts the items of an epoch from 1 without gaps; 0 is before the first.
    pub sequence: u64,
}

/// One step of a session's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    /// Its place.
    pub id: ItemId,
    /// What happened.
    #[serde(flatten)]
    pub body: Body,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// The transcript changed. Anyone who applies all edits in order has the session's transcript.
    Edit {
        /// The transcript's revision after it. Edits of text are joined, so revisions can skip.
        revision: u64,
        /// The client that caused it; absent for what model and kernels do.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The change.
        edit: Edit,
    },
    /// Something happened that is no part of the transcript.
    Event {
        /// What.
        #[serde(flatten)]
        event: EventKind,
    },
}

impl fmt::Display for ItemId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.sequence)
    }
}

/// The text is not `<epoch>-<sequence>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an item's id, which is `<epoch>-<sequence>`")]
pub struct NotAnId(String);

impl FromStr for ItemId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, NotAnId> {
        let parsed = text.split_once('-').and_then(|(epoch, sequence)| {
            Some(Self {
                epoch: epoch.parse().ok()?,
                sequence: sequence.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| NotAnId(text.to_owned()))
    }
}

impl Serialize for ItemId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for ItemId {
    fn schema_name() -> Cow<'static, str> {
        "ItemId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+-[0-9]+$"})
    }
}

impl<'de> Deserialize<'de> for ItemId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
