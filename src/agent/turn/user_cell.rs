//! What a person does between: code of their own, also while the model's waits for their word, and another approval.

use std::collections::VecDeque;

use super::{
    Call, Effect, Policy, Ruling, State, Turn, TurnEnd, Verdict, restart_if_died, skip_all,
};
use crate::agent::approval::{Approval, FindingKind};

impl State {
    /// The cell that waits for a person's word.
    pub fn waits_for(&self) -> Option<&str> {
        match self {
            Self::Deciding(queue) => queue.front().map(|call| &*call.cell),
            Self::Idle
            | Self::Sampling
            | Self::Compacting
            | Self::Executing { .. }
            | Self::Paused(_)
            | Self::RunningOwn { .. } => None,
        }
    }
}

impl Turn {
    /// When a person is asked.
    pub fn approval(&self) -> Approval {
        self.policy.approval
    }

    /// When to ask from now on.
    pub fn set_approval(&mut self, approval: Approval) {
        self.policy.approval = approval;
    }

    /// What it goes by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the policy says about the cell of the model that waits or runs.
    pub fn ruling(&self) -> Option<Ruling> {
        let (State::Deciding(queue) | State::Executing { queue, .. }) = &self.state else {
            return None;
        };
        Some(self.rule(queue.front()?))
    }

    /// Whether this was found in the cell of the model that waits or runs.
    pub fn finds(&self, kind: FindingKind) -> bool {
        let (State::Deciding(queue) | State::Executing { queue, .. }) = &self.state else {
            return false;
        };
        queue.front().is_some_and(|call| call.analysis.finds(kind))
    }

    /// The first cell does not run, nor what comes after it; the model is told why.
    pub(super) fn forbid(
        &mut self,
        mut queue: VecDeque<Call>,
        ruling: Ruling,
        mut effects: Vec<Effect>,
    ) -> Vec<Effect> {
        if let Some(call) = queue.pop_front() {
            effects.push(Effect::Forbid {
                cell: call.cell,
                ruling: Box::new(ruling),
            });
        }
        effects.extend(skip_all(queue, "the code before it is forbidden"));
        self.sample(effects)
    }

    pub(super) fn run_own(&mut self, cell: String, waiting: VecDeque<Call>) -> Vec<Effect> {
        self.state = State::RunningOwn { waiting };
        vec![Effect::Execute { cell }]
    }

    /// A cell of the person's own ended; what it came in between of is asked again.
    pub(super) fn own_ran(&mut self, waiting: VecDeque<Call>, verdict: &Verdict) -> Vec<Effect> {
        let mut effects = restart_if_died(verdict);
        if let Some(first) = waiting.front() {
            let cell = first.cell.clone();
            effects.push(Effect::Ask { cell });
            self.state = State::Deciding(waiting);
            return effects;
        }
        effects.push(Effect::End(match verdict {
            Verdict::Ok => TurnEnd::Done,
            Verdict::Interrupted => TurnEnd::Interrupted,
            Verdict::Error { .. }
            | Verdict::TimedOut
            | Verdict::Aborted
            | Verdict::KernelDied(_) => TurnEnd::CellFailed,
        }));
        effects
    }
}
