//! The status of a session, for queries.

use super::Session;
use crate::agent::query::{ContextUse, SessionStatus};
use crate::llm::tokens;

impl Session {
    pub(super) fn status(&self) -> SessionStatus {
        let provider = self.options.provider.as_ref();
        SessionStatus {
            model: provider.map(|provider| provider.info().name.clone()),
            context: self.context_use(),
            spent: self.transcript.spent().into(),
            approval: self.turn.approval(),
            sandbox: self.options.confinement.clone(),
            directory: self.options.kernel.cwd.display().to_string(),
            notebook: self.options.notebook.display().to_string(),
        }
    }

    /// What the model would read now.
    fn context_use(&self) -> ContextUse {
        if self.options.provider.is_none() {
            return ContextUse::default();
        }
        let weight = tokens::weigh(&self.prompt());
        ContextUse {
            tokens: self.asking.budget.tokens(weight),
            window: self.window(),
        }
    }
}
