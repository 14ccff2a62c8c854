//! Sessions that continue a notebook: a person's, one of their own, and one that somebody edits meanwhile.

use std::path::Path;
use std::process::Command as Process;
use std::time::Duration;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::{Command, EventKind, TurnEnd};
use sponde::jupyter::nbformat::{Cell, CellType, Notebook, Output, random_cell_id};
use sponde::llm::scripted::Reply;
use sponde::llm::types::{Message, Part};
use sponde::session::OutputLimits;
use sponde::session::open::open;

use crate::agent::{Session, start_with};
use crate::aimock::Aimock;
use crate::support::{Sponde, assert_is_valid_notebook, eventually, ipykernel, python_prefix};

/// A notebook with what a session has no use for.
const FOREIGN: &str = include_str!("../../src/session/open/tests/foreign.ipynb");

fn read(path: &Path) -> Notebook {
    let bytes = std::fs::read(path).unwrap();
    let loaded = Notebook::read(&bytes, &mut random_cell_id).unwrap();
    loaded.notebook
}

/// A session on the notebook at `from`, or a new one.
fn session(from: Option<&str>, replies: Vec<Reply>) -> Session {
    start_with(ipykernel(), Approval::Never, replies, |options, _| {
        if let Some(text) = from {
            std::fs::write(&options.notebook, text).unwrap();
            let opened = open(read(&options.notebook), OutputLimits::default());
            options.transcript = Some(opened.transcript);
        }
    })
}

fn call(code: &str) -> Reply {
    Reply::call("", "id", "run_code", &json!({ "code": code }).to_string())
}

/// All that the model was sent last, one text.
fn last_prompt(session: &Session) -> String {
    let prompts = session.model.prompts();
    let texts = prompts.last().unwrap().messages.iter().flat_map(|message| {
        let parts = match message {
            Message::User(parts) | Message::ToolResult { parts, .. } => parts.clone(),
            Message::Assistant { text, calls, .. } => {
                let calls = calls.iter().map(|call| call.arguments.clone());
                std::iter::once(text.clone())
                    .chain(calls)
                    .map(Part::Text)
                    .collect()
            }
        };
        parts.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(text),
            Part::Image { .. } => None,
        })
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_persons_notebook_goes_on_and_stays_what_it_was() {
    let mut session = session(
        Some(FOREIGN),
        vec![call("print(6 * 7)"), Reply::text("42.")],
    );
    session.submit("and now?").await;
    let (_, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let prompt = last_prompt(&session);
    for part in ["# Title", "A code cell of the notebook:\nx = 1", "and now?"] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
    let path = session.dir.path().join("session.ipynb");
    assert_is_valid_notebook(&path);
    let before: Value = serde_json::from_str(FOREIGN).unwrap();
    let after: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let cells = |notebook: &Value| notebook["cells"].as_array().unwrap().clone();
    assert_eq!(cells(&after)[..4], cells(&before)[..]);
    assert_eq!(cells(&after).len(), 7);
    for kept in ["widgets", "celltoolbar", "kernelspec"] {
        assert_eq!(after["metadata"][kept], before["metadata"][kept], "{kept}");
    }
}

#[tokio::test]
async fn opening_a_notebook_does_not_change_it() {
    let mut session = session(Some(FOREIGN), vec![]);
    session
        .until(|event| matches!(event, EventKind::KernelReady { .. }))
        .await;
    let Session { agent, dir, .. } = session;
    agent.shutdown().await;
    assert_eq!(
        std::fs::read_to_string(dir.path().join("session.ipynb")).unwrap(),
        FOREIGN
    );
}

#[tokio::test]
async fn an_earlier_conversation_goes_on() {
    let mut first = session(
        None,
        vec![call("x = 6 * 7\nprint(x)"), Reply::text("It is 42.")],
    );
    first.submit("what is 6*7?").await;
    first.turn().await;
    let sent = first.model.prompts().last().unwrap().messages.clone();
    let text = std::fs::read_to_string(first.dir.path().join("session.ipynb")).unwrap();
    let mut second = session(Some(&text), vec![Reply::text("Again 42.")]);
    second.submit("again?").await;
    second.turn().await;
    let again = second.model.prompts().last().unwrap().messages.clone();
    // The model gets byte for byte what it got and said, and the new question.
    assert_eq!(again[..sent.len()], sent[..]);
    assert_eq!(again.len(), sent.len() + 2);
    let notebook = second.notebook();
    let step = |at: usize| notebook.cells[at].metadata["sponde"].get("step").cloned();
    let steps: Vec<_> = (0..notebook.cells.len()).map(step).collect();
    assert_eq!(
        steps,
        [None, Some(json!(1)), Some(json!(2)), None, Some(json!(3))]
    );
}

/// As Jupyter does it: Python reads, changes and writes the notebook.
fn edit_with_python(path: &Path, code: &str) {
    let script = format!(
        "import nbformat, sys\nfrom nbformat.v4 import new_code_cell, new_markdown_cell\n\
         nb = nbformat.read(sys.argv[1], as_version=4)\n{code}\nnbformat.write(nb, sys.argv[1])"
    );
    let output = Process::new(python_prefix().join("bin/python"))
        .args(["-c", &script])
        .arg(path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn what_a_person_edits_meanwhile_is_kept_and_told() {
    let mut session = session(
        None,
        vec![
            call("print(1)"),
            Reply::text("One."),
            call("print(2)"),
            Reply::text("Two."),
        ],
    );
    session.submit("one?").await;
    session.turn().await;
    let path = session.dir.path().join("session.ipynb");
    edit_with_python(
        &path,
        "nb.cells[1].source = 'print(111)'\nnb.cells[1].metadata.tags = ['mine']\n\
         nb.cells.insert(0, new_markdown_cell('# My title', id='mine'))\ndel nb.cells[3]",
    );
    session.submit("two?").await;
    let (events, _) = session.turn().await;
    let notices: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Notice { message } => Some(message.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(
        notices,
        [
            "the notebook was changed by another program (1 cell changed, 1 cell added, 1 cell deleted): that is kept, \
             and the model is told"
        ]
    );
    let prompt = last_prompt(&session);
    assert!(
        prompt.contains("A code cell of yours was changed. It is now:\nprint(111)"),
        "{prompt}"
    );
    assert!(
        prompt.contains("# My title") && prompt.contains("One cell was deleted."),
        "{prompt}"
    );
    let notebook = session.notebook();
    let sources: Vec<&str> = notebook.cells.iter().map(|cell| &*cell.source).collect();
    assert_eq!(sources[..3], ["# My title", "one?", "print(111)"]);
    assert_eq!(sources[4..], ["two?", "print(2)", "Two."]);
    assert_eq!(notebook.cells[2].metadata["tags"], json!(["mine"]));
    assert_eq!(
        notebook.cells[2].metadata["sponde"]["original_source"],
        json!("print(1)")
    );
    assert_is_valid_notebook(&path);
}

#[tokio::test]
async fn what_is_no_notebook_any_more_is_left_alone() {
    let mut session = session(None, vec![Reply::text("One."), Reply::text("Two.")]);
    session.submit("one?").await;
    session.turn().await;
    let path = session.dir.path().join("session.ipynb");
    std::fs::write(&path, "my shopping list").unwrap();
    session.submit("two?").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let beside = session.dir.path().join("session-2.ipynb");
    let notebook = beside.display().to_string();
    assert!(
        events.iter().any(
            |event| matches!(event, EventKind::Notice { message } if message.contains(&notebook))
        ),
        "{events:?}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my shopping list");
    assert_eq!(read(&beside).cells.len(), 4);
    assert_is_valid_notebook(&beside);
}

#[tokio::test]
async fn a_proposed_cell_survives_an_edit_of_the_file() {
    let mut session = start_with(
        ipykernel(),
        Approval::Always,
        [
            Reply::text("Hello."),
            Reply::call("", "id", "run_code", r#"{"code": "print(3)"}"#),
            Reply::text("Three."),
        ],
        |_, _| {},
    );
    session.submit("hello").await;
    session.turn().await;
    session.submit("three?").await;
    let asked = session
        .until(|event| matches!(event, EventKind::ApprovalRequested { .. }))
        .await;
    let Some(EventKind::ApprovalRequested { cell, .. }) = asked.last().cloned() else {
        unreachable!()
    };
    let path = session.dir.path().join("session.ipynb");
    edit_with_python(&path, "nb.cells.append(new_code_cell('mine()', id='mine'))");
    session
        .send(Command::Decide {
            cell,
            decision: sponde::agent::Decision::Run,
        })
        .await;
    let (_, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let sources: Vec<String> = session
        .notebook()
        .cells
        .into_iter()
        .map(|cell| cell.source)
        .collect();
    assert_eq!(
        sources[..5],
        ["hello", "Hello.", "mine()", "three?", "print(3)"]
    );
    assert_eq!(sources.last().map(String::as_str), Some("Three."));
}

#[test]
fn a_notebook_whose_kernel_is_not_there() {
    let sponde = Sponde::new();
    let notebook = |language: &str| {
        json!({"nbformat": 4, "nbformat_minor": 5, "cells": [], "metadata":
            {"kernelspec": {"name": "nosuch", "display_name": "No", "language": language}}})
        .to_string()
    };
    sponde.write("mine.ipynb", notebook("fortran"));
    let ended = sponde.run(&["ask", "why?", "--notebook", "mine.ipynb"]);
    let (_, error) = ended.error();
    assert!(
        error.starts_with(
            "exit: 4\nerror: there is no kernel `nosuch`, which `mine.ipynb` names, and none for fortran\n\n\
             hint: choose one with --kernel: there are "
        ),
        "{error}"
    );
    // Another kernel of its language will do; one of another language will not.
    sponde.write("mine.ipynb", notebook("misbehave"));
    let ended = sponde.run(&[
        "ask",
        "why?",
        "--notebook",
        "mine.ipynb",
        "--model",
        "anthropic/x",
    ]);
    assert!(ended.stderr.contains("using `misbehave`"), "{ended}");
    let ended = sponde.run(&["ask", "why?", "--notebook", "mine.ipynb", "-k", "python3"]);
    insta::assert_snapshot!(ended, @"
    exit: 2
    --- stderr
    error: `mine.ipynb` is in misbehave, and the kernel `python3` is for python

    hint: leave --kernel out; or name a kernel for misbehave first and `python3` after it, to use both
    ");
    assert_eq!(sponde.read("mine.ipynb"), notebook("misbehave"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebooks_code_is_run_again_first_if_that_is_wanted() {
    let wanted = json!({"toolCalls": [
        {"name": "run_code", "arguments": json!({"code": "print(x + 1)"}).to_string()}]});
    let replies = json!([
        {"match": {"turnIndex": 0}, "response": wanted},
        {"match": {"turnIndex": 1}, "response": {"content": "Done."}},
    ]);
    let mut cell = Cell::code("a1", "import os\nx = 42\nprint(x)");
    if let CellType::Code {
        execution_count,
        outputs,
    } = &mut cell.kind
    {
        *execution_count = Some(1);
        outputs.push(Output::stream("stdout", "41\n"));
    }
    let mut notebook = Notebook::new();
    notebook.cells.push(cell);
    for (arguments, printed, told) in [
        (&["--replay"][..], "43\n", "other output"),
        (&[][..], "NameError", ""),
    ] {
        let mock = Aimock::start(&replies).await;
        let sponde = Sponde::new().with_model(&mock);
        sponde.write("mine.ipynb", notebook.to_json());
        let all = [
            "ask",
            "and now?",
            "--yes",
            "--model",
            "gpt-4o",
            "--notebook",
        ];
        let all = [&all[..], &["mine.ipynb"], arguments].concat();
        let ended = tokio::task::block_in_place(|| sponde.run(&all));
        let requests = mock.journal().await;
        mock.stop().await;
        assert_eq!(ended.code, Some(0), "{ended}");
        assert!(ended.stderr.contains(told), "{ended}");
        let cells = read(&sponde.path("mine.ipynb")).cells;
        let ours = cells.iter().find(|cell| cell.source == "print(x + 1)");
        let output = ours.unwrap().outputs()[0].clone();
        match output {
            Output::Stream { text, .. } => assert_eq!(text, printed),
            Output::Error { ename, .. } => assert_eq!(ename, printed),
            other => panic!("{other:?}"),
        }
        // What the model is told about the kernel is true.
        let first = requests[0]["body"]["messages"].to_string();
        assert_eq!(
            first.contains("The kernel is new"),
            arguments.is_empty(),
            "{first}"
        );
    }
}

#[test]
fn signals_are_heard_while_a_notebooks_code_runs_again() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .with("OPENAI_API_KEY", "sk-hunter2");
    let code = "import time\nopen('going', 'w').close()\ntime.sleep(600)";
    let mut cell = Cell::code("a1", code);
    if let CellType::Code {
        execution_count, ..
    } = &mut cell.kind
    {
        *execution_count = Some(1);
    }
    let mut notebook = Notebook::new();
    notebook.cells.push(cell);
    let all = [
        "ask",
        "and now?",
        "--json",
        "--replay",
        "--yes",
        "--model",
        "gpt-4o",
        "--notebook",
        "mine.ipynb",
    ];
    for is_to_end in [true, false] {
        sponde.write("mine.ipynb", notebook.to_json());
        let mut started = sponde.start(&all);
        eventually(|| sponde.path("going").exists());
        if !is_to_end {
            // One Ctrl-C ends the replay; the question comes after it.
            started.interrupt();
            while !started.line().contains("session_restored") {}
        }
        started.signal(rustix::process::Signal::TERM);
        assert_eq!(started.end_within(Duration::from_mins(1)).code, Some(130));
        std::fs::remove_file(sponde.path("going")).unwrap();
    }
}
