//! Opens models by name, so that a running session can switch.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::guidance::Coaching;
use crate::llm::types::Provider;

/// A model and its settings in a session.
#[derive(Clone)]
pub struct ModelSetup {
    /// Sends requests to it.
    pub provider: Arc<dyn Provider>,
    /// Its system prompt.
    pub system: String,
    /// Whether it is reminded of what it forgets.
    pub coaching: Coaching,
    /// Bytes of text that it gets of a cell's outputs.
    pub output_budget: usize,
}

/// A model being opened; dropping it cancels.
pub type Opening = Pin<Box<dyn Future<Output = Result<ModelSetup, String>> + Send>>;

/// Opens models by name. Implemented by front ends, because keys, configuration and model servers are theirs.
pub trait Models: Send + Sync {
    /// The model called `name` (as for `--model`), or a message for a person. May take long: a server may have to
    /// start.
    fn open(&self, name: &str) -> Opening;
}
