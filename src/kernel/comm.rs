//! Messages of widgets and other comms (messaging spec, "Custom Messages"; JEP 65 does not cover them).
//!
//! They come in order with the outputs of the execution that caused them, because a widget may capture these outputs.
//! Deliberately not here: widgets themselves (`session::widgets`).

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::jupyter::content::Content;

/// A message of a comm, from the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Comm {
    /// The comm's id.
    pub id: String,
    /// Its kind.
    pub kind: CommKind,
    /// Its `data`.
    pub data: Map<String, Value>,
    /// Binary values that `data.buffer_paths` names.
    pub buffers: Vec<Bytes>,
}

/// Kinds of comm messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommKind {
    /// A comm opens, for this target.
    Open {
        /// `jupyter.widget` for widgets.
        target: String,
    },
    /// A message on it.
    Message,
    /// It closes.
    Close,
}

impl Comm {
    /// The comm message in an iopub message, if it is one.
    pub(super) fn from_content(content: &mut Content, buffers: Vec<Bytes>) -> Option<Self> {
        let Content::Other { msg_type, content } = content else {
            return None;
        };
        let text =
            |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let kind = match msg_type.as_str() {
            "comm_open" => CommKind::Open {
                target: text(content, "target_name").unwrap_or_default(),
            },
            "comm_msg" => CommKind::Message,
            "comm_close" => CommKind::Close,
            _ => return None,
        };
        let id = text(content, "comm_id")?;
        let data = match content.get_mut("data").map(Value::take) {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        Some(Self {
            id,
            kind,
            data,
            buffers,
        })
    }
}
