//! Another model in the middle of a session (`/model`), and the server of ours that one may have.

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
    /// What is added to every system prompt.
    instructions: Vec<Instructions>,
    /// The server of ours that answers now, if one does.
    own: Mutex<Option<OwnServer>>,
}

impl Switchboard {
    /// For a session whose main kernel speaks `language`.
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

    /// The model that a session begins with: the named one, or the best there is.
    ///
    /// # Errors
    /// The model cannot be opened, or no model is found.
    pub async fn first(&self, name: Option<&str>) -> Result<ModelSetup, Failure> {
        self.if_any(name).await?.ok_or_else(none)
    }

    /// The same; `None` if no model is named and no model is found.
    ///
    /// # Errors
    /// It cannot be had.
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

    /// Whether the model is in a server of ours.
    pub fn has_own(&self) -> bool {
        let slot = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        slot.is_some()
    }

    /// Stops the server of ours in good order, if there is one.
    pub async fn end(&self) {
        self.end_with(None).await;
    }

    /// Puts `own` in the place of the server there was, which is stopped.
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
            // Without a name: the best there is.
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
