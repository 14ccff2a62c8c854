//! The chat on a real pseudo-terminal: what a person sees before they say yes, what is not shown while they type, and
//! what Ctrl-C does.

use std::process::Command;

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{Sponde, python_prefix};

/// What a terminal showed.
pub(crate) struct Screen {
    pub(crate) code: i64,
    pub(crate) all: String,
    /// What appeared up to each text that was waited for.
    pub(crate) waited: Vec<String>,
    /// Seconds from what was typed last to each of these.
    pub(crate) took: Vec<f64>,
    /// How much of `all` was there, in characters, when the terminal got so many columns.
    pub(crate) resized: Vec<(usize, u16)>,
    /// Whether the terminal is as it was before.
    pub(crate) as_always: bool,
}

/// Runs the program on a terminal without any art and plays `steps` (`tests/fixtures/terminal.py`).
pub(crate) fn play(sponde: &Sponde, arguments: &[&str], steps: &Value) -> Screen {
    play_on("dumb", sponde, arguments, steps)
}

/// The same on a terminal of this kind.
pub(crate) fn play_on(term: &str, sponde: &Sponde, arguments: &[&str], steps: &Value) -> Screen {
    let program = sponde.command(arguments);
    let mut command = Command::new(python_prefix().join("bin/python"));
    command
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/terminal.py"
        ))
        .arg(program.get_program())
        .args(program.get_args())
        .current_dir(program.get_current_dir().unwrap())
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("TERM", term);
    let output = assert_cmd::Command::from_std(command)
        .write_stdin(steps.to_string())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    Screen {
        code: value["code"].as_i64().unwrap(),
        as_always: value["as_always"].as_bool().unwrap(),
        resized: serde_json::from_value(value["resized"].clone()).unwrap(),
        took: value["took"]
            .as_array()
            .unwrap()
            .iter()
            .map(|seconds| seconds.as_f64().unwrap())
            .collect(),
        all: value["screen"].as_str().unwrap().to_owned(),
        waited: value["waited"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap().to_owned())
            .collect(),
    }
}

/// It wants to run `code`, and then says that that was it.
pub(crate) async fn model_that_runs(code: &str) -> Aimock {
    let arguments = json!({ "code": code }).to_string();
    Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 1}, "response": {"content": "That was it."}},
    ]))
    .await
}

const PROMPT: &str = "\r\n> ";

/// Code with an escape sequence that would hide it: what runs is what was shown.
#[tokio::test(flavor = "multi_thread")]
async fn the_code_that_runs_is_the_code_that_was_shown() {
    let hidden = "print('sa' + 'fe') #\u{1b}[2K\u{1b}[1A\nprint('hid' + 'den')";
    let mock = model_that_runs(hidden).await;
    let sponde = Sponde::new().with_model(&mock).with("EDITOR", "cp -t seen");
    std::fs::create_dir(sponde.path("seen")).unwrap();
    sponde.configure("approval = \"always\"\n");
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["--model", "gpt-4o", "--notebook", "out.ipynb"],
            &json!([
                ["wait", PROMPT],
                ["type", "go\n"],
                ["wait", "or say what to do instead:"],
                ["type", "edit\n"],
                ["wait", "the code is as it was"],
                ["wait", "or say what to do instead:"],
                ["type", "y\n"],
                ["wait", "safe\r\nhidden\r\n"],
                ["wait", "That was it."],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    // All of the code as it is, with what a terminal would handle written out, between a rule and the question.
    let (_, shown) = screen.waited[1].split_once("─\r\n").unwrap();
    assert_eq!(
        shown,
        "print('sa' + 'fe') #\\u{1b}[2K\\u{1b}[1A\r\nprint('hid' + 'den')\r\n\
         line 1: contains invisible characters (print('sa' + 'fe') #)\r\n\
         Run it? [y]es, [n]o, [a]lways, [e]dit, [?], or say what to do instead:"
    );
    let mut edited = std::fs::read_dir(sponde.path("seen")).unwrap();
    let edited = std::fs::read_to_string(edited.next().unwrap().unwrap().path()).unwrap();
    let notebook: Value = serde_json::from_str(&sponde.read("out.ipynb")).unwrap();
    let ran: String = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|cell| cell["cell_type"] == "code")
        .flat_map(|cell| cell["source"].as_array().unwrap())
        .map(|line| line.as_str().unwrap())
        .collect();
    assert_eq!(edited, format!("{hidden}\n"));
    assert_eq!(ran, hidden);
    assert_eq!(screen.code, 0, "{}", screen.all);
}

/// An editor that fails, leaves nothing or leaves all as it was changes nothing and runs nothing; what it changed is shown,
/// and asked about again.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_editor_changed_is_shown_and_asked_about() {
    let mock = model_that_runs("echo one").await;
    let sponde = Sponde::new().with_model(&mock).with("EDITOR", "sh editor");
    // It fails, empties the file, leaves it alone as `:q!` does, and changes it twice.
    sponde.write(
        "editor",
        "echo x >> times; n=$(wc -l < times); \
         case $n in 1) exit 7;; 2) : > \"$1\";; 3) ;; 4) echo echo two > \"$1\";; *) echo echo three >> \"$1\";; esac",
    );
    let question = "or say what to do instead:";
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["--model", "gpt-4o", "-k", "misbehave"],
            &json!([
                ["wait", PROMPT],
                ["type", "go\n"],
                ["wait", question],
                ["type", "e\n"],
                ["wait", "`sh editor` ended with exit status: 7"],
                ["wait", question],
                ["type", "e\n"],
                ["wait", "no code is left"],
                ["wait", question],
                ["type", "e\n"],
                ["wait", "the code is as it was\r\n"],
                ["wait", question],
                ["type", "e\n"],
                ["wait", "- echo one\r\n+ echo two\r\n"],
                ["wait", question],
                ["type", "e\n"],
                ["wait", "  echo two\r\n+ echo three\r\n"],
                ["wait", question],
                ["type", "y\n"],
                ["wait", "\r\ntwo\r\n"],
                ["wait", "That was it."],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
}

#[test]
fn a_cell_that_ignores_ctrl_c_is_said_to_go_on() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let stubborn = "!import time; print('beg' + 'un')\\\ntry: time.sleep(600)\\\n\
                    except KeyboardInterrupt: time.sleep(6); print('at', 'last')\n";
    let screen = play(
        &sponde,
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", stubborn],
            ["wait", "begun\r\n"],
            ["type", "\u{3}"],
            [
                "wait",
                "still running; Ctrl-C twice in a row restarts the kernel"
            ],
            ["wait", "at last"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!(screen.code, 0, "{}", screen.all);
}

#[test]
fn a_password_is_not_shown() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let secret = "!import getpass; print('len', len(getpass.getpass('key: ')), input('name: '))\n";
    let screen = play(
        &sponde,
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", secret],
            ["wait", "key: "],
            ["wait", "key: "],
            ["type", "hunter2\n"],
            ["wait", "name: "],
            ["type", "Ada\n"],
            ["wait", "len 7 Ada"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert!(!screen.all.contains("hunter2"), "{}", screen.all);
    assert!(screen.all.contains("name: Ada\r\n"), "{}", screen.all);
    assert_eq!(screen.code, 0);
}

#[test]
fn a_password_of_a_script_is_not_shown() {
    let sponde = Sponde::new();
    let code = "import getpass; print('len', len(getpass.getpass('key: ')))";
    let screen = play(
        &sponde,
        &["run", "-c", code],
        &json!([["wait", "key: "], ["type", "hunter2\n"], ["wait", "len 7"]]),
    );
    assert!(!screen.all.contains("hunter2"), "{}", screen.all);
    assert_eq!(screen.code, 0);
}

#[test]
fn ctrl_c_stops_the_cell_and_not_the_chat() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let screen = play(
        &sponde,
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            [
                "type",
                "!x = 5; print('beg' + 'un'); import time; time.sleep(600)\n"
            ],
            ["wait", "begun"],
            ["type", "\u{3}"],
            ["wait", "interrupted"],
            ["wait", PROMPT],
            ["type", "!print('x is', x)\n"],
            ["wait", "x is 5"],
            ["wait", PROMPT],
            ["type", "%%misbehave echo from the other\n"],
            ["wait", "\nfrom the other\r\n"],
            ["wait", PROMPT],
            ["type", "/kernel misbehave\n"],
            ["wait", "> misbehave (misbehave)"],
            ["wait", PROMPT],
            ["type", "!result 7 of 9\n"],
            ["wait", "\n7 of 9\r\n"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!(screen.code, 0, "{}", screen.all);
}

/// A kernel that ends itself is followed by the spare, which knows nothing of the first one's variables.
#[test]
fn a_kernel_that_died_is_followed_by_the_spare() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", "http://127.0.0.1:1/v1");
    let screen = play(
        &sponde,
        &["--model", "gpt-4o"],
        &json!([
            ["wait", PROMPT],
            ["type", "!x = 1\n"],
            ["wait", PROMPT],
            // The spare starts two seconds after the first kernel, and imports what most cells do.
            [
                "type",
                "!import time; time.sleep(8); print('slept', 'well')\n"
            ],
            ["wait", "slept well"],
            ["wait", PROMPT],
            ["type", "!import os; os._exit(3)\n"],
            ["wait", "all variables are lost"],
            ["wait", PROMPT],
            [
                "type",
                "!import sys; print('x' in globals(), 'pandas' in sys.modules)\n"
            ],
            ["wait", "False True"],
            ["wait", PROMPT],
            ["type", "\u{4}"],
        ]),
    );
    assert_eq!(screen.code, 0, "{}", screen.all);
}
