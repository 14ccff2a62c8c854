//! The line editor of the chat on a real pseudo-terminal: keys, history over sessions, pasted lines, answers, passwords,
//! and a terminal that is as it was in the end.

use serde_json::json;

use crate::support::Sponde;
use crate::terminal::{Screen, model_that_runs, play_on};

/// What a terminal gets when the editor draws its prompt.
const PROMPT: &str = ">\u{1b}[0m ";
/// An arrow key.
const LEFT: &str = "\u{1b}[D";
const UP: &str = "\u{1b}[A";

fn offline() -> Sponde {
    Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
}

fn chat(sponde: &Sponde, steps: &serde_json::Value) -> Screen {
    play_on("xterm-256color", sponde, &["--model", "gpt-4o"], steps)
}

#[test]
fn lines_are_edited_pasted_completed_and_remembered() {
    let sponde = offline();
    let screen = chat(
        &sponde,
        &json!([
            ["wait", PROMPT],
            ["type", format!("!print(1 + 2){LEFT}0\r")],
            ["wait", "21"],
            ["wait", PROMPT],
            // As terminals hand over what is pasted: Enter is yet to come.
            [
                "type",
                "\u{1b}[200~!for i in range(3):\r    print('line', i)\r\u{1b}[201~"
            ],
            ["type", "\r"],
            ["wait", "line 2"],
            ["wait", PROMPT],
            ["type", "junk\u{3}"],
            ["wait", "(Ctrl-D or /exit ends)"],
            ["wait", PROMPT],
            ["type", "/checkp\t"],
            ["wait", "/checkpoints"],
            ["type", "\r"],
            ["wait", "/undo #N goes back"],
            ["wait", PROMPT],
            // Such a line is not for the history.
            ["type", " !print('for' + 'gotten')\r"],
            ["wait", "forgotten"],
            ["wait", PROMPT],
            ["type", "!print('a',\\\r'b')\r"],
            ["wait", "a b"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    let history = sponde.read("../state/sponde/history");
    assert!(history.contains("print('line', i)"), "{history}");
    assert!(!history.contains("gotten"), "{history}");
    let screen = chat(
        &sponde,
        &json!([
            ["wait", PROMPT],
            ["type", format!("{UP}\r")],
            ["wait", "a b"],
            ["wait", PROMPT],
            // Ctrl-R searches.
            ["type", "\u{12}1 + 2"],
            ["wait", "20)"],
            ["type", "\r"],
            ["wait", "21"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
}

#[test]
fn code_is_answered_and_passwords_are_shown_and_kept_nowhere() {
    let sponde = offline();
    let screen = chat(
        &sponde,
        &json!([
            ["wait", PROMPT],
            [
                "type",
                "!print('be' + 'fore', end=''); n = input('na' + 'me? '); print('hi', n)\r"
            ],
            ["wait", "before"],
            ["wait", "name? "],
            ["type", "Ado\u{7f}a\r"],
            ["wait", "hi Ada"],
            ["wait", PROMPT],
            [
                "type",
                "!import getpass; print(len(getpass.getpass('pass' + 'word: ')), 'long')\r"
            ],
            ["wait", "password: "],
            ["type", "hunter2\r"],
            ["wait", "7 long"],
            ["wait", PROMPT],
            // Of a pasted line the end is no part, and what is behind it is for the next one.
            [
                "type",
                "!n = input('fi' + 'rst? '); m = input('sec' + 'ond? '); print([n, m])\r"
            ],
            ["wait", "first? "],
            ["type", "\u{1b}[200~one\rtwo\r\u{1b}[201~\r"],
            ["wait", "['one', 'two']"],
            ["wait", PROMPT],
            ["type", "!n = input('what' + 'ever? ')\r"],
            ["wait", "whatever? "],
            ["type", "\u{3}"],
            ["wait", "interrupted"],
            ["wait", PROMPT],
            // It ends while a line is being typed.
            ["type", "half a line"],
            ["wait", "half a line"],
            ["signal", "TERM"],
        ]),
    );
    assert_eq!(
        (screen.code, screen.as_always),
        (130, true),
        "{}",
        screen.all
    );
    assert!(!screen.all.contains("hunter2"), "{}", screen.all);
    let history = sponde.read("../state/sponde/history");
    assert!(history.contains("'what' + 'ever? '"), "{history}");
    assert!(!history.contains("hunter2"), "{history}");
    assert!(
        !history.contains("Ada"),
        "answers are no questions: {history}"
    );
}

/// At the question whether code runs.
#[tokio::test(flavor = "multi_thread")]
async fn answers_are_edited_too() {
    let mock = model_that_runs("print('ran' + ' it')").await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let screen = tokio::task::block_in_place(|| {
        chat(
            &sponde,
            &json!([
                ["wait", PROMPT],
                ["type", "go\r"],
                ["wait", "or say what to do instead:"],
                ["type", "n\u{7f}y\r"],
                ["wait", "ran it"],
                ["wait", "That was it."],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
}

/// Ctrl-C that came before a question of ours was there ends the turn, and the next line is not lost to that question.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_leaves_no_question_behind() {
    let mock = model_that_runs("print('ran' + ' it')").await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("EDITOR", "sh interrupting")
        // Its code finds out who started it.
        .with("SPONDE_SANDBOX", "full");
    sponde.write("interrupting", "kill -INT $(cat pid); sleep 0.5; exit 1");
    let screen = tokio::task::block_in_place(|| {
        chat(
            &sponde,
            &json!([
                ["wait", PROMPT],
                [
                    "type",
                    "!import os; open('pid', 'w').write(str(os.getppid())); print('writ' + 'ten')\r"
                ],
                ["wait", "written"],
                ["wait", PROMPT],
                ["type", "go\r"],
                ["wait", "or say what to do instead:"],
                ["type", "edit\r"],
                ["wait", "interrupted"],
                ["wait", PROMPT],
                ["type", "!print('al' + 'ive')\r"],
                ["wait", "alive"],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    assert!(!screen.all.contains("ran it"), "{}", screen.all);
}
