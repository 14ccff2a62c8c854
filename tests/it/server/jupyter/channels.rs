//! Messages: both protocols, several clients, sessions, what waits for who comes back.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use sponde::jupyter::message::Channel;
use sponde::kernel::Dialect;

use super::super::{Server, answer, with_model};
use super::{Socket, short};
use crate::model_server::Answer;

/// The code cells of a session with their status, who wrote them, and their text outputs.
async fn cells(server: &Server<'_>, session: &str) -> Vec<(String, String)> {
    let (status, notebook) = server.get(&format!("{session}/notebook.ipynb")).await;
    assert_eq!(status, 200);
    let text = |value: &Value| match value {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    let cells = notebook["cells"].as_array().unwrap();
    let code = cells.iter().filter(|it| it["cell_type"] == "code");
    code.map(|cell| {
        let outputs = cell["outputs"].as_array().unwrap();
        let outputs = outputs.iter().map(|it| {
            let plain = text(&it["data"]["text/plain"]);
            format!(
                "{}{plain}{}",
                text(&it["text"]),
                it["ename"].as_str().unwrap_or_default()
            )
        });
        (text(&cell["source"]), outputs.collect())
    })
    .collect()
}

const EXECUTED: [&str; 6] = [
    "iopub status busy",
    "iopub execute_input",
    "iopub stream 23\n",
    "iopub execute_result 3",
    "iopub status idle",
    "shell execute_reply ok",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_used_by_several_clients_in_both_protocols() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let kernel = server.kernel().await;
    let mut json = server.connect(&kernel, "one", Dialect::Json).await;
    let mut binary = server.connect(&kernel, "two", Dialect::V1).await;
    for socket in [&mut json, &mut binary] {
        let id = socket.execute("print(23)\n3").await;
        assert_eq!(short(&socket.about(&id).await), EXECUTED);
    }
    // The other one saw the outputs, and not the reply; what it asked itself was answered between.
    let id = binary
        .send(Channel::Shell, "kernel_info_request", json!({}))
        .await;
    let mut seen = Vec::new();
    loop {
        let next = json.next().await.unwrap();
        let is_last =
            next.parent["msg_id"] == id.as_str() && next.content["execution_state"] == "idle";
        seen.push(next);
        if is_last {
            break;
        }
    }
    let is_of_two = |it: &super::Seen| it.parent["msg_id"] == "two-1";
    let of_two: Vec<_> = seen.iter().filter(|it| is_of_two(it)).cloned().collect();
    assert_eq!(short(&of_two), EXECUTED[..5]);
    assert!(
        seen.iter().all(|it| it.channel == Channel::IoPub),
        "{seen:?}"
    );
    // A reply has all that was asked for.
    let id = json.execute("0").await;
    let seen = json.about(&id).await;
    let reply = seen.iter().find(|it| it.kind == "execute_reply").unwrap();
    assert_eq!(
        reply.content["user_expressions"]["two"]["data"]["text/plain"],
        "2"
    );
    // Input, widgets' buffers and interrupts.
    let id = binary.execute("print(input('who? ') + '!')").await;
    assert_eq!(
        binary.until("input_request").await.content["prompt"],
        "who? "
    );
    binary
        .send(Channel::Stdin, "input_reply", json!({"value": "Ada"}))
        .await;
    let seen = short(&binary.about(&id).await);
    assert!(seen.contains(&"iopub stream Ada!\n".to_owned()), "{seen:?}");
    let code = "from ipykernel.comm import Comm\nComm('t', data={}, buffers=[b'\\x00\\xff'])";
    for socket in [&mut json, &mut binary] {
        let id = socket.execute(code).await;
        let seen = short(&socket.about(&id).await);
        assert!(seen.contains(&"iopub comm_open".to_owned()), "{seen:?}");
    }
    let interrupt = format!("/jupyter/api/kernels/{kernel}/interrupt");
    let id = json
        .execute("print('on', flush=True)\nwhile True: pass")
        .await;
    json.until_of(&id, "stream").await;
    let (_, model) = server.get(&format!("/jupyter/api/kernels/{kernel}")).await;
    assert_eq!(
        (&model["execution_state"], &model["connections"]),
        (&json!("busy"), &json!(2)),
        "{model}"
    );
    assert_eq!(server.post(&interrupt, &json!({})).await.0, 204);
    let seen = short(&json.about(&id).await);
    assert!(
        seen.contains(&"iopub error KeyboardInterrupt".to_owned()),
        "{seen:?}"
    );
    let id = binary
        .execute("print('on', flush=True)\nwhile True: pass")
        .await;
    binary.until_of(&id, "stream").await;
    binary
        .send(Channel::Control, "interrupt_request", json!({}))
        .await;
    let seen = short(&binary.about(&id).await);
    assert!(
        seen.contains(&"shell execute_reply error KeyboardInterrupt".to_owned()),
        "{seen:?}"
    );
    // What is no message is dropped; the connection goes on. It dies with the kernel.
    json.text("{".to_owned()).await;
    json.text("[]".to_owned()).await;
    let id = json.execute("print(23)\n3").await;
    assert_eq!(short(&json.about(&id).await), EXECUTED);
    let path = format!("/jupyter/api/kernels/{kernel}");
    assert_eq!(answer(server.request(Method::DELETE, &path)).await.0, 204);
    while json.next().await.is_some() {}
    assert_eq!(server.get(&path).await.0, 404);
    assert_eq!(server.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_gets_what_it_missed() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let kernel = server.kernel().await;
    let mut socket = server.connect(&kernel, "s", Dialect::Json).await;
    let id = socket
        .execute("import time\nprint(1, flush=True)\ntime.sleep(1)\nprint(2)\n5")
        .await;
    socket.until("stream").await;
    drop(socket);
    idle(&server, &kernel).await;
    let mut socket = server.connect(&kernel, "s", Dialect::V1).await;
    assert_eq!(
        short(&socket.about(&id).await),
        [
            "iopub stream 2\n",
            "iopub execute_result 5",
            "iopub status idle",
            "shell execute_reply ok"
        ]
    );
    // More than is kept: how much is missing is said, and the reply is there.
    let id = socket
        .execute(
            "import time\ntime.sleep(1)\nfor i in range(40): print('x' * 1_000_000, flush=True)\n5",
        )
        .await;
    socket.until("execute_input").await;
    drop(socket);
    idle(&server, &kernel).await;
    let mut socket = server.connect(&kernel, "s", Dialect::Json).await;
    let seen = short(&socket.about(&id).await);
    assert!(
        seen[0].starts_with("iopub stream [Sponde: ") && seen[0].contains("were dropped]"),
        "{}",
        &seen[0][..100]
    );
    assert_eq!(seen.last().unwrap(), "shell execute_reply ok");
    // Another client gets nothing of it.
    drop(socket);
    let mut other = server.connect(&kernel, "other", Dialect::Json).await;
    let id = other.execute("print(23)\n3").await;
    assert_eq!(short(&other.about(&id).await), EXECUTED);
    assert_eq!(server.end().code, Some(0));
}

/// Waits until nobody is connected and nothing runs.
async fn idle(server: &Server<'_>, kernel: &str) {
    loop {
        let (_, model) = server.get(&format!("/jupyter/api/kernels/{kernel}")).await;
        if model["connections"] == 0 && model["execution_state"] == "idle" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_a_client_is_the_persons_own_cell_in_the_session() {
    let call = Answer::Call("x = 40\nprint('of the model')".to_owned());
    let (_model, sponde) = with_model([call, Answer::Text("Done.".to_owned())]).await;
    let server = Server::start(&sponde, &["--yes"]);
    let session = server.session(json!({})).await;
    let kernel = server.kernel_of_session().await;
    let mut lab = server.connect(&kernel, "lab", Dialect::V1).await;
    let id = lab.execute("print(23)\n3").await;
    assert_eq!(short(&lab.about(&id).await), EXECUTED);
    // The model's cells are seen as well, and share the variables.
    let question = json!({"command": "submit", "text": "Set x."});
    let mut events = server.events(&session, "").await;
    assert_eq!(server.command(&session, &question).await.0, 202);
    assert_eq!(lab.until("stream").await.content["text"], "of the model\n");
    // While the turn goes on code waits, then runs in order; what fails stops what was sent behind it.
    let first = lab.execute("x += 1\nx").await;
    let second = lab.execute("1/0").await;
    let third = lab.execute("print('never')").await;
    let seen = short(&lab.about(&first).await);
    assert!(
        seen.contains(&"iopub execute_result 41".to_owned()),
        "{seen:?}"
    );
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let next = lab.next().await.unwrap();
        if next.kind == "execute_reply" {
            seen.push((
                next.parent["msg_id"].clone(),
                next.content["status"].clone(),
            ));
        }
    }
    assert_eq!(
        seen,
        [
            (json!(second), json!("error")),
            (json!(third), json!("aborted"))
        ]
    );
    // Who follows the session sees them, with who ran them.
    let is_proposal = |item: &Value| item["edit"]["propose"]["source"] == "1/0";
    let items = events.until(is_proposal).await;
    let proposed = items.last().unwrap();
    assert_eq!(proposed["by"], "jupyter", "{proposed}");
    assert_eq!(
        proposed["edit"]["propose"]["author"], "person",
        "{proposed}"
    );
    events.until(|item| item["event"] == "turn_finished").await;
    let expected = [
        ("print(23)\n3", "23\n3"),
        ("x = 40\nprint('of the model')", "of the model\n"),
        ("x += 1\nx", "41"),
        ("1/0", "ZeroDivisionError"),
    ];
    let expected = expected.map(|(code, text)| (code.to_owned(), text.to_owned()));
    assert_eq!(cells(&server, &session).await, expected);
    own_matters(&server, &session, &kernel, &mut lab).await;
    assert_eq!(server.end().code, Some(0));
}

/// Input, interrupts, silent code, restarts, and the end, of a session's kernel.
async fn own_matters(server: &Server<'_>, session: &str, kernel: &str, lab: &mut Socket) {
    let id = lab.execute("print(input('who? ') + '!')").await;
    assert_eq!(lab.until("input_request").await.content["prompt"], "who? ");
    lab.send(Channel::Stdin, "input_reply", json!({"value": "Ada"}))
        .await;
    let seen = short(&lab.about(&id).await);
    assert!(seen.contains(&"iopub stream Ada!\n".to_owned()), "{seen:?}");
    let id = lab
        .execute("print('on', flush=True)\nwhile True: pass")
        .await;
    lab.until_of(&id, "stream").await;
    let path = format!("/jupyter/api/kernels/{kernel}");
    let interrupt = format!("{path}/interrupt");
    assert_eq!(server.post(&interrupt, &json!({})).await.0, 204);
    let seen = short(&lab.about(&id).await);
    assert!(
        seen.contains(&"iopub error KeyboardInterrupt".to_owned()),
        "{seen:?}"
    );
    // What leaves no trace in the kernel leaves none here.
    let before = cells(server, session).await.len();
    let content = json!({"code": "y = 7", "silent": true});
    let id = lab.send(Channel::Shell, "execute_request", content).await;
    lab.about(&id).await;
    let content = json!({"code": "y.bit_l", "cursor_pos": 7});
    let id = lab.send(Channel::Shell, "complete_request", content).await;
    let seen = lab.about(&id).await;
    let reply = seen.iter().find(|it| it.kind == "complete_reply").unwrap();
    assert_eq!(reply.content["matches"], json!([".bit_length"]));
    assert_eq!(cells(server, session).await.len(), before);
    // It is the session's to end.
    let (status, told) = answer(server.request(Method::DELETE, &path)).await;
    assert_eq!(status, 403, "{told}");
    lab.send(
        Channel::Control,
        "shutdown_request",
        json!({"restart": false}),
    )
    .await;
    assert_eq!(lab.until("shutdown_reply").await.content["status"], "error");
    let (status, told) = server.post(&format!("{path}/restart"), &json!({})).await;
    assert_eq!(status, 200, "{told}");
    let id = lab.execute("'x' in dir()").await;
    let seen = short(&lab.about(&id).await);
    assert!(
        seen.contains(&"iopub execute_result False".to_owned()),
        "{seen:?}"
    );
    let (status, sessions) = server.get("/jupyter/api/sessions").await;
    assert_eq!(
        (status, &sessions[0]["kernel"]["id"]),
        (200, &json!(kernel))
    );
    let path = session.to_owned();
    assert_eq!(answer(server.request(Method::DELETE, &path)).await.0, 204);
    while lab.next().await.is_some() {}
    assert_eq!(server.get("/jupyter/api/kernels").await.1, json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_count_against_the_limit_and_have_the_servers_sandbox() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start_with(&sponde, &["--sandbox", "workspace", "--max-sessions", "1"]);
    let kernel = server.kernel().await;
    let (status, told) = server.post("/jupyter/api/kernels", &json!({})).await;
    assert_eq!(
        (status, &told["reason"]),
        (503, &json!("too_many_sessions"))
    );
    assert_eq!(server.post("/api/sessions", &json!({})).await.0, 503);
    let mut socket = server.connect(&kernel, "s", Dialect::Json).await;
    let config = sponde.path("").join("../config/x");
    std::fs::create_dir_all(config.parent().unwrap()).unwrap();
    std::fs::write(&config, "secret").unwrap();
    let code = format!(
        "import socket\nfor act in [lambda: open({config:?}), lambda: socket.create_connection(('127.0.0.1', {port}), 1)]:\n    try:\n        act()\n        print('it went', end=' ')\n    except OSError:\n        print('refused', end=' ')",
        port = server.base.rsplit(':').next().unwrap()
    );
    let id = socket.execute(&code).await;
    let seen = short(&socket.about(&id).await);
    let printed: String = seen
        .iter()
        .filter_map(|it| it.strip_prefix("iopub stream "))
        .collect();
    assert_eq!(printed.trim(), "refused refused", "{seen:?}");
    for name in ["/usr/bin/python3", "../x", "no-such"] {
        let (status, told) = server
            .post("/jupyter/api/kernels", &json!({"name": name}))
            .await;
        assert!([403, 503].contains(&status), "{name}: {status} {told}");
    }
    // No upgrade without one, and not from another page.
    let path = format!("/jupyter/api/kernels/{kernel}/channels");
    assert_eq!(server.get(&path).await.0, 426);
    let upgrade = |request: reqwest::RequestBuilder| {
        request
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    };
    let bare = upgrade(server.bare(Method::GET, &path));
    assert_eq!(answer(bare).await.0, 401);
    let foreign =
        upgrade(server.request(Method::GET, &path)).header("origin", "http://evil.example");
    assert_eq!(answer(foreign).await.0, 403);
    // The token in the query is for Jupyter's paths alone.
    let path = format!("/jupyter/api/kernels?token={}", server.token);
    assert_eq!(answer(server.bare(Method::GET, &path)).await.0, 200);
    let path = format!("/api/sessions?token={}", server.token);
    assert_eq!(answer(server.bare(Method::GET, &path)).await.0, 401);
    assert_eq!(
        answer(server.bare(Method::GET, "/jupyter/api/kernels?token=x"))
            .await
            .0,
        401
    );
    assert_eq!(server.end().code, Some(0));
}

/// Open WebUI 0.12.4, `utils/code_interpreter.py`: the same requests and the same reading of what comes.
#[tokio::test(flavor = "multi_thread")]
async fn open_webuis_recorded_requests_are_answered() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let token = &server.token;
    let start = server.bare(Method::POST, &format!("/jupyter/api/kernels?token={token}"));
    let (status, kernel) = answer(start).await;
    assert_eq!(status, 201);
    let kernel = kernel["id"].as_str().unwrap();
    let mut socket = server.connect(kernel, "", Dialect::Json).await;
    let code = "import matplotlib.pyplot as plt\nprint('hello')\nplt.plot([1, 2])\nplt.show()\n6*7";
    let request = json!({
        "header": {
            "msg_id": "5f1d", "msg_type": "execute_request", "username": "user", "session": "a8c0", "date": "",
            "version": "5.3",
        },
        "parent_header": {},
        "metadata": {},
        "content": {
            "code": code, "silent": false, "store_history": true, "user_expressions": {}, "allow_stdin": false,
            "stop_on_error": true,
        },
        "channel": "shell",
    });
    socket.text(request.to_string()).await;
    let (mut stdout, mut result) = (String::new(), Vec::new());
    loop {
        let message = socket.next().await.unwrap();
        if message.parent["msg_id"] != "5f1d" {
            continue;
        }
        let content = &message.content;
        match message.kind.as_str() {
            "stream" if content["name"] == "stdout" => stdout += content["text"].as_str().unwrap(),
            "execute_result" | "display_data" => {
                let data = &content["data"];
                let png = data["image/png"].as_str().map(|it| it[..8].to_owned());
                result.push(png.unwrap_or_else(|| data["text/plain"].as_str().unwrap().to_owned()));
            }
            "status" if content["execution_state"] == "idle" => break,
            _ => {}
        }
    }
    assert_eq!(
        (stdout.as_str(), result),
        ("hello\n", vec!["iVBORw0K".to_owned(), "42".to_owned()])
    );
    let end = server.bare(
        Method::DELETE,
        &format!("/jupyter/api/kernels/{kernel}?token={token}"),
    );
    assert_eq!(answer(end).await.0, 204);
    assert_eq!(server.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_of_two_notebooks_stays_until_neither_uses_it() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let sessions = "/jupyter/api/sessions";
    let open = async |path: &str, kernel: Value| {
        let wanted = json!({"path": path, "name": path, "type": "notebook", "kernel": kernel});
        let (status, told) = server.post(sessions, &wanted).await;
        assert_eq!(status, 201, "{told}");
        let text = |it: &Value| it.as_str().unwrap().to_owned();
        (text(&told["id"]), text(&told["kernel"]["id"]))
    };
    let kernels = async || {
        let (_, kernels) = server.get("/jupyter/api/kernels").await;
        let ids = kernels.as_array().unwrap().iter();
        ids.map(|it| it["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (one, shared) = open("one.ipynb", json!({"name": "python3"})).await;
    let (two, same) = open("two.ipynb", json!({"id": shared})).await;
    assert_eq!(shared, same);
    for (notebook, stays) in [(one, true), (two, false)] {
        let change = json!({"kernel": {"name": "python3"}});
        let request = server.request(Method::PATCH, &format!("{sessions}/{notebook}"));
        let (status, told) = answer(request.json(&change)).await;
        assert_eq!(status, 200, "{told}");
        assert_ne!(told["kernel"]["id"], json!(shared));
        assert_eq!(kernels().await.contains(&shared), stays);
    }
    assert_eq!(server.end().code, Some(0));
}
