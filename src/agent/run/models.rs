//! Switches the model in the middle of a session.
//!
//! The conversation is unchanged; from the next prompt on, it is rendered by the new model's rules (whether it accepts
//! pictures, how much output it gets). While the model is being opened the session continues; a question waits for it.

use tokio::sync::mpsc;

use super::{Edit, EventKind, Input, Session, State};
use crate::agent::models::{ModelSetup, Opening};
use crate::agent::redacted::redacted;
use crate::agent::stream::handle::Request;

/// A model that is being opened.
pub(super) struct Switch {
    name: String,
    opening: Opening,
    /// A question that waits for it, and the input that begins its turn.
    question: Option<(String, Input)>,
}

/// The opened model, or why it failed; never resolves if none is being opened.
pub(super) async fn next_opened(switch: Option<&mut Switch>) -> Result<ModelSetup, String> {
    match switch {
        Some(switch) => switch.opening.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Session {
    /// The person wants another model.
    pub(super) fn set_model(&mut self, name: String) {
        let refusal = if self.turn.state != State::Idle {
            "still busy with the last turn: interrupt it first"
        } else if self.asking.switch.is_some() {
            "another model is being opened"
        } else if let Some(models) = &self.options.models {
            self.asking.switch = Some(Switch {
                opening: models.open(&name),
                name,
                question: None,
            });
            return;
        } else {
            "this session has only one model"
        };
        self.unchanged(name, refusal.to_owned());
    }

    /// Takes a question that must wait for the model that is being opened. Returns whether it was taken.
    pub(super) fn waits_for_model(&mut self, text: &str, input: &Input) -> bool {
        match &mut self.asking.switch {
            Some(Switch { question, .. }) if question.is_none() => {
                *question = Some((text.to_owned(), input.clone()));
                true
            }
            Some(_) | None => false,
        }
    }

    /// Handles the requested model or its failure. Returns whether the session must end.
    pub(super) async fn opened(
        &mut self,
        opened: Result<ModelSetup, String>,
        inbox: &mut mpsc::Receiver<Request>,
    ) -> bool {
        let Some(Switch { name, question, .. }) = self.asking.switch.take() else {
            return false;
        };
        match opened {
            Ok(outfit) => self.change_to(outfit),
            Err(message) => self.unchanged(name, message),
        }
        match question {
            Some((text, input)) => self.ask(text, input, inbox).await,
            None => false,
        }
    }

    /// The person stops waiting for it. Returns whether one was being opened.
    pub(super) fn give_up_model(&mut self) -> bool {
        let Some(Switch { name, .. }) = self.asking.switch.take() else {
            return false;
        };
        self.unchanged(name, "interrupted".to_owned());
        true
    }

    fn change_to(&mut self, outfit: ModelSetup) {
        let ModelSetup {
            provider,
            system,
            coaching,
            output_budget,
        } = outfit;
        let info = provider.info().clone();
        let is_first = self.options.provider.is_none();
        self.options.provider = Some(redacted(provider, &self.options.redactor));
        self.options.system = system;
        self.options.coaching = coaching;
        self.options.output_budget = output_budget;
        self.asking.image_preparer = Self::preparer_of(&self.options);
        self.edit(Edit::SetModel(info.name.clone()));
        self.publish(EventKind::ModelChanged {
            model: info.name,
            vision: info.vision,
            context_window: info.context_window,
        });
        if is_first {
            self.say_facts();
        }
    }

    fn unchanged(&mut self, model: String, message: String) {
        self.publish(EventKind::ModelUnchanged { model, message });
    }
}
