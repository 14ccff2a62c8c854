//! MCP: the SDKs' clients over pipes and over HTTP, in both forms of the protocol; and what only raw messages show.

use std::process::Command;

use serde_json::{Value, json};

use super::{Pipes, fixture, python, seen, start};
use crate::support::{Sponde, tools};
use crate::terminal::model_that_runs;

/// All that the Python SDK's client sees, whatever way it speaks.
fn expected(mode: &str, version: &str) -> Value {
    json!({
        "version": version,
        "tools": ["run_code", "list_variables", "read_variable", "list_files", "read_file", "write_file", "new_session", "undo",
            "export_notebook"],
        // With an output schema, and those of them whose results were not checked against it.
        "schemas": [["list_variables", "read_variable", "list_files", "write_file", "new_session", "undo"], []],
        "first": [["out\n42"], "out\n42", {"status": "ok", "execution_count": 1, "error": null}],
        "state": ["43"],
        "failed": [true, {"status": "error", "execution_count": 3,
            "error": {"name": "ZeroDivisionError", "value": "division by zero"}}, true],
        // A picture of 1610 pixels comes small, and whole behind its link.
        "plot": [["text", "image", "resource_link"], "image/png", true, 1024, [1610, 813], null],
        "long": [true, true, true, true],
        "progress": [true, true, true],
        "input": [["Your name? Ada\nhello Ada"], [format!("The code in session `s-{mode}` asks: Your name?")]],
        "password": [true, true, 1],
        "cancelled": "MCPError",
        "after_cancel": [["1"], true],
        "timeout": [true, "timed out"],
        "variables": ["int", "pandas.DataFrame"],
        "rows": [[[999, "5"], [998, "4"]], 1000],
        "value": "42",
        "no_variable": [true, "error: there is no variable `nope`"],
        "wrote": {"path": format!("data/{mode}.csv"), "bytes": 8},
        "by_code": ["'a,b\\n1,2\\n'"],
        "read": ["a,b\n1,2\n"],
        "listed": true,
        "outside": [true, "error: `../../etc/passwd` is not in the workspace"],
        "confined": [false],
        "other": format!("other-{mode}"),
        "apart": {"name": "NameError", "value": "name 'x' is not defined"},
        "taken": [true, format!("error: there is already a session `other-{mode}`")],
        "undo": [1, "copy"],
        "undone": ["42"],
        "exported": ["text", "resource_link"],
        "resources": [true, 1],
        "notebook": [["x = 6 * 7\n", "print('out')\n", "x"], true],
        "no_resource": "there is no resource `sponde://sessions/nobody/notebook.ipynb`: `resources/list` says which there are",
        "no_tool": "there is no tool `nope`: `tools/list` says which there are",
        "arguments": "error: the arguments do not fit: unknown field `kode`, expected one of `code`, `language`, `session`, \
            `timeout_s`, `max_output`",
        "no_kernel": [true, "error: there is no kernel for `cobol`"],
        "no_elicitation": [true, true],
    })
}

/// Compares what the client saw; `reconnected` is what a second connection finds of the first one's variable.
fn assert_seen(mut seen: Value, mode: &str, version: &str, reconnected: &str) {
    let back = seen.as_object_mut().unwrap().shift_remove("reconnected");
    assert_eq!(back, Some(Value::from(reconnected)));
    let expected = expected(mode, version);
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(seen.get(key), Some(value), "{key}");
    }
    assert_eq!(seen, expected);
}

fn over_pipes(mode: &str, version: &str) {
    let sponde = Sponde::new();
    let target = start(&sponde, &["mcp"]);
    let mut client = Command::new(python());
    client
        .arg(fixture("mcp_client.py"))
        .args([&target.to_string(), mode]);
    let seen = seen(&mut client);
    // A program that was started anew has other variables.
    assert_seen(seen, mode, version, "NameError: name 'x' is not defined");
    sponde.assert_no_process_is_left();
}

#[test]
fn the_python_client_over_pipes() {
    over_pipes("auto", "2026-07-28");
}

#[test]
fn the_python_client_over_pipes_with_a_handshake() {
    over_pipes("legacy", "2025-11-25");
}

#[test]
fn the_python_client_over_http_in_both_ways() {
    let sponde = Sponde::new();
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let target = json!({ "url": format!("{base}/mcp"), "token": token });
    for (mode, version) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        let mut client = Command::new(python());
        client
            .arg(fixture("mcp_client.py"))
            .args([&target.to_string(), mode]);
        // The server and its sessions outlive a connection.
        assert_seen(seen(&mut client), mode, version, "42");
    }
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    sponde.assert_no_process_is_left();
}

#[test]
fn the_typescript_client_over_http() {
    let sponde = Sponde::new();
    let mut server = sponde.start(&["serve"]);
    let url = server.line();
    let (base, token) = url.trim().split_once("/#token=").expect("a URL");
    let target = json!({ "url": format!("{base}/mcp"), "token": token });
    let mut client = Command::new("node");
    client
        .arg(fixture("mcp_client_http.mjs"))
        .arg(tools().join("node_modules"))
        .arg(target.to_string());
    assert_eq!(
        seen(&mut client),
        json!({
            "first": "42",
            "steps": 4,
            "progress": true,
            "says": true,
            "cancelled": true,
            "after": "'interrupted'",
            "again": "'interrupted'",
            "chart": [["line", [[0, 1], [1, 2]]]],
        })
    );
    server.signal(rustix::process::Signal::TERM);
    assert_eq!(server.end().code, Some(0));
    sponde.assert_no_process_is_left();
}

#[test]
fn the_typescript_client_over_pipes() {
    let sponde = Sponde::new();
    let target = start(&sponde, &["mcp"]);
    let mut client = Command::new("node");
    client
        .arg(fixture("mcp_client.mjs"))
        .arg(tools().join("node_modules"))
        .arg(target.to_string());
    assert_eq!(
        seen(&mut client),
        json!({
            "tools": true,
            "first": [{"type": "text", "text": "42"}],
            "state": "43",
            "plot": ["text", "image", "resource_link"],
            "png": "PNG",
            "failed": [true, "ZeroDivisionError"],
        })
    );
}

/// A request of 2026-07-28.
pub(super) fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn messages_that_are_wrong_are_answered_and_nothing_ends() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["mcp"]);
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    for (line, expected) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}}"#,
            -32022,
        ),
    ] {
        pipes.send(line);
        let answer = pipes.next();
        assert_eq!(code(&answer), Some(expected), "{line}: {answer}");
    }
    let answer = pipes.asked(&modern(2, "prompts/list", json!({})));
    assert_eq!(code(&answer), Some(-32601));
    let answer = pipes.asked(&modern(3, "server/discover", json!({})));
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["supportedVersions"][0], "2026-07-28");
    // Blank lines and answers that nobody waits for are nothing.
    pipes.send("\n");
    pipes.send(r#"{"jsonrpc":"2.0","id":"sponde-9","result":{}}"#);
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    assert_eq!(
        pipes.asked(&ping),
        json!({"jsonrpc": "2.0", "id": "p", "result": {}})
    );
    pipes.end();
}

#[test]
fn an_answer_goes_to_the_call_that_asked_and_is_good_once() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["mcp"]);
    let call = |id: u32, code: &str, more: Value| {
        let mut params = json!({ "name": "run_code", "arguments": { "code": code } });
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        modern(id, "tools/call", params)
    };
    let code = "print('hello', input('Name? '))";
    let asked = pipes.asked(&call(1, code, json!({})));
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required");
    let question = &result["inputRequests"]["answer"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["message"],
        "The code in session `default` asks: Name?"
    );
    let state = result["requestState"].as_str().unwrap().to_owned();
    let answer = json!({"answer": {"action": "accept", "content": {"value": "Ada"}}});
    let given = json!({ "requestState": state, "inputResponses": answer });
    let refused = "error: nothing waits for this answer";
    let text = |answer: &Value| {
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // Another call with the same name does not get it.
    let other = pipes.asked(&call(2, "1", given.clone()));
    assert!(text(&other).starts_with(refused), "{other}");
    // Without an answer the question comes again, under another name.
    let again = pipes.asked(&call(3, code, json!({ "requestState": state })));
    let state = again["result"]["requestState"].as_str().unwrap().to_owned();
    let given = json!({ "requestState": state, "inputResponses": answer });
    let done = pipes.asked(&call(4, code, given.clone()));
    assert_eq!(text(&done), "Name? Ada\nhello Ada");
    let twice = pipes.asked(&call(5, code, given));
    assert!(text(&twice).starts_with(refused), "{twice}");
    pipes.end();
    sponde.assert_no_process_is_left();
}

#[test]
fn a_subscriber_hears_of_the_notebook() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["mcp"]);
    let uri = "sponde://sessions/default/notebook.ipynb";
    let listen = modern(
        7,
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": [uri], "promptsListChanged": true}}),
    );
    let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
    assert_eq!(
        pipes.asked(&listen),
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": {"resourceSubscriptions": [uri]}}})
    );
    let run = json!({"name": "run_code", "arguments": {"code": "1"}});
    // Either may come first.
    let both = [pipes.asked(&modern(8, "tools/call", run)), pipes.next()];
    let (answers, told): (Vec<Value>, Vec<Value>) = both.into_iter().partition(|it| it["id"] == 8);
    assert_eq!(answers.len(), 1);
    assert_eq!(
        told,
        [
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri, "_meta": meta}})
        ]
    );
    pipes.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_agent_is_a_tool_that_sees_the_variables() {
    let mock = model_that_runs("print('twice', 2 * x)").await;
    let sponde = Sponde::new().with_model(&mock);
    let (text, outcome) = tokio::task::block_in_place(|| {
        let mut pipes = Pipes::start(&sponde, &["mcp", "--model", "gpt-4o", "--yes"]);
        let call = |id: u32, tool: &str, arguments: Value| {
            modern(
                id,
                "tools/call",
                json!({ "name": tool, "arguments": arguments }),
            )
        };
        pipes.asked(&call(1, "run_code", json!({"code": "x = 21"})));
        let answer = pipes.asked(&call(2, "ask", json!({"question": "What is twice x?"})));
        let uri = "sponde://sessions/default/cells/CELL/output.txt";
        let outcome = answer["result"]["_meta"]["sponde/outcome"].clone();
        let first = outcome["cells"][0].as_str().unwrap_or_default();
        let read = json!({ "uri": uri.replace("CELL", first) });
        let printed = pipes.asked(&modern(3, "resources/read", read));
        pipes.end();
        assert_eq!(
            printed["result"]["contents"][0]["text"], "twice 42",
            "{answer}"
        );
        (
            answer["result"]["content"][0]["text"].clone(),
            answer["result"]["isError"].clone(),
        )
    });
    mock.stop().await;
    assert_eq!((text, outcome), (json!("That was it."), json!(false)));
}

#[test]
fn what_the_sandbox_forbids_files_and_code_cannot_do() {
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["mcp", "--sandbox", "read-only"]);
    let mut text = |id: u32, tool: &str, arguments: Value| {
        let params = json!({ "name": tool, "arguments": arguments });
        let answer = pipes.asked(&modern(id, "tools/call", params));
        answer["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let file = json!({"path": "a.txt", "content": "x"});
    assert_eq!(
        text(1, "write_file", file),
        "error: files cannot be written: the sandbox is read-only\nhint: start with `--sandbox workspace` if files may change"
    );
    let code = json!({"code": "open('a.txt', 'w')"});
    let failed = text(2, "run_code", code);
    assert!(
        failed.contains("Read-only file system") || failed.contains("Permission"),
        "{failed}"
    );
    assert!(!sponde.path("a.txt").exists());
    pipes.end();
}

#[test]
fn the_lines_for_clients_start_this_program_in_this_directory() {
    let sponde = Sponde::new();
    let printed = sponde.run(&["mcp", "--network", "allow:pypi", "config", "claude-desktop"]);
    let lines: Value = serde_json::from_str(&printed.stdout).unwrap();
    let server = &lines["mcpServers"]["sponde"];
    let root = sponde.path("").canonicalize().unwrap();
    assert_eq!(
        server["args"],
        json!([
            "mcp",
            "--network",
            "allow:pypi",
            "--root",
            root.display().to_string()
        ])
    );
    let mut arguments: Vec<String> = serde_json::from_value(server["args"].clone()).unwrap();
    arguments.extend(["config".to_owned(), "nobody".to_owned()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let unknown = sponde.run(&arguments);
    assert_eq!(unknown.code, Some(2));
    assert!(
        unknown
            .stderr
            .contains("the client `nobody` is not known here"),
        "{unknown}"
    );
}

/// What a rule forbids does not run, though nobody is asked about a program's code.
#[test]
fn code_that_a_rule_forbids_does_not_run() {
    let sponde = Sponde::new();
    sponde.configure("[[approval.rules]]\naction = \"forbid\"\nfinding = \"delete\"\n");
    std::fs::write(sponde.path("kept.csv"), "a\n1\n").unwrap();
    let mut pipes = Pipes::start(&sponde, &["mcp"]);
    let mut run = |id: u32, code: &str| {
        let call = json!({ "name": "run_code", "arguments": { "code": code } });
        pipes.asked(&modern(id, "tools/call", call))["result"]["structuredContent"].clone()
    };
    let forbidden = run(1, "import os\nos.remove('kept.csv')");
    assert_eq!(forbidden["status"], "forbidden", "{forbidden}");
    let words = forbidden["text"].as_str().unwrap();
    assert!(
        words.contains("a rule of the user forbids this code") && words.contains("line 2"),
        "{words}"
    );
    let after = run(2, "import os\nprint(os.path.exists('kept.csv'))");
    assert_eq!(
        (after["status"].as_str(), after["text"].as_str()),
        (Some("ok"), Some("True")),
        "{after}"
    );
    pipes.end();
}
