//! Enforces the budget before and after each request.

use super::{Edit, Input, Instant, Session};
use crate::agent::budget::{Account, Estimator, Over};
use crate::llm::types::{Cost, Price, Prompt, Usage};
use crate::session::transcript::Spent;

/// What was spent and allowed.
#[derive(Debug)]
pub(super) struct Guard {
    /// When the question of the running turn was asked, plus the time spent waiting for a person.
    asked_at: Option<Instant>,
    /// When the wait for the person's answer began.
    waits_since: Option<Instant>,
    estimator: Estimator,
    /// How often the turn and the session were granted their budget, including the first time.
    granted: (u32, u32),
    /// The account that was used up when the person was asked.
    over: Option<Account>,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            asked_at: None,
            waits_since: None,
            estimator: Estimator::default(),
            granted: (1, 1),
            over: None,
        }
    }
}

impl Guard {
    /// Whether a question is being answered.
    pub(super) fn is_answering(&self) -> bool {
        self.asked_at.is_some()
    }

    /// A question was asked.
    pub(super) fn asked(&mut self) {
        self.asked_at = Some(Instant::now());
        self.granted.0 = 1;
    }

    /// The person is asked something: their time does not count for the turn.
    pub(super) fn waits(&mut self) {
        self.waits_since = Some(Instant::now());
    }

    /// The person has answered, or wants something else.
    pub(super) fn goes_on(&mut self) {
        if let (Some(since), Some(asked)) = (self.waits_since.take(), &mut self.asked_at) {
            *asked += since.elapsed();
        }
    }
}

impl Session {
    /// The model's price.
    fn price(&self) -> Option<Price> {
        self.options.provider.as_ref()?.info().price
    }

    /// Records a paid request. Costs that the provider does not report are computed at its current prices, because the
    /// next model has different ones.
    pub(super) fn spend(&mut self, usage: Usage) {
        let usage = self.spend_aside(usage);
        self.asking.guard.estimator.took(&usage);
    }

    /// The same for a request outside the conversation, which says nothing about the size of the next one.
    pub(super) fn spend_aside(&mut self, mut usage: Usage) -> Usage {
        if usage.cost.is_none() {
            usage.cost = self.price().map(|price| Cost::dollars(price.cost(&usage)));
        }
        self.edit(Edit::Spend(usage));
        usage
    }

    /// Closes the turn's account. The person's own cell costs nothing.
    pub(super) fn account(&mut self) -> Spent {
        self.asking.guard.goes_on();
        let Some(began) = self.asking.guard.asked_at.take() else {
            return Spent::default();
        };
        let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.edit(Edit::EndTurn { milliseconds });
        self.transcript.spent_lately()
    }

    /// The limit that another request of this size would exceed.
    fn would_pass(&self, next: &Usage) -> Option<Over> {
        self.options.budgets.check(
            &self.transcript.spent_lately(),
            &self.transcript.spent(),
            next,
            self.price().as_ref(),
            self.asking.guard.granted,
        )
    }

    /// Why a request outside the conversation is too expensive, if it is.
    pub(super) fn too_dear_aside(&self, prompt: &Prompt) -> Option<String> {
        let next = self.asking.guard.estimator.clone().next(prompt);
        self.would_pass(&next).map(|over| over.to_string())
    }

    /// What to do instead of sending `prompt`, if that is too expensive.
    pub(super) fn over_budget(&mut self, prompt: &Prompt) -> Option<Input> {
        let next = self.asking.guard.estimator.next(prompt);
        let over = self.would_pass(&next)?;
        let message = over.to_string();
        self.asking.guard.over = match over {
            // A larger budget would not help.
            Over::NoPrice => {
                return Some(Input::ModelFailed {
                    message,
                    key_variable: None,
                });
            }
            Over::Cost { of, .. } | Over::Tokens { of, .. } => Some(of),
        };
        Some(Input::OverBudget { message })
    }

    /// The person continues: grants the used-up budget once more.
    pub(super) fn raise_budget(&mut self) {
        match self.asking.guard.over.take() {
            Some(Account::Turn) => self.asking.guard.granted.0 += 1,
            Some(Account::Session) => self.asking.guard.granted.1 += 1,
            None => {}
        }
    }
}
