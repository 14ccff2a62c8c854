//! Whole sessions as a person sees them, drawn by a terminal emulator at 80 and at 200 columns: code in two calls, an error
//! after a flood, progress in place, a table, an edit at the question, an interrupt, and the session resumed.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::Sponde;
use crate::terminal::{Screen, play_on};

const PROMPT: &str = ">\u{1b}[0m ";
const QUESTION: &str = "or say what to do instead:";
/// Rows of the emulator: so many that nothing leaves it.
const ROWS: u16 = 3000;

/// What stands on a screen of so many columns after all that was written to it.
fn drawn(screen: &Screen, columns: u16) -> String {
    let mut terminal = vt100::Parser::new(ROWS.try_into().unwrap(), columns.try_into().unwrap(), 0);
    terminal.process(screen.all.as_bytes());
    let rows: Vec<String> = terminal
        .screen()
        .rows(0, columns)
        .map(|row| row.trim_end().to_owned())
        .collect();
    let last = rows.iter().rposition(|row| !row.is_empty()).unwrap_or(0);
    rows[..=last].join("\n")
}

/// Without what is different each time.
fn redacted(text: &str, sponde: &Sponde) -> String {
    let home = sponde.path("").parent().unwrap().display().to_string();
    without_ids(&text.replace(&home, "[HOME]"))
}

/// Ids of sessions and times, in the forms in which they are shown.
fn without_ids(text: &str) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let mut line = line.to_owned();
        if let Some(at) = line.find("/sessions/") {
            line.truncate(at);
            line.push_str("/sessions/[ID].ipynb");
        }
        if let Some(rest) = line.strip_prefix("resuming ") {
            let (_, name) = rest.split_once(':').unwrap();
            line = format!("resuming [ID]:{name}");
        }
        if line.contains(" tokens in, ") {
            "[TOKENS AND TIME]".clone_into(&mut line);
        }
        if line.starts_with('(') && line.ends_with(" s)") {
            continue;
        }
        shown.push_str(line.trim_end());
        shown.push('\n');
    }
    shown
}

async fn model() -> Aimock {
    let call = |code: &str| {
        let arguments = json!({ "code": code }).to_string();
        json!({"type": "toolCall", "name": "run_code", "arguments": arguments})
    };
    let flood = "for i in range(100):\n    print('line', i)\nraise ValueError('broken')";
    let progress =
        "import sys\nfor n in range(3):\n    sys.stdout.write(f'\\rstep {n}')\nprint(' of 2')";
    let table = "import pandas as pd\npd.DataFrame({'city': ['Seattle', 'New York'], 'rain': [4426.0, 4178.6]})";
    let words = "## Rain\nIt rains **more** in `Seattle` than in New York, although many people believe that it is the other way round.\n\n\
                 | City | Rain |\n|:--|--:|\n| Seattle | 4426.0 |\n| New York | 4178.6 |\n";
    Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [call(flood)]}},
        {"match": {"turnIndex": 1}, "response": {"blocks": [call(progress), call(table)]}},
        {"match": {"turnIndex": 2}, "response": {"content": words}},
    ]))
    .await
}

async fn session(columns: u16) -> String {
    let mock = model().await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("EDITOR", "sed -i s/broken/changed/");
    sponde.configure("approval = \"always\"\n");
    let size = format!("24x{columns}");
    let steps: Value = json!([
        ["size", size],
        ["wait", PROMPT],
        ["type", "where does it rain more?\r"],
        ["wait", QUESTION],
        ["type", "e"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", QUESTION],
        ["type", "y"],
        ["wait", "4178.6"],
        ["wait", PROMPT],
        ["type", "!while True: pass\r"],
        ["wait", "running · 0 s"],
        ["pause", "0.3"],
        ["type", "\u{3}"],
        ["wait", "interrupted\u{1b}[0m"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let again: Value = json!([
        ["size", size],
        ["wait", "go on [f]resh?"],
        ["type", "f\r"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let screens = tokio::task::block_in_place(|| {
        let chat = play_on("xterm-256color", &sponde, &["--model", "gpt-4o"], &steps);
        let resumed = ["resume", "--last", "--model", "gpt-4o"];
        [chat, play_on("xterm-256color", &sponde, &resumed, &again)]
    });
    mock.stop().await;
    let shown = screens.iter().map(|screen| {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
        redacted(&drawn(screen, columns), &sponde)
    });
    shown.collect::<Vec<_>>().join("\n════ resumed\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_80_columns() {
    let shown = session(80).await;
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    insta::assert_snapshot!(shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_at_200_columns() {
    insta::assert_snapshot!(session(200).await);
}
