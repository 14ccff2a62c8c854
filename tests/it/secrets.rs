//! Secrets that code prints: no model, log, audit log or notebook gets them.

use std::path::Path;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::{EventKind, OutputChange};
use sponde::jupyter::nbformat::Output;
use sponde::kernel::Redactor;
use sponde::llm::scripted::Reply;

use crate::agent::{call, start_with};
use crate::aimock::Aimock;
use crate::audit::audited;
use crate::support::{Sponde, ipykernel};

const SECRET: &str = "hunter2-and-3";

/// Whole, in pieces, as a name, in an exception, in a page, and as a value: each in a cell of its own.
const CODES: [&str; 6] = [
    "key = open('key.txt').read()\nprint('it is', key, 'indeed')",
    "import sys, time\nfor part in ('it is ' + key[:7], key[7:], ' in two\\n'):\n    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.3)",
    "open(key, 'w').write('x')",
    "raise ValueError('it is ' + key)",
    "from IPython.display import HTML, display\ndisplay(HTML('<b>' + key + '</b>'))\nprint('the hunter', end='')",
    "{'key': key}",
];

#[tokio::test]
async fn a_known_secret_that_code_prints_is_seen_by_nobody() {
    // In pieces, so that nobody who looks for secrets in sources finds it.
    let token = format!("{}{}", "ghp_", "a1B2c3D4e5".repeat(4));
    let print = format!("print('{}' + '{}')", "ghp_", "a1B2c3D4e5".repeat(4));
    let replies = CODES.iter().map(|code| call(code));
    let replies = replies.chain([call(&print), Reply::text("Done.")]);
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, dir| {
        std::fs::write(dir.join("key.txt"), SECRET).unwrap();
        options.redactor = Redactor::of([("MY_API_KEY", SECRET)]);
        audited(options, dir);
    });
    session.submit(&format!("my token is {token}")).await;
    let (events, _) = session.turn().await;
    let told = |words: &str| {
        let is_it = |event: &&EventKind| matches!(event, EventKind::Notice { message } if message.contains(words));
        events.iter().filter(is_it).count()
    };
    assert_eq!(told("looks like a secret in your question"), 1);
    let shown: String = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Output {
                change:
                    OutputChange::Append {
                        output: Output::Stream { text, .. },
                        ..
                    },
                ..
            } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    // The person sees a token that is none of theirs; all that only begins like a secret comes whole.
    assert_eq!(
        shown,
        format!("it is [redacted] indeed\nit is [redacted] in two\nthe hunter{token}\n")
    );
    let notebook = session.notebook().to_json();
    let prompts = format!("{:?}", session.model.prompts());
    let events = format!("{events:?}");
    session.agent.shutdown().await;
    let log = std::fs::read_to_string(session.dir.path().join("sessions/s.audit")).unwrap();
    for (what, text) in [
        ("notebook", &notebook),
        ("prompts", &prompts),
        ("events", &events),
        ("audit", &log),
    ] {
        assert!(!text.contains(SECRET), "{what}: {text}");
        assert!(text.contains("[redacted]"), "{what}: {text}");
    }
    assert!(!prompts.contains(&token), "{prompts}");
    assert!(notebook.contains(&token));
}

/// The same with the program: no file of its has the key, and nothing that it says or sends.
#[tokio::test(flavor = "multi_thread")]
async fn the_models_key_is_in_no_file_no_log_and_no_prompt() {
    let code = "key = open('note.txt').read()\nprint('a key:', key)\nopen('copy-' + key + '.csv', 'w').write('1')\n{'key': key}";
    let arguments = json!({ "code": code }).to_string();
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 1}, "response": {"content": "That was it."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.write("note.txt", "sk-hunter2");
    let ended = sponde.run(&[
        "ask", "go", "-f", "note.txt", "--model", "gpt-4o", "--yes", "-vvv",
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let sent: Vec<Value> = mock.journal().await;
    mock.stop().await;
    let bodies: Vec<&Value> = sent.iter().map(|request| &request["body"]).collect();
    let bodies = json!(bodies).to_string();
    assert!(bodies.contains("a key: [redacted]"), "{bodies}");
    for (what, text) in [
        ("stdout", &ended.stdout),
        ("stderr", &ended.stderr),
        ("requests", &bodies),
    ] {
        assert!(!text.contains("hunter2"), "{what}: {text}");
    }
    let home = sponde.path("..").canonicalize().unwrap();
    let mut files = Vec::new();
    find(&home, &mut files);
    // What the person has, and what the code has made of it.
    files.sort();
    let ours = [home.join("work/note.txt")];
    assert_eq!(files, ours);
}

/// Files below `dir` that have the key in them.
fn find(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            find(&path, found);
        } else if metadata.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            if bytes.windows(7).any(|part| part == b"hunter2") {
                found.push(path);
            }
        }
    }
}
