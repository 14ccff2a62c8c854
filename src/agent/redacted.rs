//! A provider wrapper that redacts secrets before they are sent to the model.

use std::borrow::Cow;
use std::sync::Arc;

use crate::kernel::Redactor;
use crate::llm::types::{
    BoxStream, Delta, Message, ModelInfo, Part, Prompt, Provider, ProviderError,
};

/// A provider behind a redactor. Text that the model wrote is sent back to it unchanged.
struct Redacted {
    provider: Arc<dyn Provider>,
    redactor: Redactor,
}

/// Wraps `provider` so that secrets found by `redactor` are never sent.
pub(super) fn redacted(provider: Arc<dyn Provider>, redactor: &Redactor) -> Arc<dyn Provider> {
    Arc::new(Redacted {
        provider,
        redactor: redactor.clone(),
    })
}

impl Provider for Redacted {
    fn info(&self) -> &ModelInfo {
        self.provider.info()
    }

    fn stream(&self, mut prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        if let Cow::Owned(system) = self.redactor.all(&prompt.system) {
            prompt.system = system;
        }
        for message in &mut prompt.messages {
            let parts = match message {
                Message::User(parts) | Message::ToolResult { parts, .. } => parts,
                Message::Assistant { .. } => continue,
            };
            for part in parts {
                let Part::Text(text) = part else { continue };
                if let Cow::Owned(other) = self.redactor.all(text) {
                    *text = other;
                }
            }
        }
        self.provider.stream(prompt)
    }
}
