//! Reports a session's cells as tool calls: announced once, then updated at a rate that clients can display.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::acp::peer::Peer;
use crate::acp::tool_call::ShownCell;
use crate::acp::updates;
use crate::app::registry::LiveSession;

/// How often outputs are sent while a cell runs.
const EVERY: Duration = Duration::from_millis(500);
/// The same for a cell with much output, all of which is sent each time.
const EVERY_LARGE: Duration = Duration::from_secs(5);
/// How many bytes count as much.
const LARGE: usize = 256 << 10;
/// How many announced cells are remembered: a forgotten one is announced again.
const ANNOUNCED: usize = 100_000;

pub(super) struct Cells {
    live: Arc<LiveSession>,
    peer: Peer,
    announced: HashSet<String>,
    /// Cells with code that the model is writing.
    writing: BTreeSet<String>,
    /// Cells that changed since they were last sent.
    changed: BTreeSet<String>,
    /// When they can next be sent.
    next: Instant,
}

impl Cells {
    pub(super) fn new(live: Arc<LiveSession>, peer: Peer) -> Self {
        Self {
            live,
            peer,
            announced: HashSet::new(),
            writing: BTreeSet::new(),
            changed: BTreeSet::new(),
            next: Instant::now(),
        }
    }

    /// When something must be sent.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.changed.is_empty()).then_some(self.next)
    }

    /// The model writes code of a cell.
    pub(super) async fn written(&mut self, cell: &str) {
        if self.writing.insert(cell.to_owned()) && self.announce(cell) {
            self.peer
                .update(&self.live.id, updates::writing(cell))
                .await;
        }
    }

    /// Drops code that was never completed.
    pub(super) async fn give_up_written(&mut self) {
        for cell in std::mem::take(&mut self.writing) {
            let fields = json!({ "title": "Code that was not completed", "status": "failed" });
            self.peer
                .update(&self.live.id, updates::tool_update(&cell, fields))
                .await;
        }
    }

    /// Outputs of a cell have changed.
    pub(super) fn changed(&mut self, cell: &str) {
        self.changed.insert(cell.to_owned());
    }

    /// Sends all changed cells.
    pub(super) async fn flush(&mut self) {
        for cell in std::mem::take(&mut self.changed) {
            self.show(&cell).await;
        }
    }

    /// The current state of a cell in the session.
    pub(super) async fn look(&self, cell: &str) -> Option<ShownCell> {
        let main = self
            .live
            .kernels
            .first()
            .map(|it| it.language.clone())
            .unwrap_or_default();
        let id = cell.to_owned();
        let look = self
            .live
            .handle()
            .look(move |all| ShownCell::of(all.cell(&id)?, &main));
        look.await.ok().flatten()
    }

    /// Sends the current state of a cell.
    pub(super) async fn show(&mut self, cell: &str) {
        self.changed.remove(cell);
        self.writing.remove(cell);
        let Some(shown) = self.look(cell).await else {
            return;
        };
        let mut pictures = usize::MAX;
        let fields = shown.fields(&self.live.notebook, &self.live.directory, &mut pictures);
        let is_large = usize::MAX - pictures > LARGE;
        self.next = Instant::now() + if is_large { EVERY_LARGE } else { EVERY };
        let update = if self.announce(cell) {
            updates::tool_call(fields)
        } else {
            updates::tool_update(cell, fields)
        };
        self.peer.update(&self.live.id, update).await;
    }

    fn announce(&mut self, cell: &str) -> bool {
        if self.announced.len() >= ANNOUNCED {
            self.announced.clear();
        }
        self.announced.insert(cell.to_owned())
    }
}
