//! The stream of a session: nothing lost or repeated, no matter who reads it and how slowly.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sponde::agent::stream::{Body, Item, Snapshot};
use sponde::session::Transcript;

use super::{Events, Server, with_model};
use crate::model_server::Answer;
use crate::support::eventually;

/// A copy of the transcript, made of what the stream says.
#[derive(Default)]
struct Replica {
    transcript: Transcript,
    ids: Vec<String>,
}

impl Replica {
    fn take(&mut self, item: &Value) {
        if item["type"] == "snapshot" {
            let snapshot: Snapshot = serde_json::from_value(item["snapshot"].clone()).unwrap();
            self.transcript = snapshot.transcript();
            self.ids.push(snapshot.at.to_string());
            return;
        }
        let item: Item = serde_json::from_value(item.clone()).unwrap();
        self.ids.push(item.id.to_string());
        if let Body::Edit { edit, .. } = item.body {
            self.transcript.apply(edit).unwrap();
        }
    }

    fn as_json(&self) -> Value {
        json!(self.transcript.snapshot().collect::<Vec<_>>())
    }

    /// The sequences go up by one.
    fn assert_has_no_gap(&self) {
        let numbers: Vec<u64> = self
            .ids
            .iter()
            .map(|id| id.split_once('-').unwrap().1.parse().unwrap())
            .collect();
        let expected: Vec<u64> = (numbers[0]..).take(numbers.len()).collect();
        assert_eq!(numbers, expected);
    }
}

fn is_over(item: &Value) -> bool {
    item["event"] == "turn_finished"
}

/// Two pages and a program that is attached: an approval is given once, and all have the same transcript.
#[tokio::test(flavor = "multi_thread")]
async fn two_pages_and_a_terminal_share_a_session_and_approve_once() {
    let (_model, sponde) = with_model([
        Answer::Call("echo ran it".to_owned()),
        Answer::Text("That was it.".to_owned()),
    ])
    .await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let id = session.rsplit('/').next().unwrap().to_owned();
    let mut first = server.events(&session, "as=first").await;
    let mut second = server.events(&session, "as=second").await;
    let mut lines = sponde.command(&["attach", &id, "--json"]);
    let attached = lines.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let submit = json!({ "command": "submit", "text": "go", "as": "first" });
    assert_eq!(server.command(&session, &submit).await.0, 202);
    let is_asked = |item: &Value| item["event"] == "approval_requested";
    let mut one = first.until(is_asked).await;
    let mut two = second.until(is_asked).await;
    let cell = one.last().unwrap()["cell"].as_str().unwrap().to_owned();
    let decide = |who: &str| {
        let decision = json!({ "decision": "run" });
        json!({ "command": "decide", "cell": cell, "decision": decision, "as": who })
    };
    let (mine, theirs) = (decide("first"), decide("second"));
    let (a, b) = tokio::join!(
        server.command(&session, &mine),
        server.command(&session, &theirs)
    );
    let (winner, loser) = if a.0 == 202 {
        ("first", b)
    } else {
        ("second", a)
    };
    assert_eq!(loser.0, 409, "{}", loser.1);
    let error = &loser.1["error"];
    assert_eq!(
        (&error["reason"], &error["by"]),
        (
            &json!("already_answered"),
            &json!(format!("{winner} (web)"))
        )
    );
    one.extend(first.until(is_over).await);
    two.extend(second.until(is_over).await);
    let said = |item: &&Value| item["edit"]["say"]["text"] == "go";
    assert_eq!(two.iter().find(said).unwrap()["by"], "first (web)");
    let resolved = |item: &&Value| item["event"] == "approval_resolved";
    assert_eq!(
        two.iter().find(resolved).unwrap()["by"],
        format!("{winner} (web)")
    );
    // The stream ends with the session.
    let ended = server
        .request(Method::DELETE, &session)
        .send()
        .await
        .unwrap();
    assert_eq!(ended.status(), 204);
    while let Some(item) = first.next().await {
        one.push(item);
    }
    while let Some(item) = second.next().await {
        two.push(item);
    }
    let lines = tokio::task::block_in_place(|| attached.wait_with_output().unwrap());
    let lines = String::from_utf8(lines.stdout).unwrap();
    let three: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let replicas = [one, two, three].map(|items| {
        let mut replica = Replica::default();
        for item in &items {
            replica.take(item);
        }
        replica.assert_has_no_gap();
        replica
    });
    let [one, two, three] = &replicas;
    assert_eq!(one.as_json(), two.as_json());
    assert_eq!(one.as_json(), three.as_json());
    assert_eq!(one.ids.last(), three.ids.last());
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_reconnects_misses_and_repeats_nothing() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let mut whole = server.events(&session, "").await;
    let mut replica = Replica::default();
    let mut page = server.events(&session, "").await;
    let lines: Vec<String> = (0..40)
        .map(|number| {
            format!(
                "echo {number}
sleep 20
"
            )
        })
        .collect();
    let code = lines.concat();
    let run = json!({ "command": "run", "code": code, "key": "once" });
    let (status, first) = server.command(&session, &run).await;
    assert_eq!(status, 202);
    let mut reconnected = 0;
    'all: loop {
        // It is cut after every third item, and goes on with its id.
        for _ in 0..3 {
            let item = page.next().await.unwrap();
            replica.take(&item);
            if is_over(&item) {
                break 'all;
            }
        }
        let request = server.request(Method::GET, &format!("{session}/events?after=1-1"));
        page = Events::of(request.header("last-event-id", &page.last)).await;
        reconnected += 1;
    }
    assert!(reconnected > 3, "{reconnected}");
    replica.assert_has_no_gap();
    let mut expected = Replica::default();
    for item in whole.until(is_over).await {
        expected.take(&item);
    }
    assert_eq!(replica.as_json(), expected.as_json());
    // Sent again with its key it is the same command; its key with another is a mistake.
    assert_eq!(server.command(&session, &run).await, (202, first));
    let other = json!({ "command": "interrupt", "key": "once" });
    let (status, told) = server.command(&session, &other).await;
    assert_eq!(
        (status, &told["error"]["reason"]),
        (409, &json!("key_reused"))
    );
    // An id of another run is of no use: all of it comes anew.
    let mut other = server.events(&session, "after=1-5").await;
    assert_eq!(other.next().await.unwrap()["type"], "snapshot");
    let (_, snapshot) = server.get(&session).await;
    let mut now = Replica::default();
    now.take(&snapshot);
    assert_eq!(now.as_json(), expected.as_json());
    assert_eq!(
        server
            .command(&session, &json!({"command": "nonsense"}))
            .await
            .0,
        422
    );
    server.end();
}

/// Pictures of 40 kB: more than the sockets between us hold, and each is an item of its own.
const PICTURES: usize = 400;

/// A page that takes nothing holds up nobody. It is cut, and has what it missed when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_takes_nothing_is_cut_and_its_id_brings_it_back() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let address = server.base.strip_prefix("http://").unwrap().to_owned();
    let mut slow = std::net::TcpStream::connect(&address).unwrap();
    let (token, path) = (server.token.clone(), format!("{session}/events"));
    let head =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
    slow.write_all(head.as_bytes()).unwrap();
    let mut first_bytes = vec![0; 512];
    tokio::task::block_in_place(|| slow.read_exact(&mut first_bytes).unwrap());
    let mut fast = server.events(&session, "").await;
    let code = "png 40000\n".repeat(PICTURES);
    let run = json!({ "command": "run", "code": code });
    assert_eq!(server.command(&session, &run).await.0, 202);
    fast.until(is_over).await;
    // The server gives up on it; what was on its way is still there.
    let begun = std::time::Instant::now();
    loop {
        let (_, metrics) = server.get("/metrics").await;
        if metrics.as_str().unwrap().contains("\nsponde_clients 1\n") {
            break;
        }
        assert!(begun.elapsed() < super::LIMIT, "it was not cut: {metrics}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let rest = tokio::task::spawn_blocking(move || {
        let mut all = Vec::new();
        let _ = slow.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    });
    let rest = rest.await.unwrap();
    let ids: Vec<&str> = rest
        .lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .collect();
    assert!(!rest.contains("turn_finished"), "it was not cut");
    // Its last whole message brings it back: with what it missed, or with a snapshot if that is gone.
    let last = ids.iter().rev().nth(1).expect("some items");
    let mut back = server.events(&session, &format!("after={last}")).await;
    let first = back.next().await.unwrap();
    let pictures = if first["type"] == "snapshot" {
        let mut replica = Replica::default();
        replica.take(&first);
        let cells = replica.transcript.cells().iter();
        let outputs = cells
            .filter_map(|cell| cell.code())
            .map(|code| code.outputs.to_notebook().len());
        outputs.sum::<usize>()
    } else {
        let mut items = vec![first];
        items.extend(back.until(is_over).await);
        let number = |id: &str| id.split_once('-').unwrap().1.parse::<usize>().unwrap();
        let first = items[0]["id"].as_str().unwrap();
        assert_eq!(number(first), number(last) + 1, "a gap or a repeat");
        PICTURES
    };
    assert_eq!(pictures, PICTURES);
    server.end();
}

/// The server is killed while a cell runs: the next one has the conversation up to there.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_mid_cell_goes_on_where_it_was() {
    let (_model, sponde) = with_model([Answer::Text("Yes.".to_owned())]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let id = session.rsplit('/').next().unwrap().to_owned();
    let done = server.run(&session, "echo before").await;
    let mut events = server.events(&session, "").await;
    let run = json!({ "command": "run", "code": "echo begun\nsleep 600000" });
    assert_eq!(server.command(&session, &run).await.0, 202);
    events
        .until(|item| item["edit"]["emit"]["output"]["stream"]["text"] == "begun\n")
        .await;
    let last = events.last.clone();
    let journal = sponde.sessions().join(format!("{id}.journal"));
    tokio::task::block_in_place(|| {
        eventually(|| {
            std::fs::read_to_string(&journal)
                .unwrap()
                .contains("begun\\n\"")
        });
    });
    server.kill();

    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let (_, listed) = server.get("/api/sessions").await;
    assert_eq!(
        (&listed["live"], &listed["stored"][0]["id"]),
        (&json!([]), &json!(id))
    );
    let (status, _) = server.get(&session).await;
    assert_eq!(status, 404, "it does not run yet");
    assert_eq!(server.session(json!({ "resume": id })).await, session);
    // Again is no second one.
    assert_eq!(server.session(json!({ "resume": id })).await, session);
    let mut events = server.events(&session, &format!("after={last}")).await;
    let mut replica = Replica::default();
    let snapshot = events.next().await.unwrap();
    assert_eq!(snapshot["type"], "snapshot", "another run has other ids");
    replica.take(&snapshot);
    let cells = replica.transcript.cells();
    let printed: Vec<String> = cells
        .iter()
        .filter_map(|cell| cell.code())
        .map(|code| json!(code.outputs.to_notebook()).to_string())
        .collect();
    assert!(
        printed[0].contains("before") && printed[1].contains("begun"),
        "{printed:?}"
    );
    assert!(cells.iter().any(|cell| cell.id == done));
    // Its kernel is gone with the server; the next question goes on without what it knew.
    let submit = json!({ "command": "submit", "text": "Still there?" });
    assert_eq!(server.command(&session, &submit).await.0, 202);
    events.until(is_over).await;
    let (status, script) = server.get(&format!("{session}/notebook.py")).await;
    assert!(
        status == 200 && script.as_str().unwrap().contains("echo before"),
        "{script}"
    );
    server.end();
}

/// SIGTERM in mid-cell: every session is saved, nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_saves_every_session() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let mut ids = BTreeSet::new();
    let mut streams = Vec::new();
    for number in 0..3 {
        let session = server.session(json!({})).await;
        server
            .run(&session, &format!("echo session {number}"))
            .await;
        let mut events = server.events(&session, "").await;
        let run = json!({ "command": "run", "code": "echo begun\nsleep 600000" });
        assert_eq!(server.command(&session, &run).await.0, 202);
        events
            .until(|item| item["edit"]["emit"]["output"]["stream"]["text"] == "begun\n")
            .await;
        ids.insert(session.rsplit('/').next().unwrap().to_owned());
        streams.push(events);
    }
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for mut events in streams {
        while events.next().await.is_some() {}
    }
    for (number, id) in ids.iter().enumerate() {
        let path = sponde.sessions().join(format!("{id}.ipynb"));
        crate::support::assert_is_valid_notebook(&path);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.contains("begun"), "session {number}: {text}");
    }
}
