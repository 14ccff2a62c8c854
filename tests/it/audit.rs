//! The audit log: what a session leaves in it, that decisions are in it before their code runs, and what a session does
//! that is killed or whose log cannot be written. Models are scripted, kernels are real.

use std::path::Path;
use std::process::{Command as Process, Stdio};

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::audit::record::{Confined, VERSION};
use sponde::agent::audit::{AuditFiles, AuditOptions, Header, sha256};
use sponde::agent::{AgentOptions, Command, Decision, EventKind};
use sponde::kernel::{Extent, Sandbox};
use sponde::llm::scripted::Reply;

use crate::agent::{Session, call, start_with};
use crate::support::{Sponde, eventually, ipykernel};
use crate::terminal::{model_that_runs, play};

/// Tells the test below to be the session that is killed: its directory.
const CHILD: &str = "SPONDE_TEST_KILLED_AUDIT";

fn files(dir: &Path) -> AuditFiles {
    AuditFiles::of("s", &dir.join("sessions"), &dir.join("state"))
}

/// With a log.
pub(crate) fn audited(options: &mut AgentOptions, dir: &Path) {
    options.audit = Some(AuditOptions {
        files: files(dir),
        redactor: options.redactor.clone(),
        header: Header {
            version: VERSION,
            session: "s".to_owned(),
            sponde: "test".to_owned(),
            directory: "/work".to_owned(),
            approval: options.approval.name().to_owned(),
            sandbox: Confined::of(Some(&Extent::of(&options.kernel.sandbox))),
        },
        connections: match &options.kernel.sandbox {
            Sandbox::Confined(confinement) => Some(confinement.network_context.connections.clone()),
            Sandbox::Full => None,
        },
    });
}

fn audited_session(approval: Approval, replies: impl IntoIterator<Item = Reply>) -> Session {
    start_with(ipykernel(), approval, replies, audited)
}

/// The records of a log that is whole: kind and what it says, with cells numbered as they come.
fn records(files: &AuditFiles) -> Vec<Value> {
    let verified = files.verify(|_| {}).unwrap();
    assert_eq!(verified.fault, None);
    read(files)
}

/// The same of one that may be cut.
fn read(files: &AuditFiles) -> Vec<Value> {
    let text = std::fs::read_to_string(&files.log).unwrap_or_default();
    let mut cells: Vec<String> = Vec::new();
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines
        .map(|line| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            let fields = record.as_object_mut().unwrap();
            for chain in ["seq", "time", "previous", "hash", "seal"] {
                assert!(fields.remove(chain).is_some(), "{line}");
            }
            if let Some(cell) = fields.get("cell").and_then(Value::as_str) {
                let known = cells.iter().position(|known| known == cell);
                let number = known.unwrap_or_else(|| {
                    cells.push(cell.to_owned());
                    cells.len() - 1
                });
                fields.insert("cell".to_owned(), (number + 1).into());
            }
            record
        })
        .collect()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    let kinds = records.iter().map(|record| record["kind"].as_str());
    kinds.flatten().collect()
}

/// The kernel starts whenever it starts.
fn without_kernels(records: Vec<Value>) -> Vec<Value> {
    let (kernels, others): (Vec<Value>, Vec<Value>) = records
        .into_iter()
        .partition(|record| record["kind"] == "kernel_started");
    let sandbox = json!({"level": "full", "network": "on"});
    let expected = json!({"kind": "kernel_started", "kernel": "python3", "sandbox": sandbox});
    assert_eq!(kernels, [expected]);
    others
}

async fn decide(session: &mut Session, decision: Decision) {
    let asked = |event: &EventKind| matches!(event, EventKind::ApprovalRequested { .. });
    let cell = match session.until(asked).await.pop() {
        Some(EventKind::ApprovalRequested { cell, .. }) => cell,
        other => panic!("{other:?}"),
    };
    session.send(Command::Decide { cell, decision }).await;
}

fn code(kind: &str, cell: u32, source: &str) -> Value {
    let mut value = json!({"kind": kind, "cell": cell});
    match kind {
        "code_proposed" => value["author"] = "model".into(),
        "code_changed" => value["by"] = "test".into(),
        _ => {}
    }
    value["language"] = "python".into();
    value["sha256"] = sha256(source.as_bytes()).into();
    value["bytes"] = source.len().into();
    value
}

fn decision(cell: u32, source: &str, rest: &Value) -> Value {
    let sha256 = sha256(source.as_bytes());
    let mut value = json!({"kind": "decision", "cell": cell, "sha256": sha256});
    for (name, field) in rest.as_object().unwrap() {
        value[name] = field.clone();
    }
    value
}

fn outcome(cell: u32, status: &str) -> Value {
    json!({"kind": "outcome", "cell": cell, "status": status})
}

fn expected_records() -> Vec<Value> {
    let asked = json!({"kind": "model_asked", "purpose": "reply", "model": "scripted/model"});
    let answered = json!({"kind": "model_answered", "input_tokens": 10, "cached_tokens": 0, "output_tokens": 5});
    let own = {
        let mut own = code("code_proposed", 5, "'mine'");
        own["author"] = "person".into();
        own
    };
    let header = json!({"kind": "begun", "version": 1, "session": "s", "sponde": "test", "directory": "/work",
        "approval": "always", "sandbox": {"level": "full", "network": "on"}});
    let decided = json!({"decision": "change", "grounds": "decided", "by": "test"});
    vec![
        header,
        asked.clone(),
        answered.clone(),
        code("code_proposed", 1, "'one'"),
        decision(1, "'one'", &json!({"decision": "decline", "by": "test"})),
        outcome(1, "declined"),
        asked.clone(),
        answered.clone(),
        code("code_proposed", 2, "'two'"),
        code("code_changed", 2, "'changed'"),
        decision(2, "'changed'", &decided),
        code("ran", 2, "'changed'"),
        outcome(2, "ok"),
        asked.clone(),
        answered.clone(),
        code("code_proposed", 3, "1 / 0"),
        decision(
            3,
            "1 / 0",
            &json!({"decision": "always", "grounds": "decided", "by": "test"}),
        ),
        json!({"kind": "approval_changed", "approval": "on-risk", "by": "test"}),
        code("ran", 3, "1 / 0"),
        outcome(3, "error"),
        asked.clone(),
        answered.clone(),
        code("code_proposed", 4, "'four'"),
        decision(
            4,
            "'four'",
            &json!({"decision": "run", "grounds": "policy"}),
        ),
        code("ran", 4, "'four'"),
        outcome(4, "ok"),
        asked,
        answered,
        json!({"kind": "turn_finished", "end": "done"}),
        own,
        decision(
            5,
            "'mine'",
            &json!({"decision": "run", "grounds": "own", "by": "test"}),
        ),
        code("ran", 5, "'mine'"),
        outcome(5, "ok"),
        json!({"kind": "turn_finished", "end": "done"}),
        json!({"kind": "ended"}),
    ]
}

#[tokio::test]
async fn a_session_leaves_exactly_these_records() {
    let mut session = audited_session(
        Approval::Always,
        [
            call("'one'"),
            call("'two'"),
            call("1 / 0"),
            call("'four'"),
            Reply::text("Done."),
        ],
    );
    session.submit("my secret question").await;
    let decline = Decision::Decline {
        reason: Some("my secret reason".to_owned()),
    };
    decide(&mut session, decline).await;
    let change = Decision::Change {
        source: "'changed'".to_owned(),
    };
    decide(&mut session, change).await;
    decide(&mut session, Decision::Always).await;
    session.turn().await;
    session
        .send(Command::Run {
            code: "'mine'".to_owned(),
            language: None,
        })
        .await;
    session.turn().await;
    session.agent.shutdown().await;

    let files = files(session.dir.path());
    let mut found = without_kernels(records(&files));
    let rulings: Vec<Value> = found
        .iter_mut()
        .filter_map(|record| record.as_object_mut()?.remove("ruling"))
        .collect();
    let ruled_by: Vec<&Value> = rulings.iter().map(|ruling| &ruling["ruled_by"]).collect();
    // A refusal rules nothing, and code of a person's own is not judged.
    assert_eq!(ruled_by, ["person", "person", "policy"]);
    let expected = expected_records();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    let log = std::fs::read_to_string(&files.log).unwrap();
    for words in ["'one'", "'changed'", "1 / 0", "secret", "Done."] {
        assert!(!log.contains(words), "{words}");
    }
}

/// The model and the person read it as well.
#[tokio::test]
async fn connections_of_confined_code_are_in_the_log_and_refusals_in_the_notebook() {
    let code = "import socket\ntry:\n socket.create_connection(('other.test', 443))\nexcept OSError:\n print('stopped')";
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [call(code), Reply::text("Done.")],
        |options, dir| {
            let mut sandbox = crate::sandbox::workspace(dir);
            if let Sandbox::Confined(confinement) = &mut sandbox {
                confinement.network = "allow:example.org".parse().unwrap();
            }
            options.kernel.sandbox = sandbox;
            audited(options, dir);
        },
    );
    session.submit("go").await;
    session.turn().await;
    let words = "[sponde: the sandbox refused to look up other.test: the host is not on the allow-list; allowed are \
                 example.org]";
    let notebook = serde_json::to_string(&session.notebook()).unwrap();
    assert!(notebook.contains(words), "{notebook}");
    let told = format!("{:?}", session.model.prompts().last().unwrap().messages);
    assert!(told.contains(words), "{told}");
    session.agent.shutdown().await;
    let records = records(&files(session.dir.path()));
    let connections: Vec<&Value> = records
        .iter()
        .filter(|record| record["kind"] == "connection")
        .collect();
    let refused = json!({
        "kind": "connection", "host": "other.test", "end": "refused", "reason": "the host is not on the allow-list",
        "up": 0, "down": 0,
    });
    assert_eq!(connections, [&refused]);
    let kernel = records
        .iter()
        .find(|record| record["kind"] == "kernel_started");
    assert_eq!(kernel.unwrap()["sandbox"]["network"], "allow:example.org");
}

/// The code looks for itself.
#[tokio::test]
async fn a_decision_is_on_disk_before_its_code_runs() {
    let dir = tempfile::tempdir().unwrap();
    let own = files(dir.path());
    let code = format!(
        "import json\nlines = [json.loads(line) for line in open({:?})]\nhead = json.load(open({:?}))\n\
         print([line['decision'] for line in lines if line['kind'] == 'decision'], head['seq'] == len(lines))",
        own.log, own.head
    );
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [call(&code), call(&code), Reply::text("Done.")],
        |options, _| audited(options, dir.path()),
    );
    session.submit("go").await;
    session.turn().await;
    let texts: Vec<String> = session
        .notebook()
        .cells
        .iter()
        .flat_map(|cell| cell.outputs().to_vec())
        .map(|output| serde_json::to_value(output).unwrap()["text"].to_string())
        .collect();
    // `ran` comes behind it, perhaps before the code has read the log.
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("['run']"), "{texts:?}");
    assert!(texts[1].contains("['run', 'run']"), "{texts:?}");
    session.agent.shutdown().await;
    records(&own);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_said_and_the_session_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let own = files(dir.path());
    // Something else has its place.
    std::fs::create_dir_all(&own.log).unwrap();
    // However fast the turn is, its second cell ends when the place is free.
    let waits = format!(
        "import os, time\nwhile os.path.isdir({:?}): time.sleep(0.01)",
        own.log
    );
    let mut session = start_with(
        ipykernel(),
        Approval::Never,
        [call("6 * 7"), call(&waits), Reply::text("Done.")],
        |options, _| audited(options, dir.path()),
    );
    session.submit("go").await;
    let finished = |event: &EventKind| matches!(event, EventKind::CodeFinished { .. });
    let mut events = session.until(finished).await;
    std::fs::remove_dir(&own.log).unwrap();
    let (more, _) = session.turn().await;
    events.extend(more);
    // The log is written beside the turn, and may be behind it.
    let again = |event: &EventKind| matches!(event, EventKind::Notice { message } if message.contains("written again"));
    if !events.iter().any(again) {
        events.extend(session.until(again).await);
    }
    let notices: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Notice { message } => Some(message),
            _ => None,
        })
        .collect();
    assert!(
        matches!(&notices[..], [first, second]
            if first.contains("the audit log is not complete: could not open")
                && *second == "the audit log is written again"),
        "{notices:?}"
    );
    session.agent.shutdown().await;
    // Nothing is missing: what waited was written when the disk took it.
    let found = records(&own);
    let kinds = kinds(&found);
    assert_eq!(
        kinds.iter().filter(|kind| **kind == "decision").count(),
        2,
        "{kinds:?}"
    );
    assert_eq!(
        (kinds.first(), kinds.last()),
        (Some(&"begun"), Some(&"ended"))
    );
}

/// Runs only as the child of the test below: a session that is killed while it works.
#[tokio::test]
async fn a_session_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD) else {
        return;
    };
    let dir = Path::new(&dir).to_owned();
    let replies = (0..1000).map(|number| call(&format!("{number}")));
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        audited(options, &dir);
        options.max_steps = 1000;
    });
    session.submit("go").await;
    session.turn().await;
}

#[test]
fn a_log_whose_session_is_killed_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let own = files(dir.path());
    for round in 0..5_usize {
        let before = read(&own).len();
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "audit::a_session_that_is_killed"])
            .env(CHILD, dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually(|| read(&own).len() > before + 20 + 3 * round);
        child.kill().unwrap();
        child.wait().unwrap();
        let verified = own.verify(|_| {}).unwrap();
        // Cut by the kill, at most; the next session says so and goes on.
        if let Some(fault) = verified.fault {
            assert!(fault.what.starts_with("it is incomplete"), "{fault}");
        }
    }
    let found = read(&own);
    let starts: Vec<&str> = kinds(&found)
        .into_iter()
        .filter(|kind| matches!(*kind, "begun" | "resumed"))
        .collect();
    assert_eq!(
        starts,
        ["begun", "resumed", "resumed", "resumed", "resumed"]
    );
    assert!(!kinds(&found).contains(&"ended") && !kinds(&found).contains(&"broken"));
    // Nothing ran that nobody decided on.
    let mut decided = Vec::new();
    for record in &found {
        match record["kind"].as_str().unwrap() {
            "decision" => decided.push(record["sha256"].clone()),
            "ran" => assert_eq!(decided.last(), Some(&record["sha256"])),
            _ => {}
        }
    }
    assert!(decided.len() > 20, "{}", decided.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_writes_shows_checks_and_exports_it() {
    let code = "import os\nprint([os.path.exists(f'../{dir}/sponde') for dir in ('data', 'state')], 'hello')";
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let asked = sponde.run(&["ask", "go", "--model", "gpt-4o", "--yes"]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    // Code sees neither the log nor its key.
    assert!(
        asked.stderr.contains("[False, False] hello"),
        "{}",
        asked.stderr
    );
    mock.stop().await;
    let host = mock_host(&asked_log(&sponde));
    assert!(host.starts_with("127.0.0.1:"), "{host}");

    let verify = sponde.run(&["audit", "verify"]);
    assert_eq!(verify.code, Some(0), "{}", verify.stderr);
    assert!(verify.stdout.starts_with("ok ") && verify.stdout.ends_with(" records\n"));
    let all = sponde.run(&["audit", "verify", "--all"]);
    assert_eq!((all.code, &all.stdout), (Some(0), &verify.stdout));

    let show = sponde.run(&["audit", "show"]).stdout;
    for words in [
        "begun     session ",
        "approval never; sandbox workspace (bubblewrap), network off",
        &format!("model     asked openai-compatible/gpt-4o at {host} for a reply"),
        ": run without asking: policy, ",
        "outcome   ",
        ": ok\n",
        "turn      done\n",
        "ended",
    ] {
        assert!(show.contains(words), "{words} is not in\n{show}");
    }
    assert!(
        !show.contains('\u{1b}') && !show.contains("hello"),
        "{show}"
    );

    let lines = sponde.run(&["audit", "export"]).stdout;
    assert_eq!(lines, std::fs::read_to_string(asked_log(&sponde)).unwrap());
    let table = sponde.run(&["audit", "export", "--format", "csv", "-o", "audit.csv"]);
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let table = sponde.read("audit.csv");
    assert_eq!(table.lines().count(), lines.lines().count() + 1);
    assert!(
        table.starts_with("seq,time,kind,details,hash\n1,20"),
        "{table}"
    );

    // Somebody makes it look as if they had been asked.
    let log = asked_log(&sponde);
    std::fs::write(&log, lines.replacen("\"policy\"", "\"decided\"", 1)).unwrap();
    let changed = lines
        .lines()
        .position(|line| line.contains("\"policy\""))
        .unwrap()
        + 1;
    let verify = sponde.run(&["audit", "verify"]);
    assert_eq!(verify.code, Some(1));
    let words = format!("is not whole: line {changed}: it was changed: its hash is another one");
    assert!(verify.stderr.contains(&words), "{}", verify.stderr);
    for arguments in [
        &["audit", "show"][..],
        &["audit", "verify", "--all"],
        &["audit", "export"],
    ] {
        assert_eq!(sponde.run(arguments).code, Some(1), "{arguments:?}");
    }
    // The key of the model is nowhere.
    assert!(!lines.contains("hunter2"));

    // With the session goes its log.
    let removed = sponde.run(&["sessions", "rm", &name(&log)]);
    assert_eq!(removed.code, Some(0), "{}", removed.stderr);
    assert!(!log.exists());
    let verify = sponde.run(&["audit", "verify", "--all"]);
    assert_eq!((verify.code, &*verify.stdout), (Some(0), ""));
}

fn asked_log(sponde: &Sponde) -> std::path::PathBuf {
    let entries = std::fs::read_dir(sponde.sessions()).unwrap().flatten();
    let mut logs = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|it| it == "audit"));
    logs.next().unwrap()
}

fn name(log: &Path) -> String {
    log.file_stem().unwrap().to_str().unwrap().to_owned()
}

fn mock_host(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut hosts = lines.filter_map(|line| Some(line["host"].as_str()?.to_owned()));
    hosts.next().unwrap()
}

/// A session that goes on writes to the same log; what ran again is in it, and who wanted that.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_goes_on_goes_on_in_its_log() {
    let mock = model_that_runs("x = 6 * 7").await;
    let sponde = Sponde::new().with_model(&mock);
    let asked = sponde.run(&["ask", "go", "--model", "gpt-4o", "--yes"]);
    assert_eq!(asked.code, Some(0), "{}", asked.stderr);
    let log = asked_log(&sponde);
    let prompt = "\r\n> ";
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["resume", &name(&log), "--replay"],
            &json!([
                ["wait", prompt],
                ["type", "!print(x)\n"],
                ["wait", "42\r\n"],
                ["wait", prompt],
                ["type", "\u{4}"]
            ]),
        )
    });
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    let verify = sponde.run(&["audit", "verify"]);
    assert_eq!(verify.code, Some(0), "{}", verify.stderr);
    let show = sponde.run(&["audit", "show"]).stdout;
    let (_, again) = show.split_once("resumed   session ").unwrap();
    for words in [
        ": run again, said ",
        ": ok, run again",
        "by replay; 1 cells ran again",
        ": run, own code of ",
    ] {
        assert!(again.contains(words), "{words} is not in\n{show}");
    }
}
