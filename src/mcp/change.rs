//! What changed for clients, and which of them follow what.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::rpc::{Request, notification};

/// Resources that one client follows.
const MOST: usize = 100;

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// There are others, or other ones.
    List,
    /// This one is not what it was.
    Updated(String),
}

impl Change {
    /// It as a message.
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
    /// Whether `request` was a wish to follow a resource or not to, which is granted now.
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

    /// Whether it follows what changed.
    pub(super) fn wants(&self, change: &Change) -> bool {
        match change {
            Change::List => true,
            Change::Updated(uri) => self.uris().contains(uri),
        }
    }

    /// Whole after every change.
    fn uris(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
