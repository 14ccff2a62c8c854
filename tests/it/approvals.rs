//! Which code a person is asked about: findings with their lines, rules, what is remembered, and nobody at the terminal.

use std::path::Path;

use serde_json::{Value, json};
use sponde::agent::approval::{Action, Approval, Ground, Memory, Policy, analyse};
use sponde::kernel::{Extent, Level, Network};

use crate::aimock::Aimock;
use crate::support::Sponde;
use crate::terminal::{Screen, model_that_runs, play};

const PROMPT: &str = "\r\n> ";
const QUESTION: &str = "or say what to do instead:";

/// One reply a cell, and then that that was it.
async fn model_that_runs_one_by_one(codes: &[&str]) -> Aimock {
    let mut turns: Vec<Value> = codes
        .iter()
        .enumerate()
        .map(|(at, code)| {
            let arguments = json!({ "code": code }).to_string();
            json!({"match": {"turnIndex": at}, "response": {"blocks": [
                {"type": "toolCall", "name": "run_code", "arguments": arguments}]}})
        })
        .collect();
    turns.push(
        json!({"match": {"turnIndex": codes.len()}, "response": {"content": "That was it."}}),
    );
    Aimock::start(&Value::Array(turns)).await
}

/// A chat with python3 in which the first question is asked, then `steps` are played, and the chat ends.
async fn chat(sponde: &Sponde, mock: Aimock, arguments: &[&str], steps: Value) -> Screen {
    let mut all = vec![json!(["type", "go\n"])];
    all.extend(steps.as_array().unwrap().iter().cloned());
    all.extend([json!(["type", "\u{4}"])]);
    let arguments = [&["--model", "gpt-4o", "-k", "python3"], arguments].concat();
    let screen = tokio::task::block_in_place(|| play(sponde, &arguments, &Value::Array(all)));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    screen
}

#[tokio::test(flavor = "multi_thread")]
async fn harmless_code_runs_without_a_question() {
    let mock = model_that_runs("import os\nprint(6 * 7, os.path.exists('/nosuch'))").await;
    let sponde = Sponde::new().with_model(&mock);
    let steps = json!([
        ["wait", "42 False"],
        ["wait", "That was it."],
        ["wait", PROMPT],
    ]);
    let screen = chat(&sponde, mock, &[], steps).await;
    assert!(screen.all.contains("approval: on-risk"), "{}", screen.all);
    assert!(!screen.all.contains(QUESTION), "{}", screen.all);
}

/// The finding and its line stand above the question; `always` is for what was found, and for nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn risk_is_asked_about_with_its_line_and_one_kind_can_be_allowed() {
    let codes = [
        "import os, shutil\nos.makedirs('out', exist_ok=True)\nshutil.rmtree('out')\nprint('first')",
        "open('b', 'w').close()\nos.remove('b')\nprint('second')",
        "exec('pri' + name)",
    ];
    let mock = model_that_runs_one_by_one(&codes).await;
    let sponde = Sponde::new().with_model(&mock);
    let steps = json!([
        ["wait", "line 3: deletes files (shutil.rmtree('out'))"],
        ["wait", QUESTION],
        ["type", "a\n"],
        [
            "wait",
            "code of this language that deletes files runs without a question in this session"
        ],
        ["wait", "\r\nfirst\r\n"],
        ["wait", "\r\nsecond\r\n"],
        [
            "wait",
            "line 1: runs code that is computed (exec('pri' + name))"
        ],
        ["wait", QUESTION],
        ["type", "n\n"],
        ["wait", PROMPT],
    ]);
    let screen = chat(&sponde, mock, &[], steps).await;
    assert_eq!(screen.all.matches(QUESTION).count(), 2, "{}", screen.all);
    assert!(!sponde.path("out").exists());
    // It is in the session's journal, and in no file of configuration.
    let journals = std::fs::read_dir(sponde.sessions()).unwrap().flatten();
    let mut journals = journals.map(|it| it.path());
    let journal = journals.find(|it| it.extension().is_some_and(|it| it == "journal"));
    let journal = std::fs::read_to_string(journal.unwrap()).unwrap();
    let permit = r#""permitted":{"finding":"delete","language":"python"}"#;
    assert!(journal.contains(permit), "{journal}");
}

/// A session that goes on knows what it was allowed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_allowed_is_allowed_when_the_session_goes_on() {
    let delete = "import os\nopen('a', 'w').close()\nos.remove('a')\nprint('gone')";
    let mock = model_that_runs(delete).await;
    let sponde = Sponde::new().with_model(&mock);
    let steps = json!([
        ["wait", QUESTION],
        ["type", "a\n"],
        ["wait", "That was it."],
        ["wait", PROMPT],
    ]);
    chat(&sponde, mock, &[], steps).await;
    let arguments = json!({ "code": delete }).to_string();
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 2}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 3}, "response": {"content": "That was all."}},
    ]))
    .await;
    let sponde = sponde.with_model(&mock);
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["resume", "--model", "gpt-4o"],
            &json!([
                ["wait", "or go on [f]resh?"],
                ["type", "f\n"],
                ["wait", PROMPT],
                ["type", "again\n"],
                ["wait", "That was all."],
                ["wait", PROMPT],
                ["type", "\u{4}"],
            ]),
        )
    });
    mock.stop().await;
    assert!(!screen.all.contains(QUESTION), "{}", screen.all);
}

/// What a person's cell imported is known, also when the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_earlier_cells_are_known_when_the_session_goes_on() {
    let mock = model_that_runs("tidy('out')").await;
    let sponde = Sponde::new().with_model(&mock);
    std::fs::create_dir(sponde.path("out")).unwrap();
    let begin = ["--model", "gpt-4o", "-k", "python3", "--keep-kernel"];
    let steps = json!([
        ["wait", PROMPT],
        ["type", "!from shutil import rmtree as tidy\n"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    let goes_on = json!([
        ["wait", PROMPT],
        ["type", "go\n"],
        ["wait", "line 1: deletes files (tidy('out'))"],
        ["wait", QUESTION],
        ["type", "n\n"],
        ["wait", PROMPT],
        ["type", "\u{4}"],
    ]);
    tokio::task::block_in_place(|| {
        assert_eq!(play(&sponde, &begin, &steps).code, 0);
        let screen = play(&sponde, &["resume", "--model", "gpt-4o"], &goes_on);
        assert_eq!(screen.code, 0, "{}", screen.all);
        let reaped = sponde.run(&["kernels", "reap", "--kept"]);
        assert_eq!(reaped.code, Some(0));
    });
    mock.stop().await;
    assert!(sponde.path("out").exists());
}

/// What a rule forbids does not run, no matter who says yes; the model hears why and does it another way.
#[tokio::test(flavor = "multi_thread")]
async fn forbidden_code_never_runs_and_the_model_hears_why() {
    let codes = [
        "import shutil\nshutil.rmtree('keep')",
        "print('another' + ' way')",
    ];
    let mock = model_that_runs_one_by_one(&codes).await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure(
        "approval = { rules = [{ action = \"forbid\", finding = \"delete\", path = \"keep\" }] }\n",
    );
    std::fs::create_dir(sponde.path("keep")).unwrap();
    let ended = tokio::task::block_in_place(|| {
        sponde.run(&[
            "ask", "--model", "gpt-4o", "-k", "python3", "--yes", "--json", "go",
        ])
    });
    let journal = mock.journal().await;
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(sponde.path("keep").is_dir());
    let events: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let forbidden = events.iter().find(|it| it["event"] == "code_forbidden");
    let ruling = &forbidden.unwrap()["ruling"];
    assert_eq!(
        (
            &ruling["action"],
            &ruling["rule"],
            &ruling["findings"][0]["line"]
        ),
        (
            &json!("forbid"),
            &json!("forbid finding delete path keep"),
            &json!(2)
        )
    );
    let told = journal[1].to_string();
    assert!(
        told.contains("a rule of the user forbids this code: line 2: deletes files"),
        "{told}"
    );
    assert!(ended.stdout.contains("another way"), "{}", ended.stdout);
}

/// What a person has changed is read again before it runs.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_cell_is_asked_about_again() {
    let mock = model_that_runs("import os\nos.remove('a')").await;
    let sponde = Sponde::new().with_model(&mock).with("EDITOR", "sh editor");
    sponde.write("editor", "sed -i \"s/'a'/'b'/\" \"$1\"\n");
    sponde.write("a", "");
    sponde.write("b", "");
    let steps = json!([
        ["wait", "line 2: deletes files (os.remove('a'))"],
        ["wait", QUESTION],
        ["type", "e\n"],
        ["wait", QUESTION],
        ["type", "y\n"],
        ["wait", "line 2: deletes files (os.remove('b'))"],
        ["wait", QUESTION],
        ["type", "y\n"],
        ["wait", "That was it."],
        ["wait", PROMPT],
    ]);
    chat(&sponde, mock, &[], steps).await;
    assert!(sponde.path("a").exists() && !sponde.path("b").exists());
}

/// With nobody there code runs that needs no question, and is declined where it does.
#[tokio::test(flavor = "multi_thread")]
async fn with_nobody_there_only_harmless_code_runs() {
    for (code, exit, said) in [
        (
            "print('har' + 'mless')",
            0,
            ["That was it.", r#""end":"done""#],
        ),
        (
            "import os\nos.remove('a')",
            3,
            ["needs approval", r#""end":"declined""#],
        ),
    ] {
        for json in [false, true] {
            let mock = model_that_runs(code).await;
            let sponde = Sponde::new().with_model(&mock);
            sponde.write("a", "");
            let mut arguments = vec!["ask", "--model", "gpt-4o", "-k", "python3", "go"];
            arguments.extend(json.then_some("--json"));
            let ended = tokio::task::block_in_place(|| sponde.run(&arguments));
            mock.stop().await;
            let all = format!("{}{}", ended.stdout, ended.stderr);
            assert_eq!(ended.code, Some(exit), "{all}");
            assert!(all.contains(said[usize::from(json)]), "{all}");
            assert!(sponde.path("a").exists());
            if json && exit == 3 {
                assert!(all.contains(r#""reason":"it deletes files""#), "{all}");
                assert!(
                    all.contains(r#""findings":[{"finding":"delete","line":2,"#),
                    "{all}"
                );
            }
        }
    }
}

/// Without a sandbox every cell is asked about, and so it is if a person says so.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_every_cell_is_asked_about() {
    for (arguments, code) in [
        (&["--sandbox", "full"][..], 3),
        (&["--approval", "always"], 3),
        (&["--approval", "ask"], 3),
        (&["--sandbox", "full", "--approval", "on-risk"], 0),
        (&["--sandbox", "full", "--approval", "never"], 0),
    ] {
        let mock = model_that_runs("print(1)").await;
        let sponde = Sponde::new().with_model(&mock);
        let all = [
            &["ask", "--model", "gpt-4o", "-k", "python3", "go"],
            arguments,
        ]
        .concat();
        let ended = tokio::task::block_in_place(|| sponde.run(&all));
        mock.stop().await;
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
    }
}

/// The cells of code in a notebook.
fn cells_of(path: &Path) -> Vec<String> {
    let notebook: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter();
    let code = cells.filter(|cell| cell["cell_type"] == "code");
    code.map(|cell| match &cell["source"] {
        Value::String(text) => text.clone(),
        lines => lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect(),
    })
    .collect()
}

/// What real models have written in real sessions is not asked about.
#[test]
fn the_sessions_of_real_models_need_no_question() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut notebooks: Vec<_> = std::fs::read_dir(root.join("notebooks"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "ipynb"))
        .collect();
    notebooks.sort();
    assert!(notebooks.len() >= 3, "{notebooks:?}");
    let ground = Ground {
        cwd: root.join("notebooks"),
        home: Some("/home/ada".into()),
        extent: Extent {
            level: Level::Workspace,
            network: Network::Off,
            add_dirs: vec![],
            reads: vec![],
            landlock: false,
            gvisor: false,
        },
    };
    let policy = Policy::new(Approval::OnRisk, vec![], ground);
    // What there is was there before.
    let site = policy.site(&|path| path.exists());
    let mut cells = 0;
    for notebook in notebooks {
        let mut memory = Memory::default();
        for code in cells_of(&notebook) {
            cells += 1;
            let analysis = analyse(&code, "python", &site, &mut memory);
            let ruling = policy.rule(&analysis, "python");
            assert_eq!(
                ruling.action,
                Action::Allow,
                "{}: {ruling:?}\n{code}",
                notebook.display()
            );
        }
    }
    assert!(cells >= 4, "{cells}");
    // Each of the 25 questions of the evaluation, answered in code.
    let answers = std::fs::read_to_string(root.join("tests/eval/answers.py")).unwrap();
    let analysis = analyse(&answers, "python", &site, &mut Memory::default());
    let ruling = policy.rule(&analysis, "python");
    assert_eq!(ruling.action, Action::Allow, "{ruling:?}");
}
