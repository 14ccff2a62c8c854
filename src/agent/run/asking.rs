//! The model's side of a session: the request that runs, what the next one is, and what may be spent.

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
    /// Questions that could follow, while the model thinks of some.
    pub(super) following: Option<Answering>,
    /// Another model that is being opened.
    pub(super) switch: Option<Switch>,
    /// The words that the turn began with.
    pub(super) question: String,
    /// What the next reply must be.
    pub(super) choice: ToolChoice,
    /// What a small model was told in this turn.
    pub(super) topics: Vec<Topic>,
    /// Requests so far, of the whole session.
    pub(super) steps: u32,
    pub(super) budget: ContextBudget,
    pub(super) guard: Guard,
    /// Of a model that sees.
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

    /// A question was asked.
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
