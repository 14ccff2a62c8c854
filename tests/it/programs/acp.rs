//! ACP: whole turns driven by the protocol's own Python library, and what only raw messages show.

use std::process::Command;

use serde_json::{Value, json};

use super::{Pipes, fixture, python, seen, start};
use crate::aimock::Aimock;
use crate::support::Sponde;

const PLOT: &str = "import matplotlib.pyplot as plt\nprint('drawn')\nplt.plot([n * n for n in range(5)])\nplt.show()";

/// Takes no notice of being interrupted.
const STUBBORN: &str = "print('stuck', flush=True)\nwhile True:\n    try:\n        while True:\n            pass\n    except KeyboardInterrupt:\n        pass";

/// Replies by how often the model was asked before; the question is for the reader.
fn replies(scripted: &[(&str, u64, Value)]) -> Value {
    let of = |(_, turn, response): &(&str, u64, Value)| json!({"match": {"turnIndex": turn}, "response": response});
    scripted.iter().map(of).collect()
}

fn runs(code: &str) -> Value {
    let arguments = json!({ "code": code }).to_string();
    json!({"blocks": [{"type": "toolCall", "name": "run_code", "arguments": arguments}]})
}

fn says(words: &str) -> Value {
    json!({ "content": words })
}

async fn model() -> Aimock {
    let looks = "import os\nrain = open('rain fall.csv').read()\nprint(sorted(os.listdir('.sponde/attachments')), rain)";
    Aimock::start(&replies(&[
        ("Plot", 0, runs(PLOT)),
        ("Plot", 1, says("Here is the plot.")),
        ("first", 2, runs("import os\nos.remove('first.txt')")),
        ("first", 3, says("Deleted.")),
        ("second", 4, runs("import os\nos.remove('second.txt')")),
        ("second", 5, says("I left it alone.")),
        ("third", 6, runs("import os\nos.remove('third.txt')")),
        ("third", 7, runs("import os; os.unlink('third.txt')")),
        ("third", 8, says("I give up.")),
        (
            "for ever",
            9,
            runs("print('going', flush=True)\nwhile True:\n    pass"),
        ),
        ("stubbornly", 10, runs(STUBBORN)),
        ("my name", 11, runs("print('hello', input('Name? '))")),
        ("my name", 12, says("You are Ada.")),
        ("Look at", 13, runs(looks)),
        ("Look at", 14, says("Seen.")),
        ("without forms", 15, runs("input('Name? ')")),
        ("without forms", 16, says("Nobody says.")),
    ]))
    .await
}

fn expected() -> Value {
    let mut all = expected_of_turns();
    let others = expected_of_others();
    let others = others.as_object().unwrap().clone();
    all.as_object_mut().unwrap().extend(others);
    all
}

fn code(language: &str, code: &str) -> String {
    format!("```{language}\n{code}\n```")
}

/// Of the model's turns.
fn expected_of_turns() -> Value {
    json!({
        "early": [-32600, "the first request is `initialize`"],
        "hello": [1, "sponde", [], true, true, true, true],
        "no_directory": [-32602, "`work` is not an absolute path"],
        "options": {"mode": "on-risk", "model": "openai-compatible/gpt-4o"},
        "modes": ["on-risk", ["on-risk", "always", "never"]],
        "commands": ["plan", "run", "vars", "files", "undo", "restart", "restore", "compact", "export", "status"],
        "plot_end": "end_turn",
        "plot": {
            "title": "Python: import matplotlib.pyplot as plt…",
            "kind": "execute",
            "status": "completed",
            "content": [code("python", PLOT), code("", "drawn"), "image/png b'\\x89PNG'", "link image/png True"],
        },
        "plot_statuses": ["pending", "in_progress", "completed"],
        "plot_code": ["code", "language"],
        "plot_words": "Here is the plot.",
        "delete_end": "end_turn",
        "permission": [
            "Python: import os…",
            "pending",
            ["allow_once", "allow_always", "reject_once", "reject_always"],
            "**May this code run?** It is asked about because it deletes files.\n- line 2: deletes files (os.remove('first.txt'))",
        ],
        "reject_end": "end_turn",
        "rejected": ["failed"],
        "rejected_words": "I left it alone.",
        "never_end": "end_turn",
        "never": ["failed", "failed"],
        "never_words": true,
        "asked_about": 3,
        "files": ["second.txt", "third.txt"],
        "busy": [-32600, "a prompt of this session is being answered: cancel it first"],
        "loop_end": "cancelled",
        "loop": ["failed", true],
        "stubborn_end": "cancelled",
        "input_end": "end_turn",
        "asked": [["The code asks: Name?", ["value"]]],
        "input": code("", "Name? Ada\nhello Ada"),
        "files_end": "end_turn",
        "attached": code("", "['picture.png'] rain\n1"),
    })
}

/// Of slash commands, choices, and the session that is loaded again.
fn expected_of_others() -> Value {
    json!({
        "/vars": ["| name | type | shape | value |\n|---|---|---|---|\n| `rain` | `str` | `6` | `'rain\\n1'` |\n", []],
        "/files": ["- `first.txt` (deleted)", []],
        "/nope": ["There is no command `/nope`. There are `/plan`, `/run`, `/vars`, `/files`, `/undo`, `/restart`, `/restore`, `/compact`, \
            `/export`, `/status`.", []],
        "/export talk.md": ["The conversation is written to `talk.md`. ", ["talk.md"]],
        "own": "end_turn",
        "own_code": {
            "title": "Python: 6 * 7",
            "kind": "execute",
            "status": "completed",
            "content": [code("python", "6 * 7"), code("", "42")],
        },
        "undo": "end_turn",
        "undone": "Cells undone: 1; variables: copy.\n- All of it is kept",
        "mode": "never",
        "no_mode": [-32602, "there is no mode `nope`: it is `on-risk`, `always` or `never`"],
        "model": {"mode": "always", "model": "openai-compatible/gpt-4o-mini"},
        "listed": [[true, "Plot the squares"]],
        "listed_elsewhere": 0,
        "code": 0,
        "no_session": [-32002, "there is no session `nobody`"],
        "loaded_mode": "on-risk",
        "replayed_answer": true,
        "restore": "end_turn",
        "restored": true,
        "again_end": "end_turn",
        "no_forms": [true, true],
        "resumed": [],
        "code_again": 0,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_drives_whole_turns_and_loads_the_session_again() {
    let mock = model().await;
    let sponde = Sponde::new().with_model(&mock);
    for file in ["first.txt", "second.txt", "third.txt"] {
        sponde.write(file, "there before");
    }
    sponde.write("rain fall.csv", "rain\n1");
    let mut found = tokio::task::block_in_place(|| {
        let target = start(&sponde, &["acp", "--model", "gpt-4o"]);
        let mut client = Command::new(python());
        client.arg(fixture("acp_client.py")).arg(target.to_string());
        seen(&mut client)
    });
    mock.stop().await;
    let mut take = |name: &str| found.as_object_mut().unwrap().shift_remove(name).unwrap();
    let no_model = take("no_model");
    assert_eq!(no_model[0], -32602, "{no_model}");
    let closed = take("closed");
    assert_eq!(closed[0], -32002, "{closed}");
    let questions = take("replayed_questions");
    let questions: Vec<&str> = questions
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(questions.len(), 8, "{questions:?}");
    assert!(
        questions[7].contains("@\".sponde/attachments/picture.png\""),
        "{questions:?}"
    );
    let calls = take("replayed_calls");
    assert_eq!(
        calls[0],
        json!(["Python: import matplotlib.pyplot as plt…", "completed"])
    );
    assert_eq!(calls.as_array().unwrap().len(), 9, "{calls}");
    assert_eq!(
        take("replayed_plot"),
        json!(["image/png b'\\x89PNG'", "link image/png True"])
    );
    let expected = expected();
    let all = expected.as_object().unwrap().iter();
    let wrong: Vec<_> = all
        .filter(|(key, value)| found.get(*key) != Some(*value))
        .map(|(key, _)| (key, found.get(key)))
        .collect();
    assert_eq!(wrong, Vec::new());
    assert_eq!(found, expected);
    let exported = sponde.read("talk.md");
    assert!(exported.contains("Here is the plot."), "{exported}");
    sponde.assert_no_process_is_left();
}

#[test]
fn messages_that_are_wrong_are_answered_and_nothing_ends() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["acp"]);
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    for (line, expected) in [
        ("{", -32700),
        ("[]", -32600),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"session/list"}"#,
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, -32602),
    ] {
        pipes.send(line);
        let answer = pipes.next();
        assert_eq!(code(&answer), Some(expected), "{line}: {answer}");
    }
    let request = |id: u32, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    // A later version is answered with ours.
    let hello = pipes.asked(&request(2, "initialize", json!({"protocolVersion": 99})));
    assert_eq!(hello["result"]["protocolVersion"], 1);
    for (method, params, expected) in [
        ("authenticate", json!({"methodId": "x"}), -32602),
        ("session/new", json!({"cwd": "/", "mcpServers": []}), -32602),
        ("session/new", json!({"cwd": "/nowhere/at/all"}), -32602),
        (
            "session/prompt",
            json!({"sessionId": "x", "prompt": []}),
            -32002,
        ),
        (
            "session/load",
            json!({"sessionId": "../x", "cwd": "/tmp"}),
            -32002,
        ),
        ("session/list", json!({"cursor": "x"}), -32602),
        ("session/fork", json!({}), -32601),
    ] {
        let answer = pipes.asked(&request(3, method, params));
        assert_eq!(code(&answer), Some(expected), "{method}: {answer}");
    }
    // Notifications have no answers, and answers that nobody waits for are nothing.
    for line in [
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}"#,
        r#"{"jsonrpc":"2.0","id":"sponde-9","result":{}}"#,
    ] {
        pipes.send(line);
    }
    let empty = pipes.asked(&request(4, "session/list", json!({})));
    assert_eq!(empty["result"], json!({"sessions": []}));
    pipes.end();
}

/// Code of the person's own runs without a model, and a prompt to nobody says what to do.
#[test]
fn a_session_without_a_model_runs_ones_own_code() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["acp"]);
    let cwd = sponde.path("").display().to_string();
    pipes.asked(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}));
    let opened = pipes.asked(
        &json!({"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {
            "cwd": cwd,
            "mcpServers": [
            {"name": "My Tools", "command": "/bin/false", "args": [], "env": []},
            {"type": "sse", "name": "far", "url": "https://example.org/mcp", "headers": []},
        ],
        }}),
    );
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(opened["result"]["configOptions"][1]["currentValue"], "none");
    let mut prompt = |id: u32, text: &str| {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        pipes.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params})
                .to_string(),
        );
        let mut told = String::new();
        loop {
            let message = pipes.next();
            if message["id"] == id {
                return (message, told);
            }
            told.push_str(&message["params"]["update"].to_string());
        }
    };
    let (ran, told) = prompt(3, "/run print(6 * 7)");
    assert_eq!(ran["result"], json!({"stopReason": "end_turn"}));
    assert!(
        told.contains("The MCP server `far` of the editor is left out"),
        "{told}"
    );
    assert!(told.contains(r"```\n42\n```"), "{told}");
    let (_, told) = prompt(5, "/run from sponde.tools import my_tools; my_tools.x()");
    assert!(
        told.contains("the MCP server `my_tools` could not be started: it has ended"),
        "{told}"
    );
    let (failed, _) = prompt(4, "How are you?");
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("model"), "{failed}");
    pipes.end();
    sponde.assert_no_process_is_left();
}

#[test]
fn editors_get_their_lines() {
    let sponde = Sponde::new();
    let shown = sponde.run(&["acp", "--model", "local/x", "config", "zed"]);
    assert_eq!(shown.code, Some(0));
    let lines: Value = serde_json::from_str(&shown.stdout).unwrap();
    let server = &lines["agent_servers"]["Sponde"];
    assert_eq!(server["args"], json!(["acp", "--model", "local/x"]));
    let all = sponde.run(&["acp", "config"]);
    for name in ["zed", "jetbrains", "codecompanion", "avante", "others"] {
        assert!(
            all.stdout.contains(&format!("# {name}: ")),
            "{}",
            all.stdout
        );
    }
    assert_eq!(sponde.run(&["acp", "config", "nano"]).code, Some(2));
}
