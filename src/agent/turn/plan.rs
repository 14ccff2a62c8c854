//! Planning: the model first writes a plan without running code, a person approves it once, and the same turn carries
//! it out, asking about risky code only.

use super::{Call, Effect, Policy, Ruling, State, Turn, TurnEnd, skip_all};
use crate::agent::approval::Approval;

/// Instruction to the model to plan first.
const WANTED: &str = "Do not run code yet. First write a short numbered plan: what you will look at, which steps you will \
                      take, which files you will write or change, and how you will check the result. Then wait.";
/// Instruction to revise the plan, sent with the person's changes.
const AGAIN: &str = "Write the plan again. Do not run code yet.";
/// Message to the model when the plan is approved.
const APPROVED: &str = "The plan is approved. Carry it out; if a step turns out to be wrong, say so and change the plan.";
/// Why code that comes with a plan does not run.
const NOT_YET: &str = "the user has not approved a plan yet";

/// The planning state of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planning {
    /// No plan is wanted.
    Off,
    /// The model is writing it, or a person is reading it. No code runs.
    Writing,
    /// A person approved it.
    Approved,
}

impl Turn {
    /// Starts a turn that needs a plan first.
    pub(super) fn plan(&mut self) -> Vec<Effect> {
        self.begin();
        self.planning = Planning::Writing;
        self.sample(vec![Effect::Tell(WANTED.to_owned())])
    }

    /// Handles a reply during planning; a reply without code is the plan.
    pub(super) fn planned(&mut self, calls: Vec<Call>, broken: bool) -> Vec<Effect> {
        if !calls.is_empty() || broken {
            let effects = skip_all(calls.into(), NOT_YET);
            return self.sample(effects);
        }
        self.state = State::Paused(TurnEnd::Planned);
        vec![Effect::AskToGoOn(TurnEnd::Planned)]
    }

    /// The person has read the plan: carry it out, or revise it.
    pub(super) fn go_on_with_plan(&mut self, is_changed: bool) -> Vec<Effect> {
        // Planning does not count as steps of the work.
        self.steps = 0;
        let words = if is_changed {
            AGAIN
        } else {
            self.planning = Planning::Approved;
            APPROVED
        };
        self.sample(vec![Effect::Tell(words.to_owned())])
    }

    /// The ruling for a cell of the model. Approving the plan replaces approving each cell.
    pub(super) fn rule(&self, call: &Call) -> Ruling {
        let rule = |policy: &Policy| policy.rule(&call.analysis, &call.language);
        if self.planning == Planning::Approved && self.policy.approval == Approval::Always {
            let mut policy = self.policy.clone();
            policy.approval = Approval::OnRisk;
            return rule(&policy);
        }
        rule(&self.policy)
    }
}
