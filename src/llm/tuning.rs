//! Settings for asking a model in any mode: examples, bounds, and which failures it sees again.

use super::forget;
use super::types::{Message, Prompt};

/// Settings that small models need and large ones do not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tuning {
    /// An example conversation, put before the real one.
    pub few_shot: Vec<Message>,
    /// Limit for a reply if the prompt sets none: a small model may never stop by itself.
    pub max_output_tokens: Option<u64>,
    /// Temperature if the prompt sets none.
    pub temperature: Option<f64>,
    /// Whether resolved failures are removed from the prompt ([`super::forget`]).
    pub forgets: bool,
}

impl Tuning {
    /// Applies all settings to `prompt`.
    pub(super) fn apply(&self, mut prompt: Prompt) -> Prompt {
        prompt.max_output_tokens = prompt.max_output_tokens.or(self.max_output_tokens);
        prompt.temperature = prompt.temperature.or(self.temperature);
        if self.forgets {
            let remembered = forget::failures(&prompt.messages);
            prompt.messages = remembered.messages;
            // A model that fails repeatedly needs other ideas.
            prompt.temperature = prompt
                .temperature
                .map(|usual| (usual + remembered.restlessness).min(1.0));
        }
        if !self.few_shot.is_empty() {
            let mut messages = self.few_shot.clone();
            messages.append(&mut prompt.messages);
            prompt.messages = messages;
        }
        prompt
    }

    /// Applies only the limit, for a prompt outside the conversation.
    pub(super) fn bound(&self, mut prompt: Prompt) -> Prompt {
        prompt.max_output_tokens = prompt.max_output_tokens.or(self.max_output_tokens);
        prompt
    }
}
