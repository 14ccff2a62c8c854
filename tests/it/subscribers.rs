//! Many front ends of one session: none misses or repeats an item, none holds up the others, and a question is answered
//! once. The models are scripted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::stream::{
    Body, Client, Item, ItemId, Received, Rejection, SessionHandle, Snapshot,
};
use sponde::agent::{Command, Decision, EventKind};
use sponde::llm::scripted::Reply;
use sponde::session::Transcript;

use crate::agent::{call, start, start_with};
use crate::support::{Sponde, ipykernel, misbehaving};
use crate::terminal::{model_that_runs, play};

/// A subscriber that keeps a transcript of its own, and checks the numbers of the items.
struct Replica {
    client: Client,
    transcript: Transcript,
    at: ItemId,
    snapshots: u32,
}

impl Replica {
    async fn join(handle: &SessionHandle, name: &str) -> Self {
        let (snapshot, client) = handle.join(name).await.unwrap();
        Self {
            client,
            transcript: snapshot.transcript(),
            at: snapshot.at,
            snapshots: 1,
        }
    }

    /// The next item, with this replica as it is then; `None` at the end of the session.
    async fn next(&mut self) -> Option<Arc<Item>> {
        loop {
            match self.client.next().await? {
                Received::Snapshot(snapshot) => self.take(&snapshot),
                Received::Item(item) => {
                    assert_eq!(item.id.epoch, self.at.epoch);
                    assert_eq!(item.id.sequence, self.at.sequence + 1, "a gap or a repeat");
                    self.at = item.id;
                    if let Body::Edit { edit, .. } = &item.body {
                        self.transcript.apply(edit.clone()).unwrap();
                    }
                    return Some(item);
                }
            }
        }
    }

    fn take(&mut self, snapshot: &Snapshot) {
        assert!(snapshot.at > self.at, "it goes back");
        self.transcript = snapshot.transcript();
        self.at = snapshot.at;
        self.snapshots += 1;
    }

    /// Reads on until it has the item `end`.
    async fn catch_up(&mut self, end: ItemId) {
        while self.at < end {
            self.next().await.expect("the session ended");
        }
    }

    fn as_json(&self) -> Value {
        json!(self.transcript.snapshot().collect::<Vec<_>>())
    }
}

/// A small generator of pseudo-random numbers (xorshift64*): the same run each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}

/// Twenty sessions with fifty turns each. In every turn the model says something and wants to run code; clients join,
/// leave, come back with their last id, read nothing for long, and all that are there answer at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_random_schedules_lose_and_repeat_nothing() {
    const TURNS: usize = 50;
    for seed in 1..=20 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let reply = |turn: usize| {
            Reply::call(
                &format!("Words of turn {turn}. "),
                &format!("id{turn}"),
                "run_code",
                &json!({ "code": format!("code {turn}") }).to_string(),
            )
        };
        let session = start(misbehaving(&[]), Approval::Always, (0..TURNS).map(reply));
        let handle = session.agent.handle().clone();
        let mut replicas: Vec<Replica> = Vec::new();
        let mut left: Vec<(ItemId, Transcript)> = Vec::new();
        for turn in 0..TURNS {
            match random.below(6) {
                0 | 1 => replicas.push(Replica::join(&handle, &format!("client {turn}")).await),
                2 if !replicas.is_empty() => {
                    let at = usize::try_from(random.below(replicas.len() as u64)).unwrap();
                    let gone = replicas.swap_remove(at);
                    left.push((gone.at, gone.transcript));
                }
                3 if !left.is_empty() => {
                    let at = usize::try_from(random.below(left.len() as u64)).unwrap();
                    let (last, transcript) = left.swap_remove(at);
                    let client = handle.resume("back", last).expect("all of it is there");
                    replicas.push(Replica {
                        client,
                        transcript,
                        at: last,
                        snapshots: 0,
                    });
                }
                _ => {}
            }
            let text = format!("question {turn}");
            handle
                .send("asker", Command::Submit { text })
                .await
                .unwrap();
            let mut watcher = Replica::join(&handle, "watcher").await;
            let cell = asked(&handle, &mut watcher).await;
            // All answer at once: one is first, the others hear who was.
            let answers = (0..3).map(|number| {
                let (handle, cell) = (handle.clone(), cell.clone());
                let decision = Decision::Decline { reason: None };
                let command = Command::Decide { cell, decision };
                tokio::spawn(async move { handle.send(&format!("judge {number}"), command).await })
            });
            let mut accepted = 0;
            let mut told = BTreeSet::new();
            for answer in futures_util::future::join_all(answers).await {
                match answer.unwrap() {
                    Ok(_) => accepted += 1,
                    Err(Rejection::AlreadyAnswered { by }) => drop(told.insert(by)),
                    Err(other) => panic!("{other}"),
                }
            }
            assert_eq!((accepted, told.len()), (1, 1), "seed {seed}, turn {turn}");
            let by = resolved_by(&mut watcher, &cell).await;
            assert_eq!(told.into_iter().next(), Some(by), "all heard the same");
            for replica in &mut replicas {
                // Some read all, some a little, some nothing.
                for _ in 0..random.below(20) {
                    if replica.at < handle.newest() {
                        replica.next().await.unwrap();
                    }
                }
            }
            until_idle(&handle).await;
        }
        let snapshot = handle.snapshot().await.unwrap();
        let truth = json!(snapshot.transcript().snapshot().collect::<Vec<_>>());
        for replica in &mut replicas {
            replica.catch_up(snapshot.at).await;
            assert!(replica.as_json() == truth, "seed {seed}: a replica differs");
        }
        drop(session);
    }
}

/// The cell that a person is asked about: in the snapshot, or in an item behind it.
async fn asked(handle: &SessionHandle, watcher: &mut Replica) -> String {
    use sponde::agent::stream::PendingRequest;
    let state = handle.snapshot().await.unwrap().state;
    if let Some(PendingRequest::Approval { cell, .. }) = state.pending.first() {
        return cell.clone();
    }
    loop {
        let item = watcher.next().await.unwrap();
        if let Body::Event {
            event: EventKind::ApprovalRequested { cell, .. },
        } = &item.body
        {
            return cell.clone();
        }
    }
}

async fn resolved_by(watcher: &mut Replica, cell: &str) -> String {
    loop {
        let item = watcher.next().await.unwrap();
        if let Body::Event {
            event: EventKind::ApprovalResolved { cell: of, by, .. },
        } = &item.body
            && of == cell
        {
            return by.clone();
        }
    }
}

async fn until_idle(handle: &SessionHandle) {
    use sponde::agent::stream::snapshot::TurnPhase;
    while handle.snapshot().await.unwrap().state.turn != TurnPhase::Idle {
        tokio::task::yield_now().await;
    }
}

/// Fifty sessions of one process, each with its own directory, environment and kernel, ended in another order than they
/// began.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sessions_of_one_process_keep_apart() {
    const SESSIONS: usize = 50;
    let code = "import os\nprint(os.environ['WHO'], open('who.txt').read(), os.getpid())";
    let mut sessions: Vec<_> = (0..SESSIONS)
        .map(|number| {
            start_with(ipykernel(), Approval::Never, [], |options, dir| {
                let who = format!("session {number}");
                std::fs::write(dir.join("who.txt"), &who).unwrap();
                options.kernel.env.push(("WHO".to_owned(), who));
                options.kernel.ready_timeout = Duration::from_mins(3);
            })
        })
        .collect();
    for session in &mut sessions {
        let code = code.to_owned();
        let language = None;
        session.send(Command::Run { code, language }).await;
    }
    let mut pids = BTreeSet::new();
    for (number, session) in sessions.iter_mut().enumerate() {
        let client = session.agent.handle().clone();
        let text = tokio::time::timeout(Duration::from_mins(4), printed(&client))
            .await
            .unwrap();
        let who = format!("session {number}");
        let pid = text
            .strip_prefix(&format!("{who} {who} "))
            .unwrap_or_else(|| panic!("{text}"));
        assert!(pids.insert(pid.trim().parse::<i32>().unwrap()), "{text}");
    }
    assert_eq!(pids.len(), SESSIONS);
    let mut random = Random(42);
    while !sessions.is_empty() {
        let at = usize::try_from(random.below(sessions.len() as u64)).unwrap();
        let session = sessions.swap_remove(at);
        if random.below(2) == 0 {
            session.agent.shutdown().await;
        } else {
            drop(session);
        }
    }
    let alive = move || {
        pids.iter()
            .all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    };
    tokio::task::spawn_blocking(move || crate::support::eventually(alive))
        .await
        .unwrap();
}

/// What the only cell of a session has printed, once it has ended.
async fn printed(handle: &SessionHandle) -> String {
    let mut replica = Replica::join(handle, "reader").await;
    loop {
        let ended = replica.transcript.cells().iter().find_map(|cell| {
            let code = cell.code()?;
            code.finished.as_ref()?;
            Some(code.outputs.to_notebook())
        });
        if let Some(outputs) = ended {
            return outputs
                .iter()
                .map(|output| match output {
                    sponde::jupyter::nbformat::Output::Stream { text, .. } => text.clone(),
                    other => format!("{other:?}"),
                })
                .collect();
        }
        replica.next().await.expect("the session ended");
    }
}

/// One that never reads costs the session nothing, and one that joins in the middle of a cell has all of it.
#[tokio::test]
async fn who_joins_in_mid_cell_has_all_of_it() {
    let code =
        "import time\nfor number in range(60):\n    print(number, flush=True); time.sleep(0.01)";
    let mut session = start(
        ipykernel(),
        Approval::Never,
        [call(code), Reply::text("Done.")],
    );
    let never = session.agent.client("never");
    session.submit("go").await;
    let begun = |event: &EventKind| matches!(event, EventKind::Output { .. });
    session.until(begun).await;
    let handle = session.agent.handle().clone();
    let mut late = Replica::join(&handle, "late").await;
    // It is killed, and comes back with its last id.
    let (mut back, mut seen) = (Replica::join(&handle, "back").await, 0);
    while seen < 3 {
        back.next().await.unwrap();
        seen += 1;
    }
    let last = back.at;
    let transcript = back.transcript.clone();
    drop(back);
    session.turn().await;
    let mut back = Replica {
        client: handle.resume("back", last).unwrap(),
        transcript,
        at: last,
        snapshots: 0,
    };
    let snapshot = handle.snapshot().await.unwrap();
    late.catch_up(snapshot.at).await;
    back.catch_up(snapshot.at).await;
    let truth = json!(snapshot.transcript().snapshot().collect::<Vec<_>>());
    assert!(late.as_json() == truth && back.as_json() == truth);
    assert_eq!((late.snapshots, back.snapshots), (1, 0));
    let lines: Vec<String> = (0..60).map(|number| format!("{number}\n")).collect();
    let expected = lines.concat();
    assert_eq!(printed(&handle).await, expected);
    drop(never);
}

/// A chat in a pseudo-terminal, a program that reads JSON lines, and a second terminal that answers: all on one session.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_terminal_answers_and_json_lines_have_all_of_it() {
    let mock = model_that_runs("echo ran it").await;
    let sponde = Sponde::new().with_model(&mock);
    let question = "or say what to do instead:";
    let first = json!([
        ["wait", "\r\n> "],
        ["type", "go\n"],
        ["wait", question],
        // The second terminal answers this.
        ["wait", ": run it)"],
        ["wait", "\r\nran it\r\n"],
        ["wait", "That was it."],
        // What the second terminal runs is seen here, too.
        ["wait", "echo again"],
        ["wait", "\r\nagain\r\n"],
        ["wait", "> "],
        ["type", "\u{4}"],
    ]);
    let second = json!([
        ["wait", "attached to"],
        ["wait", question],
        ["type", "y\n"],
        ["wait", "\r\nran it\r\n"],
        ["wait", "That was it."],
        ["wait", "\r\n> "],
        ["type", "!echo again\n"],
        ["wait", "\r\nagain\r\n"],
        ["wait", "the session has ended"],
    ]);
    let arguments = ["--model", "gpt-4o", "-k", "misbehave"];
    let (one, two, lines) = tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let one = scope.spawn(|| play(&sponde, &arguments, &first));
            let id = running(&sponde);
            let lines = scope.spawn({
                let (sponde, id) = (&sponde, id.clone());
                // Not `run`, which wants no process of the session left.
                move || sponde.command(&["attach", &id, "--json"]).output().unwrap()
            });
            let two = scope.spawn({
                let (sponde, second) = (&sponde, &second);
                move || play(sponde, &["attach", &id], second)
            });
            (
                one.join().unwrap(),
                two.join().unwrap(),
                lines.join().unwrap(),
            )
        })
    });
    mock.stop().await;
    assert_eq!(
        (one.code, two.code),
        (0, 0),
        "{}\n---\n{}",
        one.all,
        two.all
    );
    assert!(lines.status.success(), "{lines:?}");
    let lines = String::from_utf8(lines.stdout).unwrap();
    crate::schema::assert_valid(&lines, &["Item", "SnapshotLine"]);
    // The transcript of the program is that of the session's journal, edit by edit.
    let mut transcript = Transcript::default();
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        if value["type"] == "snapshot" {
            let snapshot: Snapshot = serde_json::from_value(value["snapshot"].clone()).unwrap();
            transcript = snapshot.transcript();
        } else {
            let item: Item = serde_json::from_value(value).unwrap();
            if let Body::Edit { edit, .. } = item.body {
                transcript.apply(edit).unwrap();
            }
        }
    }
    let notebook = file_of_session(&sponde, "ipynb").unwrap();
    let rendered = sponde::session::notebook::render(&transcript).to_json();
    let stored = std::fs::read_to_string(notebook).unwrap();
    // The file names the session besides.
    let cells = |text: &str| {
        let notebook: Value = serde_json::from_str(text).unwrap();
        serde_json::to_string(&notebook["cells"]).unwrap()
    };
    assert_eq!(cells(&rendered), cells(&stored), "byte for byte");
}

/// The id of the only session, once other terminals can attach to it.
pub(crate) fn running(sponde: &Sponde) -> String {
    let is_attachable = || {
        file_of_session(sponde, "journal").is_some_and(|journal| {
            let id = journal.file_stem().unwrap().to_str().unwrap();
            let listed = sponde
                .command(&["attach", "nosuch", "--json"])
                .output()
                .unwrap();
            String::from_utf8(listed.stderr).unwrap().contains(id)
        })
    };
    crate::support::eventually(is_attachable);
    let journal = file_of_session(sponde, "journal").unwrap();
    journal.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn file_of_session(sponde: &Sponde, extension: &str) -> Option<std::path::PathBuf> {
    let entries = std::fs::read_dir(sponde.sessions()).ok()?;
    entries
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|it| it == extension))
}
