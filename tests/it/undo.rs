//! `/undo`: a scripted model, real kernels, real files.

use sponde::agent::approval::Approval;
use sponde::agent::event::{CheckpointInfo, Undone};
use sponde::agent::undo::{UndoOptions, UndoTo};
use sponde::agent::{Command, EventKind, OutputChange};
use sponde::jupyter::nbformat::{Notebook, Output, random_cell_id};
use sponde::llm::scripted::Reply;
use sponde::llm::types::{Message, Part};

use crate::agent::{Session, call, start_with};
use crate::support::{NOBODY, Sponde, ipykernel};

fn start(replies: impl IntoIterator<Item = Reply>) -> Session {
    start_with(ipykernel(), Approval::Never, replies, |options, dir| {
        let work = dir.join("work");
        std::fs::create_dir(&work).unwrap();
        options.kernel.cwd = work;
        options.undo = Some(UndoOptions::below(&dir.join("undo")));
    })
}

impl Session {
    fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("work").join(name)
    }

    async fn ask(&mut self, text: &str) {
        self.submit(text).await;
        self.turn().await;
    }

    /// What a cell of the person's own prints.
    async fn prints(&mut self, code: &str) -> String {
        self.send(Command::Run {
            code: code.to_owned(),
            language: None,
        })
        .await;
        let (events, _) = self.turn().await;
        let text = |event: &EventKind| match event {
            EventKind::Output {
                change:
                    OutputChange::Append {
                        output: Output::Stream { text, .. },
                        ..
                    },
                ..
            } => Some(text.clone()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }

    async fn undo(&mut self, to: UndoTo, anyway: bool) -> EventKind {
        self.send(Command::Undo { to, anyway }).await;
        let is_answer = |event: &EventKind| {
            matches!(
                event,
                EventKind::Undone(_) | EventKind::UndoAsks { .. } | EventKind::UndoRefused { .. }
            )
        };
        self.until(is_answer).await.pop().unwrap()
    }

    async fn checkpoints(&mut self) -> Vec<CheckpointInfo> {
        self.send(Command::Checkpoints).await;
        let is_answer = |event: &EventKind| matches!(event, EventKind::Checkpoints { .. });
        match self.until(is_answer).await.pop() {
            Some(EventKind::Checkpoints { checkpoints }) => checkpoints,
            other => panic!("{other:?}"),
        }
    }

    fn roles(&self) -> Vec<String> {
        self.cells()
            .into_iter()
            .map(|(role, _, source)| format!("{role}: {source}"))
            .collect()
    }
}

fn undone(event: EventKind) -> Undone {
    match event {
        EventKind::Undone(undone) => undone,
        other => panic!("{other:?}"),
    }
}

const LOAD: &str = "import matplotlib.pyplot as plt, pandas as pd\n\
    df = pd.DataFrame({'a': [1, 2, 3]}); names = ['x']\n\
    df.to_csv('data.csv', index=False)";
const SPOIL: &str = "import json\n\
    df.loc[:, 'a'] = 0; names.append('y'); new = 1\n\
    df.to_csv('data.csv', index=False); open('made.txt', 'w').close()";
const STATE: &str = "print(df.a.tolist(), names, 'json' in globals(), 'new' in globals())";

#[tokio::test]
async fn undo_brings_back_variables_files_and_words() {
    let mut session = start([
        call(LOAD),
        Reply::text("Loaded."),
        call("1 + 1"),
        call(SPOIL),
        Reply::text("Spoilt."),
        Reply::text("I see."),
    ]);
    session.ask("load it").await;
    let loaded = session.roles();
    let data = std::fs::read_to_string(session.file("data.csv")).unwrap();
    session.ask("spoil it").await;
    std::fs::write(session.file("mine.txt"), "the person's").unwrap();
    assert_ne!(
        std::fs::read_to_string(session.file("data.csv")).unwrap(),
        data
    );

    let kinds: Vec<(String, bool, String)> = session
        .checkpoints()
        .await
        .into_iter()
        .map(|info| (info.kind, info.starts_turn, info.before))
        .collect();
    let first = |kind: &str, starts, before: &str| (kind.to_owned(), starts, before.to_owned());
    assert_eq!(
        kinds,
        [
            first("copy", false, "import json"),
            first("copy", true, "spoil it"),
            first("new kernel", true, "load it"),
        ]
    );

    let kept = session.dir.path().join("session.undone/1");
    let expected = Undone {
        cells: 4,
        variables: "copy".to_owned(),
        restored: vec!["data.csv".to_owned()],
        removed: vec!["made.txt".to_owned()],
        notes: vec![],
        kept_in: Some(kept.display().to_string()),
    };
    assert_eq!(
        undone(session.undo(UndoTo::Turns(1), false).await),
        expected
    );
    assert_eq!(
        std::fs::read_to_string(session.file("data.csv")).unwrap(),
        data
    );
    assert!(!session.file("made.txt").exists() && session.file("mine.txt").exists());
    let told = "note: <details><summary>Note to the model</summary>\n\n```text\nThe user took back what followed here (4 cells): it is not part of the conversation any more. Variables and files are as they were before it.\n```\n\n</details>";
    let mut now = loaded.clone();
    now.push(told.to_owned());
    assert_eq!(session.roles(), now);
    // Nothing is lost.
    let bytes = std::fs::read(kept.join("taken-back.ipynb")).unwrap();
    let taken = Notebook::read(&bytes, &mut random_cell_id)
        .unwrap()
        .notebook;
    let sources: Vec<&str> = taken.cells.iter().map(|cell| &*cell.source).collect();
    assert_eq!(sources, ["spoil it", "1 + 1", SPOIL, "Spoilt."]);
    assert!(kept.join("files/made.txt").exists());

    // The model hears of it with the next question, and the kernel is as it was.
    session.ask("and now?").await;
    let prompt = session.model.prompts().pop().unwrap();
    let Some(Message::User(parts)) = prompt.messages.last() else {
        panic!("{prompt:?}")
    };
    assert!(
        matches!(&parts[..], [Part::Text(note), Part::Text(question)]
        if note.starts_with("The user took back") && question == "and now?")
    );
    assert_eq!(session.prints(STATE).await, "[1, 2, 3] ['x'] False False\n");
    let plot = session
        .prints("plt.plot([1, 2]); plt.show(); print('plotted')")
        .await;
    assert_eq!(plot, "plotted\n");

    // All of it, in one go, and nothing is left to take back.
    let all = undone(session.undo(UndoTo::Turns(4), false).await);
    assert_eq!(
        (all.variables.as_str(), &all.removed[..]),
        ("new kernel", &["data.csv".to_owned()][..])
    );
    let refused = session.undo(UndoTo::Turns(1), false).await;
    let message = "there is nothing to undo".to_owned();
    assert_eq!(refused, EventKind::UndoRefused { message });
    assert_eq!(session.prints("print('df' in globals())").await, "False\n");
    session.agent.shutdown().await;
    assert!(
        std::fs::read_dir(session.dir.path().join("undo"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[tokio::test]
async fn a_checkpoint_in_the_middle_of_a_turn_can_be_gone_back_to() {
    let mut session = start([
        call("x = 1"),
        call("x = 2"),
        call("x = 3"),
        Reply::text("Done."),
    ]);
    session.ask("count").await;
    let middle = session.checkpoints().await;
    let before: Vec<&str> = middle.iter().map(|info| &*info.before).collect();
    assert_eq!(before, ["x = 3", "x = 2", "count"]);
    let to = UndoTo::Checkpoint(middle[1].number);
    assert_eq!(undone(session.undo(to, false).await).cells, 3);
    assert_eq!(session.prints("print(x)").await, "1\n");
    let gone = UndoTo::Checkpoint(middle[0].number);
    let message = format!("there is no checkpoint {}", middle[0].number);
    assert_eq!(
        session.undo(gone, false).await,
        EventKind::UndoRefused { message }
    );
}

#[tokio::test]
async fn where_it_cannot_be_exact_it_asks_first() {
    let mut session = start([
        call(
            "import polars\nn = polars.DataFrame({'a': [1, 2]}).sum().item(); numbers = (i for i in range(3))",
        ),
        Reply::text("Two."),
        call("n = 7; next(numbers)"),
        Reply::text("Seven."),
    ]);
    session.ask("sum").await;
    session.ask("change").await;
    let EventKind::UndoAsks { inexact } = session.undo(UndoTo::Turns(1), false).await else {
        panic!("it did not ask")
    };
    assert!(
        inexact[0].contains("polars has started its threads"),
        "{inexact:?}"
    );
    assert!(
        inexact[1].starts_with("`numbers` keeps the value that it has now"),
        "{inexact:?}"
    );
    assert_eq!(session.prints("print(n)").await, "7\n");
    let done = undone(session.undo(UndoTo::Turns(2), true).await);
    assert_eq!(done.variables, "file");
    assert_eq!(session.prints("print(n, next(numbers))").await, "3 1\n");

    // With nothing better, cells run again.
    std::fs::write(session.file("count"), "").unwrap();
    session.prints("open('count', 'a').write('x'); y = 1").await;
    session.prints("import threading; threading.Timer(1000, int).start(); z = lambda: (yield)\nimport os; os.environ['BIG'] = 'x'\nbig = bytearray(300 << 20)").await;
    session.prints("y = 2").await;
    let EventKind::UndoAsks { inexact } = session.undo(UndoTo::Turns(1), false).await else {
        panic!("it did not ask")
    };
    assert!(inexact[0].contains("runs the"), "{inexact:?}");
    let done = undone(session.undo(UndoTo::Turns(1), true).await);
    assert_eq!(done.variables, "cells");
    assert_eq!(session.prints("print(y)").await, "1\n");
    assert_eq!(std::fs::read_to_string(session.file("count")).unwrap(), "x");
}

#[tokio::test]
async fn after_a_crash_the_variables_are_still_there() {
    let mut session = start([
        call("x = 1"),
        Reply::text("One."),
        call("import os; os._exit(1)"),
        Reply::text("It died."),
    ]);
    session.ask("set").await;
    session.ask("crash").await;
    assert_eq!(
        undone(session.undo(UndoTo::Turns(1), false).await).variables,
        "copy"
    );
    assert_eq!(session.prints("print(x)").await, "1\n");
}

/// The program, killed while dormant copies of its kernel wait.
#[test]
fn no_copy_outlives_a_killed_sponde() {
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", NOBODY)
        .with("OPENAI_API_KEY", "none");
    let mut child = sponde
        .command(&["--model", "none", "--yes"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = "!x = 1\n!x = 2\n!x = 3\n/undo\n!open('done', 'w').close()\n";
    std::io::Write::write_all(&mut stdin, lines.as_bytes()).unwrap();
    crate::support::eventually(|| sponde.path("done").exists());
    let kernels = || {
        sponde
            .processes()
            .iter()
            .filter(|it| it.contains("ipykernel") && !it.contains("__confine"))
            .count()
    };
    assert!(kernels() >= 3, "{:?}", sponde.processes());
    child.kill().unwrap();
    child.wait().unwrap();
    sponde.assert_no_process_is_left();
}

/// The kernel hangs while the point before a cell is made: nobody has to wait until that is given up.
#[tokio::test]
async fn a_cell_that_waits_for_its_checkpoint_can_be_interrupted() {
    use std::time::Duration;

    let mut session = start([]);
    let stop = "import os, signal, threading\n\
        print(os.getpid())\n\
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGSTOP)).start()";
    let pid = session.prints(stop).await.trim().to_owned();
    let stat = format!("/proc/{pid}/stat");
    let is_stopped = move || std::fs::read_to_string(&stat).unwrap().contains(") T ");
    tokio::task::spawn_blocking(move || crate::support::eventually(is_stopped))
        .await
        .unwrap();
    session
        .send(Command::Run {
            code: "2".to_owned(),
            language: None,
        })
        .await;
    let proposed = |event: &EventKind| matches!(event, EventKind::CodeStarted { .. });
    let early = tokio::time::timeout(Duration::from_millis(500), session.until(proposed)).await;
    assert!(early.is_err(), "it waits for its point");
    session.send(Command::Interrupt).await;
    let turn = tokio::time::timeout(Duration::from_secs(3), session.turn()).await;
    let (events, _) = turn.expect("the turn ends at once");
    assert!(events.iter().any(
        |event| matches!(event, EventKind::CodeFinished { status, .. } if *status == sponde::session::CellStatus::Interrupted)
    ));
    // A kernel that stands still is killed with the session.
}

#[tokio::test]
async fn what_is_taken_back_is_not_kept_through_a_link() {
    let outside = tempfile::tempdir().unwrap();
    let link = format!(
        "import os\nos.symlink({:?}, '../session.undone')\nopen('made.txt', 'w').close()",
        outside.path()
    );
    let mut session = start([call(&link), Reply::text("Done.")]);
    session.ask("link it").await;
    let undone = undone(session.undo(UndoTo::Turns(1), true).await);
    let kept = session.dir.path().join("session.undone-2/1");
    assert_eq!(undone.kept_in, Some(kept.display().to_string()));
    assert_eq!(undone.removed, ["made.txt"]);
    assert!(kept.join("taken-back.ipynb").is_file() && kept.join("files/made.txt").is_file());
    assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
}
