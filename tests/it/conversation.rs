//! What a person types at a chat besides questions, on a real pseudo-terminal: code that the kernel completes, commands, a first
//! question on the command line, a session that is picked.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde};
use crate::terminal::{Screen, model_that_runs, play_on};

const PROMPT: &str = ">\u{1b}[0m ";
const DOWN: &str = "\u{1b}[B";

fn offline() -> Sponde {
    Sponde::new().with("OPENAI_BASE_URL", &format!("{NOBODY}/v1"))
}

fn on_xterm(sponde: &Sponde, arguments: &[&str], steps: &Value) -> Screen {
    let screen = play_on("xterm-256color", sponde, arguments, steps);
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    screen
}

#[test]
fn the_kernel_completes_code_and_says_when_it_is_whole() {
    let screen = on_xterm(
        &offline(),
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", "!import os; number_of_rows = 41\r"],
            ["wait", PROMPT],
            ["type", "!number_of_r\t"],
            // The kernel's first completion may take longer than a person is made to wait.
            ["pause", "5"],
            ["type", "\t"],
            ["wait", "number_of_rows"],
            ["type", " + 1\r"],
            ["wait", "42\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "!for i in range(2):\r"],
            ["type", "    print('row', i)\r"],
            ["type", "\r"],
            ["wait", "row 0\u{1b}[K\r\nrow 1\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "$ echo from the shell\r"],
            ["wait", "from the shell\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "/kernel mis\t\r"],
            ["wait", "> misbehave (misbehave)"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert!(!screen.all.contains("SyntaxError"), "{}", screen.all);
}

#[test]
fn commands_tell_how_things_stand() {
    let screen = on_xterm(
        &offline(),
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", "!x = 1\r"],
            ["wait", PROMPT],
            ["type", "/status\r"],
            ["wait", "spent: no model was asked yet"],
            ["wait", PROMPT],
            ["type", "%undo\r"],
            ["wait", "`%undo` is /undo here"],
            ["wait", PROMPT],
            ["type", "/restart\r"],
            ["wait", PROMPT],
            ["type", "!print('x' in globals())\r"],
            ["wait", "False\u{1b}[K\r\n\u{1b}[J"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    for words in [
        "model: openai-compatible/gpt-4o\r\n",
        "kernel: python3 (python); ",
        "approval: on-risk, ",
        "sandbox: ",
        "notebook: ",
    ] {
        let (_, after) = screen.all.split_once("/status").unwrap();
        assert!(after.contains(words), "{words}: {after:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_on_the_command_line_is_the_first() {
    let mock = model_that_runs("echo ran it").await;
    let sponde = Sponde::new().with_model(&mock);
    let arguments = ["--model", "gpt-4o", "-k", "misbehave", "--yes", "please go"];
    let screen = tokio::task::block_in_place(|| {
        on_xterm(
            &sponde,
            &arguments,
            &json!([
                ["wait", "please go\r\n"],
                ["wait", "ran it\u{1b}[K\r\n\u{1b}[J"],
                ["wait", "That was it."],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    assert!(
        screen.all.contains(">\u{1b}[0m please go\r\n"),
        "{}",
        screen.all
    );
    // Where nobody is at the terminal it is the only one.
    let run = tokio::task::block_in_place(|| sponde.run(&arguments));
    assert_eq!(
        (run.code, &*run.stdout),
        (Some(0), "That was it.\n"),
        "{}",
        run.stderr
    );
    mock.stop().await;
    let wrong = tokio::task::block_in_place(|| sponde.run(&["kernles"]));
    assert_eq!(
        wrong.error(),
        (
            String::new(),
            "exit: 2\nerror: there is no command `kernles`\n\nhint: did you mean `kernels`? A question has more than one word"
                .to_owned()
        )
    );
    assert_eq!(wrong.code, Some(2));
}

/// The sessions of this directory come first, only free ones are offered, and the last turns look as they did.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_picked() {
    let answer = |question: &str, content: &str| json!({"match": {"userMessage": question, "turnIndex": 0}, "response": {"content": content}});
    let mock = Aimock::start(&json!([
        answer("rain", "It rains **much** in `Bergen`."),
        answer("sales", "Sales are up."),
        answer("other", "Elsewhere."),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    std::fs::create_dir(sponde.path("else")).unwrap();
    let ask = |question: &str, dir: &str| {
        let mut command =
            sponde.command(&["ask", question, "--model", "gpt-4o", "-k", "misbehave"]);
        command.current_dir(sponde.path(dir));
        assert!(command.output().unwrap().status.success(), "{question}");
    };
    let screen = tokio::task::block_in_place(|| {
        ask("about rain", "");
        ask("about sales", "");
        ask("the other thing", "else");
        on_xterm(
            &sponde,
            &["resume"],
            &json!([
                ["size", "30x120"],
                ["wait", "Which session?"],
                ["wait", "in "],
                ["type", DOWN],
                ["wait", "about rain"],
                ["type", "\r"],
                ["wait", "resuming"],
                ["wait", "Ask in plain words"],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    // The list: this directory's two, the later one first, then the other.
    let list = screen.waited[1].split("\r\n").map(str::to_owned);
    let named = list.filter_map(|line| {
        ["about sales", "about rain", "the other thing"]
            .into_iter()
            .find(|name| line.contains(name))
    });
    let named: Vec<&str> = named.collect();
    assert_eq!(
        named,
        ["about sales", "about rain", "the other thing"],
        "{}",
        screen.all
    );
    let again = "It rains \u{1b}[1mmuch\u{1b}[0m in \u{1b}[36mBergen\u{1b}[0m.";
    let (_, resumed) = screen.all.split_once("resuming").unwrap();
    assert!(resumed.contains(again), "{resumed:?}");
    assert!(resumed.contains("about rain"), "{resumed:?}");
}
