//! The person's actions in between: running their own code, also while the model's cell awaits a decision, and changing
//! the approval policy.

use std::collections::VecDeque;

use super::{
    Call, Effect, Policy, Ruling, State, Turn, TurnEnd, Verdict, restart_if_died, skip_all,
};
use crate::agent::approval::{Approval, FindingKind};

impl State {
    /// The cell that awaits a person's decision.
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

    /// Sets when to ask from now on.
    pub fn set_approval(&mut self, approval: Approval) {
        self.policy.approval = approval;
    }

    /// The policy in effect.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The policy's ruling on the model's cell that waits or runs.
    pub fn ruling(&self) -> Option<Ruling> {
        let (State::Deciding(queue) | State::Executing { queue, .. }) = &self.state else {
            return None;
        };
        Some(self.rule(queue.front()?))
    }

    /// Whether the model's waiting or running cell has this finding.
    pub fn finds(&self, kind: FindingKind) -> bool {
        let (State::Deciding(queue) | State::Executing { queue, .. }) = &self.state else {
            return false;
        };
        queue.front().is_some_and(|call| call.analysis.finds(kind))
    }

    /// Skips the forbidden cell and those after it; the model is told why.
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

    /// Handles the end of the person's own cell; an interrupted question is asked again.
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
