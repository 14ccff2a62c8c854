//! Switches the model in the middle of a session (`/model`), and manages the server that we may have started for it.

use std::sync::{Arc, Mutex, PoisonError};

use super::local::OwnServer;
use super::{Chosen, Wanted, choose, none};
use crate::agent::prompt::{self, Instructions};
use crate::agent::{ModelSetup, Models, Opening};
use crate::app::Context;
use crate::error::Failure;
use crate::llm::mode::CodeMode;

/// Opens models for a session.
pub struct Switchboard {
    context: Context,
    mode: Option<CodeMode>,
    language: String,
    /// Text added to every system prompt.
    instructions: Vec<Instructions>,
    /// The server that we started for the current model, if any.
    own: Mutex<Option<OwnServer>>,
}

impl Switchboard {
    /// For a session whose main kernel has this `language`.
    pub fn new(
        context: &Context,
        mode: Option<CodeMode>,
        language: &str,
        instructions: Vec<Instructions>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            mode: mode.or(context.config.code_mode),
            language: language.to_owned(),
            instructions,
            own: Mutex::new(None),
        })
    }

    /// A session's first model: the named one, or the best available.
    ///
    /// # Errors
    /// The model cannot be opened, or no model is found.
    pub async fn first(&self, name: Option<&str>) -> Result<ModelSetup, Failure> {
        self.if_any(name).await?.ok_or_else(none)
    }

    /// The same; `None` if no model is named and none is found.
    ///
    /// # Errors
    /// The model is not available.
    pub async fn if_any(&self, name: Option<&str>) -> Result<Option<ModelSetup>, Failure> {
        let wanted = Wanted {
            mode: self.mode,
            language: &self.language,
        };
        let Some(chosen) = choose(name, &wanted, &self.context).await? else {
            return Ok(None);
        };
        let Chosen {
            provider,
            coaching,
            output_budget,
            system,
            own,
        } = chosen;
        self.end_with(own).await;
        Ok(Some(ModelSetup {
            provider,
            system: prompt::with_instructions(system, &self.instructions),
            coaching,
            output_budget,
        }))
    }

    /// Whether the model is in a server that we started.
    pub fn has_own(&self) -> bool {
        let slot = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        slot.is_some()
    }

    /// Shuts down the server that we started, if there is one.
    pub async fn end(&self) {
        self.end_with(None).await;
    }

    /// Replaces the previous server with `own`, and stops it.
    async fn end_with(&self, own: Option<OwnServer>) {
        if let Some(before) = self.replace(own) {
            before.stop().await;
        }
    }

    fn replace(&self, own: Option<OwnServer>) -> Option<OwnServer> {
        let mut slot = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *slot, own)
    }
}

impl Models for Arc<Switchboard> {
    fn open(&self, name: &str) -> Opening {
        let (board, name) = (Arc::clone(self), name.to_owned());
        Box::pin(async move {
            // Without a name: the best available.
            let name = (!name.is_empty()).then_some(name.as_str());
            board
                .first(name)
                .await
                .map_err(|failure| match failure.hint {
                    Some(hint) => format!("{}; {hint}", failure.message),
                    None => failure.message,
                })
        })
    }
}
