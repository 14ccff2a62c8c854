//! Asks a model for code in one of several ways and always presents the same stream: code as tool calls, the rest as
//! text.
//!
//! Each way is a [`Manner`]: one each in [`super::native`], [`super::constrained`] and [`super::fenced`].

mod piece;
mod translation;

use std::sync::Arc;

use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError, ToolSpec};
pub(super) use piece::{Accept, Piece, ReadReply};
use translation::translated;

/// How a model is asked for code, and how its reply is read.
pub(super) trait Manner: Send + Sync {
    /// Whether the model gets the tool through the wire's own tool calls.
    fn offers_tools(&self) -> bool {
        false
    }

    /// The prompt for a reply that may run code with `tool`, and a reader that finds the code in the reply.
    fn ask(&self, prompt: Prompt, tool: &ToolSpec) -> (Prompt, Box<dyn ReadReply>);

    /// The prompt for a reply in free text, or for the prompt's own schema.
    fn plain(&self, prompt: Prompt) -> Prompt;
}

/// A provider that asks for code in a certain manner.
#[derive(Clone)]
pub struct Coded {
    inner: Arc<dyn Provider>,
    info: ModelInfo,
    manner: Arc<dyn Manner>,
}

impl Coded {
    /// Wraps `inner` so that it is asked in this manner: [`super::tuning::Tuning`] for tool calls,
    /// [`super::constrained::ConstrainedOptions`] for a provider that honours [`Prompt::reply_schema`],
    /// [`super::fenced::FencedOptions`] for one that writes text.
    #[expect(private_bounds, reason = "the three manners there are")]
    pub fn new(inner: Arc<dyn Provider>, manner: impl Manner + 'static) -> Self {
        let mut info = inner.info().clone();
        if !manner.offers_tools() {
            // Even if the model supports tools.
            info.tools = Some(false);
        }
        Self {
            inner,
            info,
            manner: Arc::new(manner),
        }
    }
}

impl Provider for Coded {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// A prompt's only tool is the one that runs code; a prompt without tools asks for free text.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        let Some(tool) = prompt.tools.first().cloned() else {
            return self.inner.stream(self.manner.plain(prompt));
        };
        let (prompt, reader) = self.manner.ask(prompt, &tool);
        translated(&*self.inner, prompt, reader, tool.name)
    }
}
