//! The model's side of a session: the running request, the next one, and the budget.

use std::sync::Arc;

use super::ToolChoice;
use super::answering::Answering;
use super::compacting::ContextBudget;
use super::guards::Guard;
use super::models::Switch;
use crate::agent::guidance::{Coaching, Topic};
use crate::agent::sampling::Sampling;
use crate::session::summarize::ImagePreparer;

pub(super) struct Asking {
    pub(super) sampling: Option<Sampling>,
    /// Follow-up questions that the model is generating.
    pub(super) following: Option<Answering>,
    /// A model that is being opened.
    pub(super) switch: Option<Switch>,
    /// The question of the turn.
    pub(super) question: String,
    /// The required kind of the next reply.
    pub(super) choice: ToolChoice,
    /// Topics of the hints that a small model got in this turn.
    pub(super) topics: Vec<Topic>,
    /// Number of requests in the whole session so far.
    pub(super) steps: u32,
    pub(super) budget: ContextBudget,
    pub(super) guard: Guard,
    /// For a model that accepts pictures.
    pub(super) image_preparer: Option<Arc<ImagePreparer>>,
}

impl Asking {
    pub(super) fn new(steps: u32, image_preparer: Option<Arc<ImagePreparer>>) -> Self {
        Self {
            sampling: None,
            following: None,
            switch: None,
            question: String::new(),
            choice: ToolChoice::Auto,
            topics: Vec::new(),
            steps,
            budget: ContextBudget::default(),
            guard: Guard::default(),
            image_preparer,
        }
    }

    /// Begins a turn with a question.
    pub(super) fn turn_begins(&mut self, question: &str, coaching: Coaching) {
        question.clone_into(&mut self.question);
        self.guard.asked();
        self.budget.turn_begins();
        self.topics.clear();
        self.choice = match coaching {
            Coaching::Off => ToolChoice::Auto,
            Coaching::Small => ToolChoice::Required,
        };
    }
}
