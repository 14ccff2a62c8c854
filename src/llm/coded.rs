//! A model that is asked in one of the ways to run code, and looks the same from outside whatever the way: code streams
//! as calls of a tool, the rest as text.
//!
//! A way is a [`Manner`]: [`super::native`], [`super::constrained`] and [`super::fenced`] have one each.

mod piece;
mod translation;

use std::sync::Arc;

use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError, ToolSpec};
pub(super) use piece::{Accept, Piece, ReadReply};
use translation::translated;

/// How a model is asked for code, and how its reply is read.
pub(super) trait Manner: Send + Sync {
    /// Whether the model is offered the tool as its wire has it.
    fn offers_tools(&self) -> bool {
        false
    }

    /// The prompt for a reply that may run code with `tool`, and what finds the code in it.
    fn ask(&self, prompt: Prompt, tool: &ToolSpec) -> (Prompt, Box<dyn ReadReply>);

    /// The prompt for a reply in free text, or after the prompt's own schema.
    fn plain(&self, prompt: Prompt) -> Prompt;
}

/// A provider that is asked in a certain manner.
#[derive(Clone)]
pub struct Coded {
    inner: Arc<dyn Provider>,
    info: ModelInfo,
    manner: Arc<dyn Manner>,
}

impl Coded {
    /// `inner`, asked as `manner` says: [`super::tuning::Tuning`] for calls of tools,
    /// [`super::constrained::ConstrainedOptions`] for a provider that honours [`Prompt::reply_schema`],
    /// [`super::fenced::FencedOptions`] for one that writes text.
    #[expect(private_bounds, reason = "the three manners there are")]
    pub fn new(inner: Arc<dyn Provider>, manner: impl Manner + 'static) -> Self {
        let mut info = inner.info().clone();
        if !manner.offers_tools() {
            // Whatever the model could.
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

    /// A prompt with tools is taken to have one, which runs code; one without is asked for free text.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        let Some(tool) = prompt.tools.first().cloned() else {
            return self.inner.stream(self.manner.plain(prompt));
        };
        let (prompt, reader) = self.manner.ask(prompt, &tool);
        translated(&*self.inner, prompt, reader, tool.name)
    }
}
