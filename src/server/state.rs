//! The state that every handler gets.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::OnceCell;

use super::access::Access;
use super::codeapi::state::CodeApiState;
use super::counters::Counters;
use super::e2b::state::E2bState;
use super::encoded::EncodedStreams;
use super::jupyter::state::JupyterState;
use super::keys::Keys;
use super::mcp_state::McpState;
use super::openai::state::OpenAiState;
use super::problem::Problem;
use super::terminal::state::TerminalState;
use super::ticket::Tickets;
use crate::app::SessionSettings;
use crate::app::registry::{KernelRegistry, LiveSession, Registry};
use crate::app::sandbox::SandboxLine;
use crate::app::sandboxes::Sandboxes;
use crate::app::tenants::Scope;

/// The server's state.
pub(super) struct Shared {
    /// The sessions.
    pub(super) registry: Registry,
    /// Kernels for Jupyter's clients.
    pub(super) kernels: KernelRegistry,
    /// Other state for Jupyter's clients.
    pub(super) jupyter: JupyterState,
    /// State for MCP clients.
    pub(super) mcp: McpState,
    /// State for OpenAI's wire.
    pub(super) openai: OpenAiState,
    /// State for programs that run scripts: LibreChat's wire and Dify's.
    pub(super) codeapi: CodeApiState,
    /// State for Open WebUI.
    pub(super) terminal: TerminalState,
    /// State for E2B's API.
    pub(super) e2b: E2bState,
    /// The access rules.
    pub(super) access: Access,
    /// What clients may do.
    pub(super) scope: Scope,
    /// The directory of sessions, without links; they work in it or below it.
    pub(super) root: PathBuf,
    /// The settings of sessions unless a client chooses otherwise.
    pub(super) defaults: SessionSettings,
    /// Commands that were sent with a key.
    pub(super) keys: Keys,
    /// What is counted.
    pub(super) counters: Counters,
    /// Encoded messages, shared by the clients of a session.
    pub(super) encoded: EncodedStreams,
    /// Tickets for the frames of outputs.
    pub(super) tickets: Tickets,
    /// What code may do, once it has been determined.
    pub(super) sandbox: OnceCell<Result<SandboxLine, String>>,
    /// When the server started.
    pub(super) started: Instant,
}

impl Shared {
    pub(super) fn new(
        registry: Registry,
        access: Access,
        scope: Scope,
        root: PathBuf,
        defaults: SessionSettings,
        e2b_debug: bool,
    ) -> Self {
        let context = registry.context().clone();
        let most = registry.limits().sessions;
        let sandboxes = Sandboxes::new(context, defaults.clone(), most);
        Self {
            e2b: E2bState::new(sandboxes, e2b_debug),
            kernels: KernelRegistry::new(registry.clone(), defaults.clone()),
            jupyter: JupyterState::default(),
            mcp: McpState::new(&registry, &defaults, &root),
            openai: OpenAiState::new(&registry, &defaults),
            codeapi: CodeApiState::new(&registry, &defaults),
            terminal: TerminalState::new(&registry, &defaults, &root),
            registry,
            access,
            scope,
            root,
            defaults,
            keys: Keys::default(),
            counters: Counters::default(),
            encoded: EncodedStreams::default(),
            tickets: Tickets::new(),
            sandbox: OnceCell::new(),
            started: Instant::now(),
        }
    }

    /// Saves and ends everything.
    pub(super) async fn close(&self) {
        tokio::join!(
            self.e2b.sandboxes.close(),
            self.kernels.close(),
            self.registry.close()
        );
    }

    /// The running session `id`.
    pub(super) fn live(&self, id: &str) -> Result<Arc<LiveSession>, Problem> {
        let live = self.registry.get(id);
        live.ok_or_else(|| match self.registry.ended(id) {
            Some(ended) => Problem::ended(ended),
            None => Problem::no_session(id),
        })
    }
}
