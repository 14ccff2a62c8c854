//! The server's state for Jupyter's clients.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use tokio::sync::Semaphore;

/// Maximum websockets at a time.
const SOCKETS: usize = 256;

/// The server's state for Jupyter's clients.
pub(in crate::server) struct JupyterState {
    pub(super) sockets: Arc<Semaphore>,
    /// Notebooks that use a kernel, by id.
    pub(super) sessions: Mutex<BTreeMap<String, Entry>>,
    /// Settings of front ends.
    pub(super) config: Mutex<BTreeMap<String, Map<String, Value>>>,
}

impl Default for JupyterState {
    fn default() -> Self {
        Self {
            sockets: Arc::new(Semaphore::new(SOCKETS)),
            sessions: Mutex::default(),
            config: Mutex::default(),
        }
    }
}

/// A front end's notebook and its kernel.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) kernel: String,
}
