//! What a person does between: code of their own, also while the model's waits for their word, and another approval.

use std::collections::VecDeque;

use super::{Approval, Call, Effect, State, Turn, TurnEnd, Verdict, restart_if_died};

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
        self.approval
    }

    /// When to ask from now on.
    pub fn set_approval(&mut self, approval: Approval) {
        self.approval = approval;
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
