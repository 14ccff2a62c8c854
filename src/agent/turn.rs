//! Decides what to do next: a pure state machine. `step(state, input) -> (state, effects)`, no I/O, no clock.
//!
//! A turn is one question and everything until its answer. Only this module decides when code runs and when to stop.

mod drive;
mod messages;
mod plan;
mod user_cell;

use std::collections::VecDeque;

use super::approval::{Action, Analysis, AtLimit, Policy, Ruling};
use super::event::{Decision, TurnEnd};
use super::repetition::Failures;
use crate::kernel::{ExitReason, Verdict};
pub(super) use drive::{Drive, drive};
pub use messages::{Call, Effect, Input};
use plan::Planning;

/// How often the same code may fail the same way.
const SAME_FAILURE: u32 = 3;
/// What the model is told about code that a person forbade.
const NEVER: &str = "do not run this or similar code in this session";
/// Maximum reminders to the model per turn.
const NUDGES: u32 = 3;

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// No turn is running.
    Idle,
    /// The model replies.
    Sampling,
    /// The conversation is being compacted on request.
    Compacting,
    /// The first of these cells awaits a person's decision.
    Deciding(VecDeque<Call>),
    /// The first of these cells is running.
    Executing {
        /// The running cell and the later ones of the same reply.
        queue: VecDeque<Call>,
        /// Whether it was interrupted.
        interrupted: bool,
    },
    /// At a limit: the person decides whether to continue; otherwise the turn ends with this.
    Paused(TurnEnd),
    /// The person's own cell is running.
    RunningOwn {
        /// The cells that were awaiting a decision.
        waiting: VecDeque<Call>,
    },
}

/// The state machine of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the agent is doing.
    pub state: State,
    policy: Policy,
    max_steps: u32,
    at_limit: AtLimit,
    steps: u32,
    nudges: u32,
    failures: Failures,
    planning: Planning,
}

impl Turn {
    /// A machine in the idle state.
    pub fn new(policy: Policy, max_steps: u32, at_limit: AtLimit) -> Self {
        Self {
            state: State::Idle,
            policy,
            max_steps,
            at_limit,
            steps: 0,
            nudges: 0,
            failures: Failures::default(),
            planning: Planning::Off,
        }
    }

    /// Processes an input and returns the effects. An input that does not fit the state came too late and is ignored.
    #[must_use]
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match (std::mem::replace(&mut self.state, State::Idle), input) {
            (State::Idle, Input::Submit) => {
                self.begin();
                self.sample(vec![])
            }
            (State::Idle, Input::Plan) => self.plan(),
            (State::Idle, Input::RunOwn { cell }) => self.run_own(cell, VecDeque::new()),
            (State::Deciding(waiting), Input::RunOwn { cell }) => self.run_own(cell, waiting),
            (State::Idle, Input::Compact) => {
                self.state = State::Compacting;
                vec![Effect::Compact]
            }
            (State::Compacting, Input::Compacted) => vec![Effect::End(TurnEnd::Done)],
            (State::Sampling, Input::Replied { calls, broken, .. })
                if self.planning == Planning::Writing =>
            {
                self.planned(calls, broken)
            }
            (
                State::Sampling,
                Input::Replied {
                    calls,
                    broken,
                    nudge,
                },
            ) => self.replied(calls, broken, nudge),
            (
                State::Sampling,
                Input::ModelFailed {
                    message,
                    key_variable,
                },
            ) => {
                vec![Effect::End(TurnEnd::ModelFailed {
                    message,
                    key_variable,
                })]
            }
            (State::Sampling, Input::OverBudget { message }) => {
                self.steps = self.steps.saturating_sub(1);
                self.limit(TurnEnd::Budget { message }, vec![])
            }
            (State::Paused(TurnEnd::Planned), Input::GoOn { is_changed }) => {
                self.go_on_with_plan(is_changed)
            }
            (State::Paused(end), Input::GoOn { .. }) => self.go_on(&end),
            (State::Paused(end), Input::GiveUp) => vec![Effect::End(end)],
            (State::Paused(_), Input::Interrupt) => {
                vec![Effect::End(TurnEnd::Interrupted)]
            }
            (State::Sampling | State::Compacting, Input::Interrupt) => {
                vec![Effect::CancelSampling, Effect::End(TurnEnd::Interrupted)]
            }
            (state, input) => self.step_cell(state, input),
        }
    }

    /// Processes an input while a cell waits or runs.
    fn step_cell(&mut self, state: State, input: Input) -> Vec<Effect> {
        match (state, input) {
            (
                State::Deciding(queue),
                Input::Decided {
                    cell,
                    decision,
                    changed,
                },
            ) if queue.front().is_some_and(|call| call.cell == cell) => {
                self.decided(queue, decision, changed)
            }
            (State::Deciding(queue), Input::Interrupt) => {
                let mut effects = skip_all(queue, "the user stopped the turn");
                effects.push(Effect::End(TurnEnd::Interrupted));
                effects
            }
            (State::Executing { queue, interrupted }, Input::Ran { verdict, nudge }) => {
                self.ran(queue, interrupted, &verdict, nudge)
            }
            (State::Executing { queue, .. }, input @ (Input::Interrupt | Input::Restart)) => {
                self.state = State::Executing {
                    queue,
                    interrupted: true,
                };
                vec![stop(&input)]
            }
            (State::Executing { queue, .. }, Input::KernelFailed { message }) => {
                let mut effects = skip_all(queue, "there is no kernel");
                effects.push(Effect::End(TurnEnd::KernelFailed { message }));
                effects
            }
            (State::RunningOwn { waiting }, Input::Ran { verdict, .. }) => {
                self.own_ran(waiting, &verdict)
            }
            (State::RunningOwn { waiting }, input @ (Input::Interrupt | Input::Restart)) => {
                self.state = State::RunningOwn { waiting };
                vec![stop(&input)]
            }
            (State::RunningOwn { waiting }, Input::KernelFailed { message }) => {
                let mut effects = skip_all(waiting, "there is no kernel");
                effects.push(Effect::End(TurnEnd::KernelFailed { message }));
                effects
            }
            // No cell is running, and the current activity may need the kernel, which is available again in a moment.
            (state, Input::Restart) => {
                self.state = state;
                vec![Effect::RestartKernel]
            }
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    /// Starts a turn.
    fn begin(&mut self) {
        self.steps = 0;
        self.nudges = 0;
        self.failures.clear();
        self.planning = Planning::Off;
    }

    fn sample(&mut self, mut effects: Vec<Effect>) -> Vec<Effect> {
        if self.steps >= self.max_steps {
            let steps = self.max_steps;
            return self.limit(TurnEnd::StepLimit { steps }, effects);
        }
        self.steps += 1;
        self.state = State::Sampling;
        effects.push(Effect::Sample);
        effects
    }

    /// Handles a reached limit: ends the turn, or asks whether to continue.
    fn limit(&mut self, end: TurnEnd, mut effects: Vec<Effect>) -> Vec<Effect> {
        effects.push(match self.at_limit {
            AtLimit::End => Effect::End(end),
            AtLimit::Ask => {
                self.state = State::Paused(end.clone());
                Effect::AskToGoOn(end)
            }
        });
        effects
    }

    /// Continues after a limit: resets what was used up.
    fn go_on(&mut self, end: &TurnEnd) -> Vec<Effect> {
        let mut effects = Vec::new();
        match end {
            TurnEnd::StepLimit { .. } => self.steps = 0,
            TurnEnd::Budget { .. } => effects.push(Effect::RaiseBudget),
            TurnEnd::Repeating => {
                self.failures.clear();
                effects.push(Effect::Hint(
                    "This is the third time that the same code fails with the same error. The user lets you go on: \
                     do it another way."
                        .to_owned(),
                ));
            }
            // These limits are never asked about.
            TurnEnd::Done
            | TurnEnd::Planned
            | TurnEnd::CellFailed
            | TurnEnd::Interrupted
            | TurnEnd::Declined
            | TurnEnd::ModelFailed { .. }
            | TurnEnd::KernelFailed { .. } => {}
        }
        self.sample(effects)
    }

    fn replied(&mut self, calls: Vec<Call>, broken: bool, nudge: Option<String>) -> Vec<Effect> {
        if !calls.is_empty() {
            return self.next(calls.into(), vec![]);
        }
        if broken {
            return self.sample(vec![]);
        }
        match nudge {
            Some(words) if self.nudges < NUDGES => {
                self.nudges += 1;
                self.sample(vec![Effect::Hint(words)])
            }
            _ => vec![Effect::End(TurnEnd::Done)],
        }
    }

    /// Continues with the first of `queue`, or with the model if there is none.
    fn next(&mut self, queue: VecDeque<Call>, mut effects: Vec<Effect>) -> Vec<Effect> {
        let Some(first) = queue.front() else {
            return self.sample(effects);
        };
        let cell = first.cell.clone();
        let ruling = self.rule(first);
        match ruling.action {
            Action::Forbid => return self.forbid(queue, ruling, effects),
            Action::Ask => {
                self.state = State::Deciding(queue);
                effects.push(Effect::Ask { cell });
            }
            Action::Allow => {
                self.state = State::Executing {
                    queue,
                    interrupted: false,
                };
                effects.push(Effect::Execute { cell });
            }
        }
        effects
    }

    fn decided(
        &mut self,
        mut queue: VecDeque<Call>,
        decision: Decision,
        changed: Option<Analysis>,
    ) -> Vec<Effect> {
        let Some(first) = queue.front_mut() else {
            return vec![];
        };
        let cell = first.cell.clone();
        let mut effects = Vec::new();
        match decision {
            Decision::Run => {}
            Decision::Always => {
                let permits = self.policy.always(&first.analysis, &first.language);
                effects.extend(permits.into_iter().map(Effect::Remember));
            }
            Decision::Change { source } => {
                let before = self.rule(first);
                first.code.clone_from(&source);
                first.analysis = changed.unwrap_or_default();
                let after = self.rule(first);
                effects.push(Effect::Change {
                    cell: cell.clone(),
                    source,
                });
                match after.action {
                    Action::Forbid => return self.forbid(queue, after, effects),
                    // The person has not seen the additional findings of the changed code.
                    Action::Ask if after.adds_to(&before) => {
                        self.state = State::Deciding(queue);
                        effects.push(Effect::Ask { cell });
                        return effects;
                    }
                    Action::Ask | Action::Allow => {}
                }
            }
            Decision::Never => {
                let first = queue.pop_front();
                if let Some(Call {
                    analysis, language, ..
                }) = first
                {
                    self.policy.never(&analysis, &language);
                }
                let reason = Some(NEVER.to_owned());
                effects.push(Effect::Decline { cell, reason });
                effects.extend(skip_all(queue, "the user declined the code before it"));
                return self.sample(effects);
            }
            Decision::Decline { reason } => {
                queue.pop_front();
                let stop = reason.is_none();
                effects.push(Effect::Decline { cell, reason });
                effects.extend(skip_all(queue, "the user declined the code before it"));
                // A reason lets the model react; a refusal without one ends the turn.
                if stop {
                    effects.push(Effect::End(TurnEnd::Declined));
                    return effects;
                }
                return self.sample(effects);
            }
        }
        self.state = State::Executing {
            queue,
            interrupted: false,
        };
        effects.push(Effect::Execute { cell });
        effects
    }

    fn ran(
        &mut self,
        mut queue: VecDeque<Call>,
        interrupted: bool,
        verdict: &Verdict,
        nudge: Option<String>,
    ) -> Vec<Effect> {
        let call = queue.pop_front();
        let mut effects = restart_if_died(verdict);
        if interrupted || *verdict == Verdict::Interrupted {
            effects.extend(skip_all(queue, "the user stopped the turn"));
            effects.push(Effect::End(TurnEnd::Interrupted));
            return effects;
        }
        if *verdict == Verdict::Ok {
            if queue.is_empty()
                && let Some(words) = nudge
                && self.nudges < NUDGES
            {
                self.nudges += 1;
                effects.push(Effect::Hint(words));
            }
            return self.next(queue, effects);
        }
        effects.extend(skip_all(queue, "the code before it failed"));
        effects.extend(nudge.map(Effect::Hint));
        let times = call.map_or(1, |call| {
            self.failures.count(&call.code, &call.language, verdict)
        });
        match times {
            SAME_FAILURE.. => self.limit(TurnEnd::Repeating, effects),
            2 => {
                effects.push(Effect::Hint(
                    "This is the same code with the same error as before. Do something else."
                        .to_owned(),
                ));
                self.sample(effects)
            }
            _ => self.sample(effects),
        }
    }
}

/// The effect that stops a running cell.
fn stop(input: &Input) -> Effect {
    if *input == Input::Restart {
        Effect::RestartKernel
    } else {
        Effect::InterruptKernel
    }
}

/// A kernel that died from a restart needs no further one.
fn restart_if_died(verdict: &Verdict) -> Vec<Effect> {
    match verdict {
        Verdict::KernelDied(reason) if *reason != ExitReason::Requested => {
            vec![Effect::RestartKernel]
        }
        _ => vec![],
    }
}

fn skip_all(queue: VecDeque<Call>, reason: &str) -> Vec<Effect> {
    queue
        .into_iter()
        .map(|call| Effect::Skip {
            cell: call.cell,
            reason: reason.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
