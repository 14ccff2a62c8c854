//! What the server keeps for E2B's clients.

use std::sync::Arc;

use crate::app::sandboxes::{NewSandbox, ProgramSandbox, SandboxError, Sandboxes};

/// The sandbox of clients in debug mode.
pub(super) const DEBUG: &str = "debug_sandbox_id";

/// The server's part of E2B.
pub(in crate::server) struct E2bState {
    pub(in crate::server) sandboxes: Sandboxes,
    /// Whether programs of this machine need no key (`--e2b-debug`).
    pub(super) debug: bool,
}

impl E2bState {
    pub(in crate::server) fn new(sandboxes: Sandboxes, debug: bool) -> Self {
        Self { sandboxes, debug }
    }

    /// The one sandbox of clients in debug mode, which is made when it is wanted first.
    pub(super) async fn debug_sandbox(&self) -> Result<Arc<ProgramSandbox>, SandboxError> {
        if let Ok(sandbox) = self.sandboxes.get(DEBUG) {
            return Ok(sandbox);
        }
        let new = NewSandbox {
            template: "debug".to_owned(),
            id: Some(DEBUG.to_owned()),
            ..NewSandbox::default()
        };
        self.sandboxes.create(new).await
    }
}
