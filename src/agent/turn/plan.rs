//! A plan before anything is done: the model first writes a plan and runs nothing, a person approves it once, and the same
//! turn carries it out and asks about risky code only.

use super::{Call, Effect, Policy, Ruling, State, Turn, TurnEnd, skip_all};
use crate::agent::approval::Approval;

/// What a model is told before it plans.
const WANTED: &str = "Do not run code yet. First write a short numbered plan: what you will look at, which steps you will \
                      take, which files you will write or change, and how you will check the result. Then wait.";
/// What it is told with what is to be different.
const AGAIN: &str = "Write the plan anew. Do not run code yet.";
/// What it is told when the plan is approved.
const APPROVED: &str = "The plan is approved. Carry it out; if a step turns out to be wrong, say so and change the plan.";
/// Why code that comes with a plan does not run.
const NOT_YET: &str = "the user has not approved a plan yet";

/// Where a turn stands with its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Planning {
    /// None is wanted.
    Off,
    /// The model writes it, or a person reads it. No code runs.
    Writing,
    /// A person has approved it.
    Approved,
}

impl Turn {
    /// A question that is answered with a plan first.
    pub(super) fn plan(&mut self) -> Vec<Effect> {
        self.begin();
        self.planning = Planning::Writing;
        self.sample(vec![Effect::Tell(WANTED.to_owned())])
    }

    /// A reply while the plan is being written; one without code is the plan.
    pub(super) fn planned(&mut self, calls: Vec<Call>, broken: bool) -> Vec<Effect> {
        if !calls.is_empty() || broken {
            let effects = skip_all(calls.into(), NOT_YET);
            return self.sample(effects);
        }
        self.state = State::Paused(TurnEnd::Planned);
        vec![Effect::AskToGoOn(TurnEnd::Planned)]
    }

    /// A person has read the plan: it is carried out, or written anew as they have said.
    pub(super) fn go_on_with_plan(&mut self, is_changed: bool) -> Vec<Effect> {
        // The plan itself is no step of the work.
        self.steps = 0;
        let words = if is_changed {
            AGAIN
        } else {
            self.planning = Planning::Approved;
            APPROVED
        };
        self.sample(vec![Effect::Tell(words.to_owned())])
    }

    /// What happens with a cell of the model. A person who is asked about each cell has approved the plan instead.
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
