//! Models by name: how a session gets another one while it runs.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::guidance::Coaching;
use crate::llm::types::Provider;

/// A model, and how a session treats it.
#[derive(Clone)]
pub struct ModelSetup {
    /// Asks it.
    pub provider: Arc<dyn Provider>,
    /// Its system prompt.
    pub system: String,
    /// Whether it is helped where it forgets.
    pub coaching: Coaching,
    /// Bytes of a cell's text outputs that it gets.
    pub output_budget: usize,
}

/// A model on its way; dropping it gives up.
pub type Opening = Pin<Box<dyn Future<Output = Result<ModelSetup, String>> + Send>>;

/// The part that knows models by name: a front end, for keys, configuration and servers of models are its business.
pub trait Models: Send + Sync {
    /// The model that `name` means (as for `--model`), or why there is none, in words for a person. May take long: a
    /// server may have to be started.
    fn open(&self, name: &str) -> Opening;
}
