//! The state of an MCP server, for all transports: its sessions, waiting turns, and subscribers to changes.

use std::sync::Arc;

use tokio::sync::{OnceCell, broadcast};

use super::change::Change;
use super::parked::Parked;
use crate::app::executor::{Executor, SharedPreparer};
use crate::app::model;

/// How many changes a slow subscriber may lag behind.
const CHANGES: usize = 256;

/// Sessions served over MCP; clones share them.
#[derive(Clone)]
pub struct McpServer {
    shared: Arc<Shared>,
}

struct Shared {
    executor: Executor,
    has_model: OnceCell<bool>,
    parked: Parked,
    changes: broadcast::Sender<Change>,
    preparer: SharedPreparer,
}

impl McpServer {
    /// Serves the sessions of `executor`.
    pub fn new(executor: Executor) -> Self {
        Self {
            shared: Arc::new(Shared {
                executor,
                has_model: OnceCell::new(),
                parked: Parked::default(),
                changes: broadcast::Sender::new(CHANGES),
                preparer: SharedPreparer::default(),
            }),
        }
    }

    /// Whether a model can be asked.
    pub(super) async fn has_model(&self) -> bool {
        let executor = self.executor();
        let context = executor.registry().context();
        let is_named = executor.settings().model.is_some() || context.config.model.is_some();
        let looked = self.shared.has_model.get_or_init(|| model::is_any(context));
        is_named || *looked.await
    }

    /// The executor that runs the code.
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    pub(super) fn parked(&self) -> &Parked {
        &self.shared.parked
    }

    pub(super) fn preparer(&self) -> &SharedPreparer {
        &self.shared.preparer
    }

    /// Notifies subscribers.
    pub(super) fn changed(&self, change: Change) {
        // There may be no listener.
        let _ = self.shared.changes.send(change);
    }

    /// All changes from now on.
    pub(super) fn changes(&self) -> broadcast::Receiver<Change> {
        self.shared.changes.subscribe()
    }
}
