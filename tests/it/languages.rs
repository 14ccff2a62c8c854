//! Several kernels in one session: a language per cell, state of its own, one notebook.

use std::process::Command as Process;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::guidance::Coaching;
use sponde::agent::{Command, EventKind, KernelOffer, TurnEnd};
use sponde::kernel::KernelSource;
use sponde::llm::scripted::Reply;

use crate::agent::{Session, call, cell, start_with};
use crate::support::{
    Sponde, assert_is_valid_notebook, ipykernel, launch_options, misbehaving, python_prefix,
};

/// A kernel of another language.
fn other() -> KernelSource {
    let mut kernel = misbehaving(&[]);
    "misbehave".clone_into(&mut kernel.spec.language);
    kernel
}

fn start(replies: impl IntoIterator<Item = Reply>, other: KernelSource) -> Session {
    start_with(ipykernel(), Approval::Never, replies, |options, dir| {
        options.others = vec![launch_options(other, dir)];
    })
}

fn foreign(code: &str) -> Reply {
    let arguments = json!({ "code": code, "language": "misbehave" });
    Reply::call("", "id", "run_code", &arguments.to_string())
}

fn started(events: &[EventKind]) -> usize {
    events
        .iter()
        .filter(|event| matches!(event, EventKind::CodeStarted { .. }))
        .count()
}

#[tokio::test]
async fn each_language_has_a_kernel_with_its_own_state() {
    let mut session = start(
        [
            call("x = 'seven'\n_ = open('shared.txt', 'w').write(x)"),
            foreign("remember seven\ncwd"),
            foreign("recall"),
            call("import os; print(x, os.path.exists('shared.txt'), os.getcwd())"),
            Reply::text("Done."),
        ],
        other(),
    );
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let offers =
        [("python3", "python"), ("misbehave", "misbehave")].map(|(kernel, language)| KernelOffer {
            kernel: kernel.to_owned(),
            language: language.to_owned(),
        });
    assert!(
        matches!(&events[0], EventKind::SessionStarted { kernel, kernels, .. } if kernel == "python3" && *kernels == offers),
        "{:?}",
        events[0]
    );
    let languages: Vec<&str> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::CodeProposed { language, .. } => Some(language.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(languages, ["python", "misbehave", "misbehave", "python"]);
    let mut files: Vec<(&str, &str)> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::KernelReady {
                kernel,
                connection_file,
            } => Some((kernel.as_str(), connection_file.as_str())),
            _ => None,
        })
        .collect();
    files.sort_unstable();
    assert!(
        matches!(&files[..], [("misbehave", one), ("python3", two)] if one != two),
        "{files:?}"
    );
    let dir = session.dir.path().canonicalize().unwrap();
    let dir = dir.display();
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [_, (here, false), (kept, false), (back, false)]
            if here.contains(&dir.to_string()) && kept == "seven" && *back == format!("seven True {dir}")),
        "{answers:?}"
    );
    // What the model said is said to it again as it was, and the choice is its tool's.
    let prompts = session.model.prompts();
    let tool = &prompts[0].tools[0];
    assert_eq!(
        tool.parameters["properties"]["language"]["enum"],
        json!(["python", "misbehave"])
    );
    let notebook = session.notebook();
    assert_eq!(notebook.metadata["kernelspec"]["name"], "python3");
    let marks: Vec<(Value, Value)> = notebook.cells[1..5]
        .iter()
        .map(|cell| {
            let mark = |of: &str, key: &str| cell.metadata[of].get(key).cloned();
            (
                mark("sponde", "kernel").unwrap_or_default(),
                cell.metadata.get("tags").cloned().unwrap_or_default(),
            )
        })
        .collect();
    let ours = (Value::Null, Value::Null);
    let theirs = (json!("misbehave"), json!(["skip-execution"]));
    assert_eq!(marks, [ours.clone(), theirs.clone(), theirs, ours]);
}

#[tokio::test]
async fn a_language_that_is_not_there_is_answered_and_nothing_runs() {
    let mut session = start(
        [
            Reply::call(
                "",
                "id",
                "run_code",
                r#"{"code": "1", "language": "julia"}"#,
            ),
            Reply::text("Then not."),
        ],
        other(),
    );
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!((end, started(&events)), (TurnEnd::Done, 0));
    assert_eq!(
        session.answers(),
        [(
            "Not run: there is no kernel for \"julia\", only for python, misbehave. Call `run_code` again"
                .to_owned(),
            true
        )]
    );
}

#[tokio::test]
async fn the_death_of_one_kernel_does_not_concern_the_other() {
    let mut session = start(
        [
            call("x = 1"),
            foreign("remember gone\ndie 3"),
            call("print(x)"),
            foreign("recall"),
            Reply::text("Done."),
        ],
        other(),
    );
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let deaths: Vec<&EventKind> = events
        .iter()
        .filter(|event| matches!(event, EventKind::KernelDied { .. }))
        .collect();
    assert!(
        matches!(&deaths[..], [EventKind::KernelDied { kernel, reason }]
            if kernel == "misbehave" && reason == "exit status 3; all variables are lost"),
        "{deaths:?}"
    );
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [_, (died, true), (kept, false), (_, true)]
            if died.contains("The misbehave kernel died (exit status 3)") && kept == "1"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_second_kernel_that_cannot_start_does_not_end_the_turn() {
    let mut broken = other();
    broken.spec.argv = ["sh", "-c", "exit 1", "{connection_file}"]
        .map(str::to_owned)
        .into();
    let mut session = start(
        [
            foreign("echo hi"),
            call("print('still here')"),
            Reply::text("Done."),
        ],
        broken,
    );
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!((end, started(&events)), (TurnEnd::Done, 1));
    assert!(events.iter().any(
        |event| matches!(event, EventKind::KernelFailed { kernel, .. } if kernel == "misbehave")
    ));
    let answers = session.answers();
    assert!(
        matches!(&answers[..], [(not_run, true), (ran, false)]
            if not_run.contains("Not run: kernel `misbehave` exited before it was ready") && ran == "still here"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn an_interrupt_goes_to_the_kernel_that_runs() {
    let mut session = start([foreign("echo begun\nhang-until-interrupt")], other());
    let own = |code: &str, language: Option<&str>| Command::Run {
        code: code.to_owned(),
        language: language.map(str::to_owned),
    };
    session.send(own("x = 5", None)).await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    session.submit("hang").await;
    session
        .until(|event| matches!(event, EventKind::Output { .. }))
        .await;
    session.send(Command::Interrupt).await;
    assert_eq!(session.turn().await.1, TurnEnd::Interrupted);
    session.send(own("print(x)", Some("py"))).await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    session.send(own("echo mine", Some("misbehave"))).await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    session.send(own("1", Some("cobol"))).await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::CellFailed);
    assert_eq!(
        events[0],
        EventKind::Notice {
            message: "there is no kernel for `cobol`, only for python, misbehave".to_owned()
        }
    );
    assert_eq!(
        session.cells(),
        [
            cell("user", "ok", "x = 5"),
            cell("user", "", "hang"),
            cell(
                "assistant",
                "interrupted",
                "echo begun\nhang-until-interrupt"
            ),
            cell("user", "ok", "print(x)"),
            cell("user", "ok", "echo mine"),
        ]
    );
}

#[tokio::test]
async fn a_small_model_gets_no_choice() {
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [Reply::text("Hello.")],
        |options, dir| {
            options.others = vec![launch_options(other(), dir)];
            options.coaching = Coaching::Small;
        },
    );
    session.submit("hello").await;
    session.turn().await;
    for prompt in session.model.prompts() {
        assert_eq!(
            prompt.tools[0].parameters["properties"]
                .as_object()
                .unwrap()
                .keys()
                .collect::<Vec<_>>(),
            ["code"]
        );
    }
}

/// The notebook of such a session runs in Jupyter, which leaves the others' cells alone, and in ours, which does not.
#[tokio::test(flavor = "multi_thread")]
async fn the_notebook_runs_again() {
    let mut session = start(
        [
            call("x = 'py'"),
            foreign("remember other"),
            foreign("recall"),
            call("print(x)"),
            Reply::text("Done."),
        ],
        other(),
    );
    session.submit("go").await;
    assert_eq!(session.turn().await.1, TurnEnd::Done);
    let sponde = Sponde::new();
    let text = std::fs::read(session.dir.path().join("session.ipynb")).unwrap();
    let path = sponde.write("session.ipynb", text);
    assert_is_valid_notebook(&path);
    let jupyter = Process::new(python_prefix().join("bin/jupyter"))
        .args(["execute", "--inplace"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        jupyter.status.success(),
        "{}",
        String::from_utf8_lossy(&jupyter.stderr)
    );
    let ended =
        tokio::task::block_in_place(|| sponde.run(&["run", "session.ipynb", "-o", "again.ipynb"]));
    assert_eq!(
        (ended.code, ended.stdout.as_str(), ended.stderr.as_str()),
        (Some(0), "other\npy\n", "")
    );
    assert_is_valid_notebook(&sponde.path("again.ipynb"));
}

#[test]
fn a_notebook_whose_other_kernel_is_missing_says_so() {
    let sponde = Sponde::new();
    let metadata = json!({"sponde": {"language": "cobol", "kernel": "cob", "status": "ok"}, "tags": ["skip-execution"]});
    let notebook = json!({"nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "misbehave", "display_name": "x", "language": "misbehave"}},
        "cells": [{"cell_type": "code", "id": "a", "metadata": metadata, "source": "MOVE 1 TO X", "outputs": [],
            "execution_count": null}]});
    sponde.write("n.ipynb", notebook.to_string());
    let ended = sponde.run(&["run", "n.ipynb"]);
    assert_eq!(ended.code, Some(4));
    assert!(
        ended.stderr.starts_with(
            "error: could not prepare kernel `cob`: a cell of the notebook needs it, and there is no kernel for cobol"
        ),
        "{}",
        ended.stderr
    );
}
