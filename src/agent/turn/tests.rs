//! Conversations with the machine: each input with its expected effects.

use super::*;
use crate::agent::approval::{Approval, Finding, FindingKind, Ground, Rule, Where};
use crate::kernel::{Extent, Level, Network};
use crate::session::journal::Permit;

fn call(cell: &str) -> Call {
    Call {
        cell: cell.to_owned(),
        code: format!("code of {cell}"),
        language: "python".to_owned(),
        analysis: Analysis::default(),
    }
}

/// A policy for a session in the sandbox `workspace`.
fn policy(approval: Approval, rules: &[Rule]) -> Policy {
    let extent = Extent {
        level: Level::Workspace,
        network: Network::Off,
        add_dirs: vec![],
        reads: vec![],
        landlock: false,
        gvisor: false,
    };
    let ground = Ground {
        cwd: "/w".into(),
        home: None,
        extent,
    };
    Policy::new(approval, rules.to_vec(), ground)
}

/// An analysis with this finding.
fn analysis(kind: FindingKind, path: &str) -> Analysis {
    Analysis {
        findings: vec![Finding {
            kind,
            line: 1,
            column: 1,
            text: "x".to_owned(),
            reason: kind.words().to_owned(),
            path: Some(path.to_owned()),
            place: Some(Where::Workspace),
            command: None,
        }],
        ..Analysis::default()
    }
}

/// A reply with these cells, the first of which has a finding.
fn replied_with_risk(names: &[&str], kind: FindingKind) -> Input {
    let mut calls: Vec<Call> = names.iter().map(|cell| call(cell)).collect();
    calls[0].analysis = analysis(kind, "a");
    Input::Replied {
        calls,
        broken: false,
        nudge: None,
    }
}

fn replied(cells: &[&str]) -> Input {
    Input::Replied {
        calls: cells.iter().map(|cell| call(cell)).collect(),
        broken: false,
        nudge: None,
    }
}

fn go_on() -> Input {
    Input::GoOn { is_changed: false }
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
        changed: None,
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

/// Plays a conversation and checks the effects of each input.
fn play(approval: Approval, max_steps: u32, conversation: Vec<(Input, Vec<Effect>)>) -> Turn {
    play_with(approval, max_steps, AtLimit::End, conversation)
}

fn play_with(
    approval: Approval,
    max_steps: u32,
    at_limit: AtLimit,
    conversation: Vec<(Input, Vec<Effect>)>,
) -> Turn {
    let mut turn = Turn::new(policy(approval, &[]), max_steps, at_limit);
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
        Approval::Always,
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
        Approval::Always,
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
    play(
        Approval::Never,
        9,
        vec![
            (Input::Interrupt, vec![]),
            (Input::Submit, vec![Effect::Sample]),
            (
                Input::Interrupt,
                vec![Effect::CancelSampling, Effect::End(TurnEnd::Interrupted)],
            ),
            (Input::Submit, vec![Effect::Sample]),
            (replied(&["a", "b"]), vec![execute("a")]),
            (Input::Interrupt, vec![Effect::InterruptKernel]),
            (Input::Interrupt, vec![Effect::InterruptKernel]),
            (Input::Restart, vec![Effect::RestartKernel]),
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
        Approval::Always,
        9,
        vec![
            (Input::Submit, vec![Effect::Sample]),
            (replied(&["a"]), vec![ask("a")]),
            (
                Input::Interrupt,
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
fn at_a_limit_a_person_can_go_on() {
    let steps = TurnEnd::StepLimit { steps: 1 };
    let message = "it is too dear".to_owned();
    let over = || Input::OverBudget {
        message: message.clone(),
    };
    let budget = TurnEnd::Budget {
        message: message.clone(),
    };
    play_with(
        Approval::Never,
        1,
        AtLimit::Ask,
        vec![
            (Input::Submit, vec![Effect::Sample]),
            (replied(&["a"]), vec![execute("a")]),
            (ran(Verdict::Ok), vec![Effect::AskToGoOn(steps.clone())]),
            (Input::Submit, vec![]),
            (go_on(), vec![Effect::Sample]),
            (over(), vec![Effect::AskToGoOn(budget.clone())]),
            (go_on(), vec![Effect::RaiseBudget, Effect::Sample]),
            (replied(&["b"]), vec![execute("b")]),
            (ran(Verdict::Ok), vec![Effect::AskToGoOn(steps.clone())]),
            (Input::GiveUp, vec![Effect::End(steps)]),
            (go_on(), vec![]),
        ],
    );
    play(
        Approval::Never,
        9,
        vec![
            (Input::Submit, vec![Effect::Sample]),
            (over(), vec![Effect::End(budget)]),
        ],
    );
    let turn = play_with(
        Approval::Never,
        9,
        AtLimit::Ask,
        vec![
            (Input::Submit, vec![Effect::Sample]),
            (replied(&["a"]), vec![execute("a")]),
            (ran(failed()), vec![Effect::Sample]),
            (replied(&["a"]), vec![execute("a")]),
        ],
    );
    let mut turn = turn;
    for _ in 0..2 {
        let effects = turn.step(ran(failed()));
        if effects == [Effect::AskToGoOn(TurnEnd::Repeating)] {
            let effects = turn.step(go_on());
            assert!(
                matches!(&effects[..], [Effect::Hint(_), Effect::Sample]),
                "{effects:?}"
            );
            return;
        }
        assert_eq!(turn.step(replied(&["a"])), [execute("a")]);
    }
    panic!("nobody was asked");
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
        Approval::Always,
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

/// The person's own cell while the model's cell waits: however it ends, the question is asked again.
#[test]
fn a_cell_of_ones_own_brings_the_question_back() {
    let mut turn = Turn::new(policy(Approval::Always, &[]), 9, AtLimit::End);
    let _ = turn.step(Input::Submit);
    assert_eq!(turn.step(replied(&["a", "b"])), [ask("a")]);
    for verdict in [Verdict::Ok, failed(), Verdict::Interrupted] {
        let own = Input::RunOwn {
            cell: "own".to_owned(),
        };
        assert_eq!(turn.step(own), [execute("own")]);
        // A decision in the meantime does not count.
        assert_eq!(turn.step(decide("a", Decision::Run)), []);
        assert_eq!(turn.step(ran(verdict)), [ask("a")]);
        assert_eq!(turn.state.waits_for(), Some("a"));
    }
    assert_eq!(turn.step(decide("a", Decision::Run)), [execute("a")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [ask("b")]);
}

#[test]
fn what_was_allowed_for_good_can_be_taken_back() {
    let mut turn = Turn::new(policy(Approval::Always, &[]), 9, AtLimit::End);
    let _ = turn.step(Input::Submit);
    let _ = turn.step(replied(&["a", "b", "c"]));
    assert_eq!(turn.step(decide("a", Decision::Always)), [execute("a")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [execute("b")]);
    turn.set_approval(Approval::Always);
    assert_eq!(turn.step(ran(Verdict::Ok)), [ask("c")]);
}

#[test]
fn only_risk_is_asked_about_and_a_kind_of_it_can_be_allowed() {
    let mut turn = Turn::new(policy(Approval::OnRisk, &[]), 9, AtLimit::End);
    let _ = turn.step(Input::Submit);
    assert_eq!(turn.step(replied(&["a"])), [execute("a")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [Effect::Sample]);
    let deletes = replied_with_risk(&["b", "c"], FindingKind::Delete);
    assert_eq!(turn.step(deletes.clone()), [ask("b")]);
    let permit = Permit {
        finding: "delete".to_owned(),
        language: "python".to_owned(),
    };
    assert_eq!(
        turn.step(decide("b", Decision::Always)),
        [Effect::Remember(permit), execute("b")]
    );
    assert_eq!(turn.step(ran(Verdict::Ok)), [execute("c")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [Effect::Sample]);
    assert_eq!(turn.step(deletes), [execute("b")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [execute("c")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [Effect::Sample]);
    let installs = replied_with_risk(&["d"], FindingKind::Install);
    assert_eq!(turn.step(installs), [ask("d")]);
    assert_eq!(turn.approval(), Approval::OnRisk);
}

#[test]
fn a_change_is_judged_again() {
    let change = |found: Analysis| Input::Decided {
        cell: "a".to_owned(),
        decision: Decision::Change {
            source: "new".to_owned(),
        },
        changed: Some(found),
    };
    let changed = || Effect::Change {
        cell: "a".to_owned(),
        source: "new".to_owned(),
    };
    let mut turn = Turn::new(policy(Approval::OnRisk, &[]), 9, AtLimit::End);
    let _ = turn.step(Input::Submit);
    let deletes = replied_with_risk(&["a"], FindingKind::Delete);
    assert_eq!(turn.step(deletes), [ask("a")]);
    // The changed code deletes another file.
    let other = analysis(FindingKind::Delete, "b");
    assert_eq!(turn.step(change(other.clone())), [changed(), ask("a")]);
    // Nothing new to decide, so the code runs.
    assert_eq!(turn.step(change(other)), [changed(), execute("a")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [Effect::Sample]);
}

#[test]
fn what_is_forbidden_never_runs() {
    let forbid: Rule = toml::from_str("action = \"forbid\"\nfinding = \"delete\"").unwrap();
    for approval in [Approval::Always, Approval::OnRisk, Approval::Never] {
        let mut turn = Turn::new(
            policy(approval, std::slice::from_ref(&forbid)),
            9,
            AtLimit::End,
        );
        let _ = turn.step(Input::Submit);
        let deletes = replied_with_risk(&["a", "b"], FindingKind::Delete);
        let effects = turn.step(deletes);
        let [
            Effect::Forbid { cell, ruling },
            Effect::Skip { cell: skipped, .. },
            Effect::Sample,
        ] = effects.as_slice()
        else {
            panic!("{effects:?}");
        };
        assert_eq!((cell.as_str(), skipped.as_str()), ("a", "b"));
        assert_eq!(
            ruling.reason,
            "rule 1 of the configuration: forbid finding delete"
        );
        assert!(
            ruling
                .words_for_model()
                .contains("line 1: deletes files (x)")
        );
    }
    // A person cannot allow it either.
    let mut turn = Turn::new(
        policy(Approval::Always, std::slice::from_ref(&forbid)),
        9,
        AtLimit::End,
    );
    let _ = turn.step(Input::Submit);
    assert_eq!(turn.step(replied(&["a"])), [ask("a")]);
    let effects = turn.step(Input::Decided {
        cell: "a".to_owned(),
        decision: Decision::Change {
            source: "new".to_owned(),
        },
        changed: Some(analysis(FindingKind::Delete, "x")),
    });
    assert!(
        matches!(
            effects.as_slice(),
            [Effect::Change { .. }, Effect::Forbid { .. }, Effect::Sample]
        ),
        "{effects:?}"
    );
}

#[test]
fn a_plan_comes_first_and_is_approved_once() {
    let tells = |text: &str| {
        let is_told = text.to_owned();
        move |effects: &[Effect]| matches!(effects, [Effect::Tell(words), Effect::Sample] if words.contains(&is_told))
    };
    let planned = [Effect::AskToGoOn(TurnEnd::Planned)];
    let mut turn = Turn::new(policy(Approval::Always, &[]), 9, AtLimit::End);
    assert!(tells("Do not run code yet")(&turn.step(Input::Plan)));
    // Code that comes with the plan does not run.
    let skipped = Effect::Skip {
        cell: "a".to_owned(),
        reason: "the user has not approved a plan yet".to_owned(),
    };
    assert_eq!(turn.step(replied(&["a"])), [skipped, Effect::Sample]);
    assert_eq!(turn.step(replied(&[])), planned);
    let changed = Input::GoOn { is_changed: true };
    assert!(tells("Write the plan again")(&turn.step(changed)));
    assert_eq!(turn.step(replied(&[])), planned);
    assert!(tells("The plan is approved")(&turn.step(go_on())));
    // Cells are no longer asked about one by one, only risk.
    assert_eq!(turn.step(replied(&["b"])), [execute("b")]);
    assert_eq!(turn.step(ran(Verdict::Ok)), [Effect::Sample]);
    let risky = replied_with_risk(&["c"], FindingKind::Delete);
    let asks = Effect::Ask {
        cell: "c".to_owned(),
    };
    assert_eq!(turn.step(risky), [asks]);
    assert_eq!(turn.approval(), Approval::Always);
    assert!(
        turn.step(Input::Interrupt)
            .contains(&Effect::End(TurnEnd::Interrupted))
    );
    // In the next turn each cell is asked about again.
    let _ = turn.step(Input::Submit);
    let asks = Effect::Ask {
        cell: "d".to_owned(),
    };
    assert_eq!(turn.step(replied(&["d"])), [asks]);
}

#[test]
fn a_plan_that_is_given_up_ends_the_turn() {
    let mut turn = Turn::new(policy(Approval::Never, &[]), 9, AtLimit::Ask);
    let _ = turn.step(Input::Plan);
    let _ = turn.step(replied(&[]));
    assert_eq!(turn.step(Input::GiveUp), [Effect::End(TurnEnd::Planned)]);
    assert_eq!(turn.state, State::Idle);
}
