//! Reports what code may do in this server's sessions, so that a page makes no false promises.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::state::Shared;
use crate::agent::approval::Approval;
use crate::app::sandbox::{self, SandboxLine};
use crate::app::session;
use crate::app::workspace::KernelAt;
use crate::error::Failure;

/// What `/api/about` answers: of sessions that are new, unless a client wants to be asked more often.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct About {
    /// Of the program.
    version: &'static str,
    sandbox: SandboxAbout,
    /// When a person is asked before code of the model runs.
    approval: Approval,
}

/// How code is confined.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(super) struct SandboxAbout {
    kind: SandboxKind,
    /// For people.
    words: String,
}

#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SandboxKind {
    /// By a sandbox of ours.
    Confined,
    /// Not at all: it can do what the server's person may.
    Full,
    /// As a gateway does it, which runs the kernels.
    Gateway,
    /// As the kernel is that was there before.
    NotOurs,
    /// No session can start: what confines code does not work here.
    Broken,
}

/// What code may do here.
pub(super) async fn about(State(shared): State<Arc<Shared>>) -> Json<About> {
    let context = shared.registry.context();
    let approval = session::usual_approval(&shared.defaults, context);
    let found = || async { expected(&shared).await.map_err(|failure| failure.message) };
    let sandbox = match shared.sandbox.get_or_init(found).await {
        Ok(line) => line.into(),
        Err(message) => SandboxAbout {
            kind: SandboxKind::Broken,
            words: message.clone(),
        },
    };
    Json(About {
        version: env!("CARGO_PKG_VERSION"),
        sandbox,
        approval,
    })
}

/// What code may do in a new session.
async fn expected(shared: &Shared) -> Result<SandboxLine, Failure> {
    let (settings, context) = (&shared.defaults, shared.registry.context());
    let gateway = settings.gateway.as_ref();
    let gateway = gateway.or(context.config.gateway.as_ref());
    let at = KernelAt::of(gateway.is_some(), settings.existing.is_some());
    let made = sandbox::session(&settings.sandbox, at, &shared.root, &[], context).await;
    made.map(|(_, line)| line)
}

impl From<&SandboxLine> for SandboxAbout {
    fn from(line: &SandboxLine) -> Self {
        let kind = match line {
            SandboxLine::Confined(_) => SandboxKind::Confined,
            SandboxLine::Full => SandboxKind::Full,
            SandboxLine::OfGateway => SandboxKind::Gateway,
            SandboxLine::NotOurs => SandboxKind::NotOurs,
        };
        let words = line.words();
        let words = words.strip_prefix("sandbox: ").unwrap_or(words).to_owned();
        Self { kind, words }
    }
}
