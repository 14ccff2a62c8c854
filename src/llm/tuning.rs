//! How a model is asked whatever its way to run code: examples, bounds, what of its failures it sees again.

use super::forget;
use super::types::{Message, Prompt};

/// What a small model needs, and a large one does not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tuning {
    /// An example conversation, put before the real one.
    pub few_shot: Vec<Message>,
    /// Bound on a reply where the prompt sets none: a small model may never stop by itself.
    pub max_output_tokens: Option<u64>,
    /// Temperature where the prompt sets none.
    pub temperature: Option<f64>,
    /// Whether failures that are over are taken out of the prompt ([`super::forget`]).
    pub forgets: bool,
}

impl Tuning {
    /// `prompt`, so tuned.
    pub(super) fn apply(&self, mut prompt: Prompt) -> Prompt {
        prompt.max_output_tokens = prompt.max_output_tokens.or(self.max_output_tokens);
        prompt.temperature = prompt.temperature.or(self.temperature);
        if self.forgets {
            let remembered = forget::failures(&prompt.messages);
            prompt.messages = remembered.messages;
            // A model that fails again and again needs another idea.
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

    /// `prompt` with the bound only, for words that are no part of the conversation.
    pub(super) fn bound(&self, mut prompt: Prompt) -> Prompt {
        prompt.max_output_tokens = prompt.max_output_tokens.or(self.max_output_tokens);
        prompt
    }
}
