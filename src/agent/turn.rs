//! What to do next: a pure state machine. `step(state, input) -> (state, effects)`, no I/O, no clock.
//!
//! One turn is one question: the model replies, its code runs, it sees the outputs, until it is done. Only here is
//! decided when code runs, what an interrupt means and when to stop.

use std::collections::VecDeque;

use super::approval::{Approval, Requirement};
use super::event::{Decision, TurnEnd};
use crate::kernel::{ExitReason, Verdict};

/// A second interrupt within this many milliseconds restarts the kernel.
const TWICE_WITHIN_MS: u64 = 2000;
/// How often the same code may fail in the same way.
const SAME_FAILURE: u32 = 3;
/// How often in one turn something missing is pointed out to the model.
const NUDGES: u32 = 3;

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Waiting for a question.
    Idle,
    /// The model replies.
    Sampling,
    /// The first of these cells waits for a person's word.
    Deciding(VecDeque<Call>),
    /// The first of these cells runs.
    Executing {
        /// The running cell and those of the same reply that come after it.
        queue: VecDeque<Call>,
        /// When it was interrupted last, in milliseconds.
        interrupted: Option<u64>,
    },
    /// A cell of the person's own runs.
    RunningOwn {
        /// When it was interrupted last, in milliseconds.
        interrupted: Option<u64>,
    },
}

/// A cell that the model wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Its cell.
    pub cell: String,
    /// The code.
    pub code: String,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A question was asked.
    Submit,
    /// The person runs a cell of their own.
    RunOwn {
        /// Which cell.
        cell: String,
    },
    /// The model's reply is complete.
    Replied {
        /// Calls that can run.
        calls: Vec<Call>,
        /// Whether there were calls that cannot (they are answered already).
        broken: bool,
        /// What the reply lacks although it has no calls, for the model.
        nudge: Option<String>,
    },
    /// The model could not be asked.
    ModelFailed {
        /// What happened.
        message: String,
        /// The variable of a wrong key.
        key_variable: Option<String>,
    },
    /// A person decided.
    Decided {
        /// On which cell.
        cell: String,
        /// What.
        decision: Decision,
    },
    /// A cell ended.
    Ran {
        /// How.
        verdict: Verdict,
        /// What is still missing although it ran well, for the model.
        nudge: Option<String>,
    },
    /// There is no kernel to run it.
    KernelFailed {
        /// What happened.
        message: String,
    },
    /// The person wants it to stop.
    Interrupt {
        /// When, in milliseconds.
        at: u64,
    },
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask the model.
    Sample,
    /// Stop asking it.
    CancelSampling,
    /// Point something out to the model, with the latest cell's outputs.
    Hint(String),
    /// Ask the person about a cell.
    Ask {
        /// Which cell.
        cell: String,
    },
    /// Run a cell.
    Execute {
        /// Which cell.
        cell: String,
    },
    /// The person changed a cell's code.
    Change {
        /// Which cell.
        cell: String,
        /// The new code.
        source: String,
    },
    /// The person declined a cell.
    Decline {
        /// Which cell.
        cell: String,
        /// Words for the model.
        reason: Option<String>,
    },
    /// A cell is not run.
    Skip {
        /// Which cell.
        cell: String,
        /// Why, for the model.
        reason: String,
    },
    /// Interrupt the kernel.
    InterruptKernel,
    /// Start the kernel anew.
    RestartKernel,
    /// The turn is over.
    End(TurnEnd),
}

/// The state machine of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the agent is doing.
    pub state: State,
    approval: Approval,
    max_steps: u32,
    steps: u32,
    nudges: u32,
    failures: Vec<(String, String, u32)>,
}

impl Turn {
    /// An idle machine.
    pub fn new(approval: Approval, max_steps: u32) -> Self {
        Self {
            state: State::Idle,
            approval,
            max_steps,
            steps: 0,
            nudges: 0,
            failures: Vec::new(),
        }
    }

    /// Takes an input and says what to do. An input that does not fit the state does nothing: it came too late.
    #[must_use]
    pub fn step(&mut self, input: Input) -> Vec<Effect> {
        match (std::mem::replace(&mut self.state, State::Idle), input) {
            (State::Idle, Input::Submit) => {
                self.steps = 0;
                self.nudges = 0;
                self.failures.clear();
                self.sample(vec![])
            }
            (State::Idle, Input::RunOwn { cell }) => {
                self.state = State::RunningOwn { interrupted: None };
                vec![Effect::Execute { cell }]
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
            (State::Sampling, Input::Interrupt { .. }) => {
                vec![Effect::CancelSampling, Effect::End(TurnEnd::Interrupted)]
            }
            (State::Deciding(queue), Input::Decided { cell, decision })
                if queue.front().is_some_and(|call| call.cell == cell) =>
            {
                self.decided(queue, decision)
            }
            (State::Deciding(queue), Input::Interrupt { .. }) => {
                let mut effects = skip_all(queue, "the user stopped the turn");
                effects.push(Effect::End(TurnEnd::Interrupted));
                effects
            }
            (State::Executing { queue, interrupted }, Input::Ran { verdict, nudge }) => {
                self.ran(queue, interrupted.is_some(), &verdict, nudge)
            }
            (State::Executing { queue, interrupted }, Input::Interrupt { at }) => {
                let effect = interrupt(interrupted, at);
                self.state = State::Executing {
                    queue,
                    interrupted: Some(at),
                };
                vec![effect]
            }
            (State::Executing { queue, .. }, Input::KernelFailed { message }) => {
                let mut effects = skip_all(queue, "there is no kernel");
                effects.push(Effect::End(TurnEnd::KernelFailed { message }));
                effects
            }
            (State::RunningOwn { .. }, Input::Ran { verdict, .. }) => own_ran(&verdict),
            (State::RunningOwn { interrupted }, Input::Interrupt { at }) => {
                self.state = State::RunningOwn {
                    interrupted: Some(at),
                };
                vec![interrupt(interrupted, at)]
            }
            (State::RunningOwn { .. }, Input::KernelFailed { message }) => {
                vec![Effect::End(TurnEnd::KernelFailed { message })]
            }
            (state, _) => {
                self.state = state;
                vec![]
            }
        }
    }

    fn sample(&mut self, mut effects: Vec<Effect>) -> Vec<Effect> {
        if self.steps >= self.max_steps {
            effects.push(Effect::End(TurnEnd::StepLimit {
                steps: self.max_steps,
            }));
        } else {
            self.steps += 1;
            self.state = State::Sampling;
            effects.push(Effect::Sample);
        }
        effects
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

    /// Goes on with the first of `queue`, or with the model when there is none.
    fn next(&mut self, queue: VecDeque<Call>, mut effects: Vec<Effect>) -> Vec<Effect> {
        let Some(first) = queue.front() else {
            return self.sample(effects);
        };
        let cell = first.cell.clone();
        match self.approval.requirement() {
            Requirement::Ask => {
                self.state = State::Deciding(queue);
                effects.push(Effect::Ask { cell });
            }
            Requirement::Run => {
                self.state = State::Executing {
                    queue,
                    interrupted: None,
                };
                effects.push(Effect::Execute { cell });
            }
        }
        effects
    }

    fn decided(&mut self, mut queue: VecDeque<Call>, decision: Decision) -> Vec<Effect> {
        let Some(first) = queue.front_mut() else {
            return vec![];
        };
        let cell = first.cell.clone();
        let mut effects = Vec::new();
        match decision {
            Decision::Run => {}
            Decision::Always => self.approval = Approval::Never,
            Decision::Change { source } => {
                first.code.clone_from(&source);
                effects.push(Effect::Change {
                    cell: cell.clone(),
                    source,
                });
            }
            Decision::Decline { reason } => {
                queue.pop_front();
                let stop = reason.is_none();
                effects.push(Effect::Decline { cell, reason });
                effects.extend(skip_all(queue, "the user declined the code before it"));
                // Words are for the model to act on; a bare no ends the turn.
                if stop {
                    effects.push(Effect::End(TurnEnd::Declined));
                    return effects;
                }
                return self.sample(effects);
            }
        }
        self.state = State::Executing {
            queue,
            interrupted: None,
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
        let code = queue.pop_front().map(|call| call.code).unwrap_or_default();
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
        match self.count_failure(&code, verdict) {
            SAME_FAILURE.. => {
                effects.push(Effect::End(TurnEnd::Repeating));
                effects
            }
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

    fn count_failure(&mut self, code: &str, verdict: &Verdict) -> u32 {
        let failure = format!("{verdict:?}");
        let code = code.trim().to_owned();
        if let Some((_, _, times)) = self
            .failures
            .iter_mut()
            .find(|(c, f, _)| *c == code && *f == failure)
        {
            *times += 1;
            return *times;
        }
        self.failures.push((code, failure, 1));
        1
    }
}

fn interrupt(before: Option<u64>, at: u64) -> Effect {
    match before {
        Some(before) if at.saturating_sub(before) <= TWICE_WITHIN_MS => Effect::RestartKernel,
        _ => Effect::InterruptKernel,
    }
}

fn own_ran(verdict: &Verdict) -> Vec<Effect> {
    let end = Effect::End(match verdict {
        Verdict::Ok => TurnEnd::Done,
        Verdict::Interrupted => TurnEnd::Interrupted,
        Verdict::Error { .. } | Verdict::TimedOut | Verdict::Aborted | Verdict::KernelDied(_) => {
            TurnEnd::CellFailed
        }
    });
    let mut effects = restart_if_died(verdict);
    effects.push(end);
    effects
}

/// A kernel that died because it was restarted needs nothing more.
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
mod tests {
    use super::*;

    fn call(cell: &str) -> Call {
        Call {
            cell: cell.to_owned(),
            code: format!("code of {cell}"),
        }
    }

    fn replied(cells: &[&str]) -> Input {
        Input::Replied {
            calls: cells.iter().map(|cell| call(cell)).collect(),
            broken: false,
            nudge: None,
        }
    }

    fn ran(verdict: Verdict) -> Input {
        Input::Ran {
            verdict,
            nudge: None,
        }
    }

    fn failed() -> Verdict {
        Verdict::Error {
            ename: "E".to_owned(),
            evalue: "v".to_owned(),
        }
    }

    fn decide(cell: &str, decision: Decision) -> Input {
        Input::Decided {
            cell: cell.to_owned(),
            decision,
        }
    }

    fn execute(cell: &str) -> Effect {
        Effect::Execute {
            cell: cell.to_owned(),
        }
    }

    fn ask(cell: &str) -> Effect {
        Effect::Ask {
            cell: cell.to_owned(),
        }
    }

    fn skip(cell: &str, reason: &str) -> Effect {
        Effect::Skip {
            cell: cell.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// Plays a conversation: each input with the effects it must have.
    fn play(approval: Approval, max_steps: u32, conversation: Vec<(Input, Vec<Effect>)>) -> Turn {
        let mut turn = Turn::new(approval, max_steps);
        for (n, (input, expected)) in conversation.into_iter().enumerate() {
            let label = format!("input {n}: {input:?}");
            assert_eq!(turn.step(input), expected, "{label}");
        }
        turn
    }

    #[test]
    fn question_code_answer() {
        let turn = play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a", "b"]), vec![execute("a")]),
                (ran(Verdict::Ok), vec![execute("b")]),
                (ran(Verdict::Ok), vec![Effect::Sample]),
                (replied(&[]), vec![Effect::End(TurnEnd::Done)]),
            ],
        );
        assert_eq!(turn.state, State::Idle);
    }

    #[test]
    fn after_an_error_the_rest_of_the_reply_is_not_run() {
        play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a", "b"]), vec![execute("a")]),
                (
                    ran(failed()),
                    vec![skip("b", "the code before it failed"), Effect::Sample],
                ),
            ],
        );
    }

    #[test]
    fn a_person_may_run_change_decline_or_stop_being_asked() {
        let change = Decision::Change {
            source: "new".to_owned(),
        };
        let words = Decision::Decline {
            reason: Some("use polars".to_owned()),
        };
        play(
            Approval::Ask,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![ask("a")]),
                (decide("x", Decision::Run), vec![]),
                (
                    decide("a", change),
                    vec![
                        Effect::Change {
                            cell: "a".to_owned(),
                            source: "new".to_owned(),
                        },
                        execute("a"),
                    ],
                ),
                (ran(Verdict::Ok), vec![Effect::Sample]),
                (replied(&["b", "c"]), vec![ask("b")]),
                (
                    decide("b", words),
                    vec![
                        Effect::Decline {
                            cell: "b".to_owned(),
                            reason: Some("use polars".to_owned()),
                        },
                        skip("c", "the user declined the code before it"),
                        Effect::Sample,
                    ],
                ),
                (replied(&["d", "e"]), vec![ask("d")]),
                (decide("d", Decision::Always), vec![execute("d")]),
                (ran(Verdict::Ok), vec![execute("e")]),
                (ran(Verdict::Ok), vec![Effect::Sample]),
            ],
        );
        play(
            Approval::Ask,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![ask("a")]),
                (
                    decide("a", Decision::Decline { reason: None }),
                    vec![
                        Effect::Decline {
                            cell: "a".to_owned(),
                            reason: None,
                        },
                        Effect::End(TurnEnd::Declined),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn interrupts_reach_what_is_going_on() {
        let interrupt = |at| Input::Interrupt { at };
        play(
            Approval::Never,
            9,
            vec![
                (interrupt(0), vec![]),
                (Input::Submit, vec![Effect::Sample]),
                (
                    interrupt(1),
                    vec![Effect::CancelSampling, Effect::End(TurnEnd::Interrupted)],
                ),
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a", "b"]), vec![execute("a")]),
                (interrupt(10), vec![Effect::InterruptKernel]),
                (interrupt(5000), vec![Effect::InterruptKernel]),
                (interrupt(6000), vec![Effect::RestartKernel]),
                (
                    ran(Verdict::KernelDied(ExitReason::Requested)),
                    vec![
                        skip("b", "the user stopped the turn"),
                        Effect::End(TurnEnd::Interrupted),
                    ],
                ),
            ],
        );
        play(
            Approval::Ask,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![ask("a")]),
                (
                    interrupt(1),
                    vec![
                        skip("a", "the user stopped the turn"),
                        Effect::End(TurnEnd::Interrupted),
                    ],
                ),
            ],
        );
    }

    #[test]
    fn a_dead_kernel_is_restarted_and_the_model_goes_on() {
        play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![execute("a")]),
                (
                    ran(Verdict::KernelDied(ExitReason::Exited(1))),
                    vec![Effect::RestartKernel, Effect::Sample],
                ),
            ],
        );
    }

    #[test]
    fn the_same_failure_is_pointed_out_and_then_ends_the_turn() {
        let note = "This is the same code with the same error as before. Do something else.";
        play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![execute("a")]),
                (ran(failed()), vec![Effect::Sample]),
                (replied(&["a"]), vec![execute("a")]),
                (
                    ran(failed()),
                    vec![Effect::Hint(note.to_owned()), Effect::Sample],
                ),
                (replied(&["a"]), vec![execute("a")]),
                (ran(failed()), vec![Effect::End(TurnEnd::Repeating)]),
            ],
        );
    }

    #[test]
    fn steps_and_nudges_are_limited() {
        play(
            Approval::Never,
            2,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (replied(&["a"]), vec![execute("a")]),
                (ran(Verdict::Ok), vec![Effect::Sample]),
                (replied(&["b"]), vec![execute("b")]),
                (
                    ran(Verdict::Ok),
                    vec![Effect::End(TurnEnd::StepLimit { steps: 2 })],
                ),
            ],
        );
        let lacking = || Input::Replied {
            calls: vec![],
            broken: false,
            nudge: Some("plot".to_owned()),
        };
        let nudged = || vec![Effect::Hint("plot".to_owned()), Effect::Sample];
        play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (lacking(), nudged()),
                (lacking(), nudged()),
                (lacking(), nudged()),
                (lacking(), vec![Effect::End(TurnEnd::Done)]),
            ],
        );
    }

    #[test]
    fn broken_calls_go_back_to_the_model() {
        play(
            Approval::Never,
            9,
            vec![
                (Input::Submit, vec![Effect::Sample]),
                (
                    Input::Replied {
                        calls: vec![],
                        broken: true,
                        nudge: None,
                    },
                    vec![Effect::Sample],
                ),
            ],
        );
    }

    #[test]
    fn a_person_runs_code_of_their_own() {
        play(
            Approval::Ask,
            9,
            vec![
                (
                    Input::RunOwn {
                        cell: "a".to_owned(),
                    },
                    vec![execute("a")],
                ),
                (Input::Submit, vec![]),
                (ran(failed()), vec![Effect::End(TurnEnd::CellFailed)]),
            ],
        );
    }
}
