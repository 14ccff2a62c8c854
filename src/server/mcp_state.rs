//! The server's state for MCP clients: its sessions, and the clients with a handshake.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::app::SessionSettings;
use crate::app::executor::Executor;
use crate::app::registry::Registry;
use crate::mcp::{Caller, Followed, McpServer};
use crate::rpc::Questions;

/// How many clients with a handshake are remembered.
const CLIENTS: usize = 1000;

/// The state of MCP.
pub(super) struct McpState {
    pub(super) server: McpServer,
    clients: Mutex<HashMap<String, Arc<Handshake>>>,
}

/// A client with a handshake.
pub(super) struct Handshake {
    pub(super) caller: Caller,
    pub(super) questions: Arc<Questions>,
    pub(super) followed: Followed,
    /// Its running requests.
    pub(super) running: Mutex<HashMap<String, CancellationToken>>,
    used: Mutex<Instant>,
}

impl McpState {
    pub(super) fn new(registry: &Registry, settings: &SessionSettings, root: &Path) -> Self {
        let executor = Executor::new(registry.clone(), settings.clone(), root.to_owned());
        Self {
            server: McpServer::new(executor),
            clients: Mutex::default(),
        }
    }

    /// Adds a client. Returns the id that its requests must send.
    pub(super) fn enter(&self, caller: Caller) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let handshake = Handshake {
            caller,
            questions: Arc::default(),
            followed: Followed::default(),
            running: Mutex::default(),
            used: Mutex::new(Instant::now()),
        };
        let mut clients = lock(&self.clients);
        if clients.len() >= CLIENTS {
            let oldest = clients.iter().min_by_key(|(_, it)| *lock(&it.used));
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| clients.remove(&id));
        }
        clients.insert(id.clone(), Arc::new(handshake));
        id
    }

    /// The client with this id.
    pub(super) fn get(&self, id: &str) -> Option<Arc<Handshake>> {
        let found = lock(&self.clients).get(id).cloned()?;
        *lock(&found.used) = Instant::now();
        Some(found)
    }

    /// Removes a client and cancels its requests. Returns whether it existed.
    pub(super) fn forget(&self, id: &str) -> bool {
        let Some(gone) = lock(&self.clients).remove(id) else {
            return false;
        };
        gone.running().drain().for_each(|(_, token)| token.cancel());
        true
    }
}

impl Handshake {
    pub(super) fn running(&self) -> MutexGuard<'_, HashMap<String, CancellationToken>> {
        lock(&self.running)
    }
}

/// Consistent after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
