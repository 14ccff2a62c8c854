//! Changes for clients, and which client follows what.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::rpc::{Request, notification};

/// How many resources a client can follow.
const MOST: usize = 100;

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// The list of resources changed.
    List,
    /// The content of this resource changed.
    Updated(String),
}

impl Change {
    /// The change as a message.
    pub(super) fn message(&self, meta: Option<Value>) -> Value {
        let (method, mut params) = match self {
            Self::List => ("notifications/resources/list_changed", json!({})),
            Self::Updated(uri) => ("notifications/resources/updated", json!({ "uri": uri })),
        };
        if let Some(meta) = meta {
            params["_meta"] = meta;
        }
        notification(method, &params)
    }
}

/// Resources that a client with a handshake follows; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Followed(Arc<Mutex<BTreeSet<String>>>);

impl Followed {
    /// Handles a request to follow or unfollow a resource. Returns whether `request` was one.
    pub fn take(&self, request: &Request) -> bool {
        let uri = request.params.get("uri").and_then(Value::as_str);
        let Some(uri) = uri else { return false };
        let mut followed = self.uris();
        match request.method.as_str() {
            "resources/subscribe" => {
                if followed.len() < MOST {
                    followed.insert(uri.to_owned());
                }
                true
            }
            "resources/unsubscribe" => {
                followed.remove(uri);
                true
            }
            _ => false,
        }
    }

    /// Whether the client follows what changed.
    pub(super) fn wants(&self, change: &Change) -> bool {
        match change {
            Change::List => true,
            Change::Updated(uri) => self.uris().contains(uri),
        }
    }

    /// Consistent after every change.
    fn uris(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
