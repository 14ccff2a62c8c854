//! A terminal that is attached to another one's session has its commands, or says in one line what to do instead.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::subscribers::running;
use crate::support::Sponde;
use crate::terminal::{Screen, play_on};

const PROMPT: &str = ">\u{1b}[0m ";

/// A chat in one terminal, which goes on until the file `over` is there, and `steps` in one that is attached to it.
fn attached(sponde: &Sponde, first: &[Value], steps: &[Value]) -> [Screen; 2] {
    let mut first = first.to_vec();
    first.extend([json!(["wait", "echo it is over"]), json!(["wait", PROMPT])]);
    first.push(json!(["type", "\u{4}"]));
    let mut second = steps.to_vec();
    second.push(json!(["type", "!echo it is over\r"]));
    second.push(json!(["wait", "the session has ended"]));
    let (first, second) = (json!(first), json!(second));
    let arguments = ["--model", "gpt-4o", "-k", "misbehave"];
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let one = scope.spawn(|| play_on("xterm-256color", sponde, &arguments, &first));
            let id = running(sponde);
            let two = play_on("xterm-256color", sponde, &["attach", &id], &second);
            [one.join().unwrap(), two]
        })
    })
}

/// Each line when the prompt is there, and what is waited for then.
fn typed(lines: &[(&str, &str)]) -> Vec<Value> {
    let line = |(line, answer): &(&str, &str)| {
        [
            json!(["wait", PROMPT]),
            json!(["type", format!("{line}\r")]),
            json!(["wait", answer]),
        ]
    };
    let mut steps: Vec<Value> = lines.iter().flat_map(line).collect();
    steps.push(json!(["wait", PROMPT]));
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attached_terminal_has_the_commands_of_its_session() {
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"content": "1. Look\n2. Sum"}},
        {"match": {"turnIndex": 1}, "response": {"content": "It is 6."}},
    ]))
    .await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("EDITOR", "sed -i s/one/two/");
    sponde.configure("approval = \"always\"\n");
    let lines = [
        ("/help", "Code of your own"),
        ("/status", "audit log: "),
        ("/cost", "spent: no model was asked yet"),
        ("/sandbox", "approval: always"),
        ("/kernel", "> misbehave (misbehave)"),
        ("/model", "gpt-4o"),
        ("/show", "echo begun"),
        ("!echo one", "output 3 · misbehave ─"),
        ("/show", " · ok"),
        ("/run 3", "output 4 · misbehave ─"),
        ("/edit 3", "two\u{1b}[K\r\n\u{1b}[J"),
        ("/files", "this session has changed no files"),
        ("/vars", "cannot list its variables"),
        ("/open 1", "cell 1 is words, and no code"),
        ("/checkpoints", "goes back to one"),
        ("/save out.md", "saved out.md"),
        ("/fork 2", "forked after 2 cells"),
        ("/approve on-risk", "do what the sandbox does not stop"),
        ("/restart", ""),
        ("/profile", "there are no profiles"),
        // What would end the session of another terminal.
        (
            "/clear",
            "/exit detaches, then `sponde` begins a new session",
        ),
        ("/resume", "/exit detaches, then `sponde resume` continues"),
        (
            "/resume x1",
            "/exit detaches, then `sponde resume x1` continues it",
        ),
        (
            "/sandbox full",
            "only the terminal in which the session began can do it",
        ),
        (
            "/profile slow",
            "only the terminal in which the session began can do it",
        ),
        // A plan is the session's, and anyone can approve it.
        (
            "/plan sum it",
            "Carry it out? [y]es, [n]o, or say what to change:",
        ),
    ];
    let mut steps = vec![json!(["wait", "attached to"])];
    steps.extend(typed(&lines));
    steps.pop();
    steps.extend([json!(["type", "y\r"]), json!(["wait", "It is 6."])]);
    steps.push(json!(["wait", PROMPT]));
    let first = [
        json!(["wait", PROMPT]),
        // Others can attach once something was done.
        json!(["type", "!echo begun\r"]),
        json!(["wait", PROMPT]),
        json!(["wait", "> sum it"]),
        // The line that is being typed here comes first.
        json!(["wait", "(press Enter to answer here)"]),
        // The other terminal answers.
        json!(["wait", "it continues)"]),
        json!(["wait", "It is 6."]),
    ];
    let [one, two] = attached(&sponde, &first, &steps);
    mock.stop().await;
    for screen in [&one, &two] {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    }
    assert!(two.all.contains("\u{1b}]2;sponde: "), "{:?}", two.all);
    assert!(sponde.read("out.md").contains("echo two"));
    let (_, status) = two.all.split_once("/status").unwrap();
    for words in [
        "model: openai-compatible/gpt-4o\r\n",
        "context: ",
        "kernel: misbehave (misbehave)",
        "directory: ",
        "notebook: ",
        "sandbox: ",
    ] {
        assert!(status.contains(words), "{words}: {status:?}");
    }
}

/// The question is asked in both terminals, and `/interrupt` in the other one ends the turn in both.
#[tokio::test(flavor = "multi_thread")]
async fn an_attached_terminal_can_interrupt() {
    let arguments = json!({"code": "echo never"}).to_string();
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let first = [
        json!(["wait", PROMPT]),
        json!(["type", "!echo begun\r"]),
        json!(["wait", PROMPT]),
        json!(["file", "attached"]),
        json!(["type", "go\r"]),
        json!(["wait", "Run it?"]),
        // The other terminal may be faster than the prompt here.
        json!(["wait", "interrupted"]),
    ];
    let second = [
        json!(["wait", PROMPT]),
        json!(["touch", "attached"]),
        // The line that is being typed here comes first.
        json!(["wait", "(press Enter to answer here)"]),
        json!(["type", "\r"]),
        json!(["wait", "Run it?"]),
        json!(["type", "/"]),
        json!(["wait", "instead:"]),
        json!(["type", "interrupt\r"]),
        json!(["wait", "interrupted"]),
        json!(["wait", PROMPT]),
    ];
    let screens = attached(&sponde, &first, &second);
    mock.stop().await;
    for screen in screens {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
        assert!(!screen.all.contains("never\u{1b}[K"), "{}", screen.all);
    }
}

/// A line is begun in one terminal and stays there while the other one approves cell after cell.
#[tokio::test(flavor = "multi_thread")]
async fn a_begun_line_outlives_many_approvals() {
    const TIMES: usize = 6;
    let script: Vec<Value> = (0..TIMES)
        .flat_map(|time| {
            let arguments = json!({"code": format!("echo ran {time}")}).to_string();
            [
                json!({"match": {"turnIndex": 2 * time}, "response": {"blocks": [
                    {"type": "toolCall", "name": "run_code", "arguments": arguments}]}}),
                json!({"match": {"turnIndex": 2 * time + 1}, "response": {"content": format!("said {time}")}}),
            ]
        })
        .collect();
    let mock = Aimock::start(&json!(script)).await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let first = [
        json!(["wait", PROMPT]),
        json!(["type", "!echo begun\r"]),
        json!(["wait", PROMPT]),
        json!(["file", "attached"]),
        json!(["type", "!echo kept"]),
        json!(["touch", "typed"]),
        json!(["wait", format!("said {}", TIMES - 1)]),
        json!(["type", "\r"]),
        // What was typed is still there.
        json!(["wait", "\r\nkept"]),
        json!(["wait", PROMPT]),
        json!(["touch", "finished"]),
    ];
    let mut second = vec![
        json!(["wait", PROMPT]),
        json!(["touch", "attached"]),
        json!(["file", "typed"]),
    ];
    for time in 0..TIMES {
        second.extend([
            json!(["type", format!("question {time}\r")]),
            json!(["wait", "Run it?"]),
            json!(["type", "y"]),
            json!(["wait", format!("said {time}")]),
            json!(["wait", PROMPT]),
        ]);
    }
    second.push(json!(["file", "finished"]));
    let screens = attached(&sponde, &first, &second);
    mock.stop().await;
    for screen in screens {
        assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    }
}
