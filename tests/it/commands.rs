//! The commands of a chat on a real pseudo-terminal: cells by their numbers, files, plans, and sessions that follow each other.

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde};
use crate::terminal::{Screen, play_on};

const PROMPT: &str = ">\u{1b}[0m ";

fn on_xterm(sponde: &Sponde, arguments: &[&str], steps: &Value) -> Screen {
    let screen = play_on("xterm-256color", sponde, arguments, steps);
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    screen
}

/// Each line when the prompt is there, and what is waited for then; Ctrl-D at the end.
fn typed(lines: &[(&str, &str)]) -> Value {
    let mut steps = Vec::new();
    for (line, answer) in lines {
        steps.push(json!(["wait", PROMPT]));
        steps.push(json!(["type", format!("{line}\r")]));
        steps.push(json!(["wait", answer]));
    }
    steps.push(json!(["wait", PROMPT]));
    steps.push(json!(["type", "\u{4}"]));
    Value::Array(steps)
}

#[test]
fn cells_have_numbers_that_commands_take() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("EDITOR", "sed -i s/one/two/")
        .with("PAGER", "sed s/^/PAGED:/");
    let chat = ["--model", "m", "-k", "misbehave"];
    let many = format!("!echo {}", "x\\n".repeat(3));
    let steps = typed(&[
        ("/show", "no code has run yet"),
        ("/files", "this session has changed no files"),
        ("/save early.md", "there is nothing to save yet"),
        ("!echo one", "output 2 · misbehave ─"),
        (&many, "output 3 · misbehave ─"),
        ("/show 2", "cell 2 · "),
        ("/run 2", "output 4 · misbehave ─"),
        ("/edit 2", "two\u{1b}[K\r\n\u{1b}[J"),
        ("/show 9", "there is no cell 9: the session has 5"),
        ("/save out.md", "saved out.md"),
        ("/export out.ipynb", "saved out.ipynb"),
        ("/save out.ipynb", "`out.ipynb` is already there"),
        ("/save out.xyz", "what should `out.xyz` be?"),
        ("/fork 3", "forked after 3 cells"),
        ("/clear", "sponde: "),
        ("/show", "no code has run yet"),
        ("/resume nosuch", "there is no session `nosuch`"),
    ]);
    let screen = on_xterm(&sponde, &chat, &steps);
    let saved = sponde.read("out.md");
    assert!(saved.contains("echo two"), "{saved}");
    assert!(sponde.read("out.ipynb").contains("\"nbformat\": 4"));
    // A cell that fits the screen needs no pager.
    assert!(!screen.all.contains("PAGED:"), "{}", screen.all);
    let listed = sponde.run(&["sessions", "list", "--json"]);
    let all: Value = serde_json::from_str(&listed.stdout).unwrap();
    let cells: Vec<_> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code_cells"].as_u64().unwrap())
        .collect();
    let mut sorted = cells.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [2, 4], "{listed}");
}

#[test]
fn a_long_output_is_shown_whole_in_the_pager() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("PAGER", "sed s/^/PAGED:/");
    let steps = typed(&[
        (
            "!for i in range(200): print('line', i, 'of', '\\x1b[31mred\\x1b[0m\\x1b]0;t\\x07')",
            "more lines, /show 2 shows them",
        ),
        ("/show", "PAGED:line 199 of \u{1b}[31mred"),
    ]);
    let screen = on_xterm(&sponde, &["--model", "m"], &steps);
    for number in [0, 50, 100, 150] {
        let line = format!("PAGED:line {number} of \u{1b}[31mred");
        assert!(screen.all.contains(&line), "{line} in {}", screen.all);
    }
    assert!(!screen.all.contains("\u{1b}]0;"), "{}", screen.all);
}

#[test]
fn files_of_a_session_and_a_session_that_follows() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    sponde.write("old.csv", "a\n1\n");
    sponde.profile("slow", "description = \"patient\"\ncell-timeout = 7\n");
    let mut steps = typed(&[
        (
            "!open('new.csv', 'w').write('b'); open('old.csv', 'a').write('2'); x = 41",
            "files: + new.csv",
        ),
        ("/files", "+ new.csv\r\n~ old.csv"),
        ("/profile", "slow  patient"),
        ("/profile nosuch", "there is no profile `nosuch`"),
        ("/clear", "notebook:"),
        ("/files", "this session has changed no files"),
        ("/resume", "resuming "),
    ]);
    let list = steps.as_array_mut().unwrap();
    list.truncate(list.len() - 2);
    list.extend([json!(["wait", "go on [f]resh?"]), json!(["type", "r\r"])]);
    list.extend(
        typed(&[
            ("!print(x + 1)", "42\u{1b}[K\r\n\u{1b}[J"),
            ("/files", "~ old.csv"),
        ])
        .as_array()
        .unwrap()
        .clone(),
    );
    on_xterm(&sponde, &["--model", "m"], &steps);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_approved_once() {
    let arguments = json!({ "code": "print(6 * 7)" }).to_string();
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"content": "1. Look\n2. Sum"}},
        {"match": {"turnIndex": 1}, "response": {"content": "1. Sum only"}},
        {"match": {"turnIndex": 2}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 3}, "response": {"content": "That was it."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let question = "Carry it out? [y]es, [n]o, or say what to change:";
    let screen = tokio::task::block_in_place(|| {
        on_xterm(
            &sponde,
            &["--model", "gpt-4o"],
            &json!([
                ["wait", PROMPT],
                ["type", "/plan sum it\r"],
                ["wait", question],
                ["type", "leave the first step out\r"],
                ["wait", "1. Sum only"],
                ["wait", question],
                ["type", "y\r"],
                ["wait", "42"],
                ["wait", "That was it."],
                ["wait", PROMPT],
                ["type", "/approve\r"],
                ["wait", "you are asked before code of the model runs; "],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    let asked = mock.journal().await;
    mock.stop().await;
    assert!(!screen.all.contains("Run it?"), "{}", screen.all);
    // Words for the model are not on the person's screen.
    assert!(
        !screen.all.contains("Do not run code yet"),
        "{}",
        screen.all
    );
    for (request, words) in [
        (0, ["sum it", "Do not run code yet."]),
        (1, ["leave the first step out", "Write the plan again."]),
        (2, ["1. Sum only", "The plan is approved."]),
    ] {
        let request = asked[request].to_string();
        for words in words {
            assert!(request.contains(words), "{words}: {request}");
        }
    }
}

/// The list stands below what is typed, goes again, and leaves the name in its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_picked_while_a_question_is_typed() {
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"content": "It is 6."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    std::fs::create_dir_all(sponde.path("data")).unwrap();
    for name in ["other.csv", "data/rain 2024.csv", "data/sales.csv"] {
        sponde.write(name, "a\n6\n");
    }
    let screen = tokio::task::block_in_place(|| {
        on_xterm(
            &sponde,
            &["--model", "gpt-4o", "-k", "misbehave"],
            &json!([
                ["size", "24x80"],
                ["wait", PROMPT],
                ["type", "sum @dtr\t"],
                ["wait", "Which file?"],
                ["wait", "❯ data/rain 2024.csv"],
                ["type", "\r"],
                ["wait", "@\"data/rain 2024.csv\" "],
                ["type", "now\r"],
                ["wait", "It is 6."],
                ["wait", PROMPT],
                ["type", "@nosuch\t"],
                ["wait", "nothing fits"],
                ["type", "\u{1b}"],
                ["pause", "0.5"],
                ["type", "\u{15}\u{4}"],
            ]),
        )
    });
    let asked = mock.journal().await;
    mock.stop().await;
    let told = asked[0].to_string();
    assert!(
        told.contains("sum @\\\"data/rain 2024.csv\\\" now"),
        "{told}"
    );
    assert!(told.contains("rain 2024.csv"), "{told}");
    assert!(!screen.all.contains("It is 7."), "{}", screen.all);
}

/// Tab behind a command completes what it takes.
#[test]
fn tab_completes_what_commands_take() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    sponde.configure("model = \"ollama/tiny-model\"\n");
    sponde.profile("slow", "description = \"patient\"\n");
    let chat = ["--model", "m", "-k", "misbehave"];
    on_xterm(
        &sponde,
        &chat,
        &typed(&[("!echo before", "before\u{1b}[K\r\n\u{1b}[J")]),
    );
    let listed = sponde.run(&["sessions", "list", "--json"]);
    let all: Value = serde_json::from_str(&listed.stdout).unwrap();
    let id = all[0]["short"].as_str().unwrap();
    let mut steps = Vec::new();
    for (begun, rest) in [
        ("/approve on", "-risk"),
        ("/profile sl", "ow"),
        ("/model ollama/ti", "ny-model"),
        (&*format!("/resume {}", &id[..3]), &id[3..]),
        ("/kernel mis", "behave"),
        ("/sandbox read", "-only"),
        ("/checkp", "oints"),
    ] {
        steps.extend([
            json!(["wait", PROMPT]),
            json!(["type", format!("{begun}\t")]),
            json!(["wait", format!("{begun}{rest}")]),
            // The line goes, and nothing of it is done.
            json!(["type", "\u{3}"]),
        ]);
    }
    steps.extend([json!(["wait", PROMPT]), json!(["type", "\u{4}"])]);
    on_xterm(&sponde, &chat, &json!(steps));
}

/// The list to pick from has the sessions that nobody has open.
#[test]
fn the_list_of_sessions_has_only_free_ones() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let chat = ["--model", "m", "-k", "misbehave"];
    for name in ["first", "second"] {
        let echo = format!("!echo {name}-one");
        on_xterm(
            &sponde,
            &chat,
            &typed(&[(&echo, "-one\u{1b}[K\r\n\u{1b}[J")]),
        );
    }
    let mut held = typed(&[("!echo third-one", "third-one\u{1b}[K\r\n\u{1b}[J")]);
    let steps = held.as_array_mut().unwrap();
    let leave = steps.pop().unwrap();
    steps.extend([json!(["touch", "open"]), json!(["file", "over"]), leave]);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| on_xterm(&sponde, &chat, &held));
        while !sponde.path("open").exists() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let picked = on_xterm(
            &sponde,
            &["resume", "--model", "m"],
            &json!([
                ["wait", "Which session?"],
                ["wait", "first-one"],
                ["type", "\u{1b}"],
            ]),
        );
        std::fs::write(sponde.path("over"), "").unwrap();
        held.join().unwrap();
        assert!(picked.all.contains("second-one"), "{}", picked.all);
        assert!(!picked.all.contains("third-one"), "{}", picked.all);
    });
}
