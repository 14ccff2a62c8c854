//! `/status` and `/sandbox`: what code may do changes with a restart of its kernel; what ran before runs again if the person
//! wants it, but not what only the sandbox had stopped.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{NOBODY, Sponde};
use crate::terminal::{Screen, model_that_runs, play, play_on};

const PROMPT: &str = "\r\n> ";

/// A chat in which the model runs `code`, which prints `printed`, and code may do more then: full.
async fn widened(code: &str, printed: &str, after: &Value) -> (Screen, Sponde) {
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let mut steps = vec![
        json!(["wait", PROMPT]),
        json!(["type", "go\n"]),
        json!(["wait", printed]),
        json!(["wait", PROMPT]),
        json!(["type", "/status\n"]),
        json!(["wait", "audit log: `sponde audit show"]),
        json!([
            "wait",
            "sandbox: workspace, code writes only in this directory"
        ]),
        json!(["wait", PROMPT]),
        json!(["type", "/sandbox full\n"]),
        json!(["wait", "Go on? [y/N]"]),
        json!(["type", "y\n"]),
        json!(["wait", "sandbox: full, code can do all that you can"]),
        json!([
            "wait",
            "[r]un its one cell of code again, or go on [f]resh?"
        ]),
        json!(["type", "r\n"]),
    ];
    steps.extend(after.as_array().unwrap().iter().cloned());
    steps.extend([json!(["wait", PROMPT]), json!(["type", "\u{4}"])]);
    let steps = Value::from(steps);
    let screen = tokio::task::block_in_place(|| play(&sponde, &["--model", "gpt-4o"], &steps));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    (screen, sponde)
}

#[tokio::test(flavor = "multi_thread")]
async fn code_may_do_more_after_a_restart_and_what_ran_runs_again() {
    let after = json!([
        ["wait", "ran 1 cell again, with the same outputs"],
        ["wait", PROMPT],
        [
            "type",
            "!print('still', x + 1); open('../outside', 'w').close()\n"
        ],
        ["wait", "still 42"],
        ["wait", PROMPT],
        ["type", "/sandbox\n"],
        ["wait", "approval: always"],
    ]);
    let (_, sponde) = widened("x = 41\nprint('made', x)", "made 41", &after).await;
    assert!(sponde.path("../outside").exists());
    let verify = sponde.run(&["audit", "verify"]);
    assert_eq!(verify.code, Some(0), "{verify}");
    let show = sponde.run(&["audit", "show"]).stdout;
    let (before, after) = show.split_once("resumed   session ").unwrap();
    assert!(before.contains("sandbox workspace (bubblewrap)"), "{show}");
    assert!(
        after.contains("sandbox full") && after.contains("run again"),
        "{show}"
    );
    // Without a word it is as it began.
    let resumed = sponde.run_with_stdin(&["resume", "--model", "gpt-4o"], "");
    assert!(resumed.stderr.contains("sandbox: workspace"), "{resumed}");
}

/// Nobody was asked about it, for the sandbox stopped it: now it would not.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_the_sandbox_stopped_does_not_run_again() {
    let outside = Path::new("/opt/sponde-widening-test");
    let code = "try:\n    open('/opt/sponde-widening-test', 'w').close()\nexcept OSError:\n    print('it was', 'stopped')";
    let why = "not run: the sandbox permits more now, and line 2 writes outside of the workspace";
    let after = json!([["wait", why]]);
    let (screen, _) = widened(code, "it was stopped", &after).await;
    let was_there = outside.exists();
    let _ = std::fs::remove_file(outside);
    assert!(!was_there, "{}", screen.all);
}

#[test]
fn only_a_person_lets_code_do_more() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("OPENAI_API_KEY", "none");
    let piped = sponde.run_with_stdin(&["--model", "none"], "/sandbox full\n/status\n");
    let words = "only a person at a terminal can do that";
    assert!(piped.stderr.contains(words), "{piped}");
    assert!(!piped.stderr.contains("sandbox: full"), "{piped}");
    assert_eq!(
        piped.stderr.matches("sandbox: workspace").count(),
        2,
        "{piped}"
    );
    // A person who does not say yes has everything as it was.
    let steps = json!([
        ["wait", PROMPT],
        ["type", "!x = 5\n"],
        ["wait", PROMPT],
        ["type", "/sandbox workspace on\n"],
        ["wait", "Go on? [y/N]"],
        ["type", "n\n"],
        ["wait", PROMPT],
        ["type", "!print('kept', x * 2)\n"],
        ["wait", "kept 10"],
        ["wait", PROMPT],
        ["type", "/exit\n"],
    ]);
    let declined = play(&sponde, &["--model", "none"], &steps);
    assert_eq!(declined.code, 0, "{}", declined.all);
    // That nothing confines code is said in red.
    let steps = json!([["wait", "Ask in plain words"], ["type", "\u{4}"]]);
    let full = ["--model", "none", "--sandbox", "full"];
    let full = play_on("xterm-256color", &sponde, &full, &steps);
    assert!(
        full.all.contains("\u{1b}[31msandbox: full"),
        "{:?}",
        full.all
    );
}
