//! Forks over HTTP, and sessions without a model.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, answer, with_model};
use crate::model_server::{Answer, ModelServer};
use crate::support::Sponde;

/// The sources of a session's code cells.
async fn code(server: &Server<'_>, session: &str) -> Vec<String> {
    let (status, notebook) = server.get(&format!("{session}/notebook.ipynb")).await;
    assert_eq!(status, 200, "{notebook}");
    let cells = notebook["cells"].as_array().unwrap().iter();
    let code = cells.filter(|it| it["cell_type"] == "code");
    code.map(|it| match &it["source"] {
        Value::Array(lines) => lines.iter().map(|it| it.as_str().unwrap()).collect(),
        other => other.as_str().unwrap().to_owned(),
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_forked_at_a_cell_while_it_goes_on() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["--max-sessions", "3"]);
    let session = server.session(json!({})).await;
    server.run(&session, "a = 1").await;
    let second = server.run(&session, "b = 2").await;
    server.run(&session, "c = 3").await;
    let fork = format!("{session}/fork");
    let (status, made) = server.post(&fork, &json!({ "at": second })).await;
    assert_eq!(status, 201, "{made}");
    let forked = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    assert_eq!(code(&server, &forked).await, ["a = 1", "b = 2"]);
    // Its kernel is its own, and begins anew: the person says whether the code runs again.
    let restore = json!({"command": "restore", "replay": true});
    let mut events = server.events(&forked, "").await;
    let is_asked = |item: &Value| {
        let pending = &item["snapshot"]["state"]["pending"][0];
        [item, pending].iter().any(|it| it["code_cells"] == 2)
    };
    events.until(is_asked).await;
    assert_eq!(server.command(&forked, &restore).await.0, 202);
    events
        .until(|item| item["event"] == "session_restored" || item["event"] == "turn_finished")
        .await;
    server.run(&forked, "print(a + b)").await;
    // The first one is as it was.
    assert_eq!(code(&server, &session).await, ["a = 1", "b = 2", "c = 3"]);
    server.run(&session, "print(a + b + c)").await;
    let (status, made) = server.post(&fork, &json!({})).await;
    assert_eq!(status, 201, "{made}");
    let whole = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    assert_eq!(code(&server, &whole).await.len(), 4);
    // What cannot be leaves nothing behind.
    let stored = |list: &Value| -> BTreeSet<String> {
        let all = list["live"].as_array().unwrap().iter();
        let all = all.chain(list["stored"].as_array().unwrap());
        all.map(|it| it["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let before = stored(&server.get("/api/sessions").await.1);
    for (path, body, status, reason) in [
        (fork.as_str(), json!({}), 503, "too_many_sessions"),
        (&fork, json!({"at": "none"}), 404, "not_found"),
        (&fork, json!({"at": "0"}), 404, "not_found"),
        (&fork, json!({"at": "99"}), 404, "not_found"),
        (&fork, json!({"at": "../../etc"}), 404, "not_found"),
        (&fork, json!({"at": 1}), 422, "bad_request"),
        (&fork, json!({"where": "x"}), 422, "bad_request"),
        ("/api/sessions/none/fork", json!({}), 404, "not_found"),
        (
            "/api/sessions/..%2F..%2Fetc/fork",
            json!({}),
            404,
            "not_found",
        ),
    ] {
        let (told, answer) = server.post(path, &body).await;
        assert_eq!(
            (told, &answer["error"]["reason"]),
            (status, &json!(reason)),
            "{path} {body}: {answer}"
        );
    }
    assert_eq!(stored(&server.get("/api/sessions").await.1), before);
    let bare = server.bare(Method::POST, &fork).json(&json!({}));
    assert_eq!(answer(bare).await.0, 401);
    server.end();
}

/// Code of the person's own needs no model; a question is answered with what to do, and a model can be set later.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_model_runs_ones_own_code() {
    let sponde = Sponde::new();
    let server = Server::start_without_model(&sponde, &["--sandbox", "full"]);
    assert_eq!(server.get("/api/models").await, (200, json!([])));
    let (status, made) = server.post("/api/sessions", &json!({})).await;
    assert_eq!(status, 201, "{made}");
    let notices = made["notices"].to_string();
    assert!(
        notices.contains("there is no model to ask") && notices.contains("OPENAI_API_KEY"),
        "{notices}"
    );
    let session = format!("/api/sessions/{}", made["id"].as_str().unwrap());
    server.run(&session, "x = 6 * 7").await;
    let (_, snapshot) = server.get(&session).await;
    assert_eq!(snapshot["snapshot"]["state"]["model"], json!(null));
    let mut events = server.events(&session, "").await;
    let submit = json!({"command": "submit", "text": "What is x?"});
    assert_eq!(server.command(&session, &submit).await.0, 202);
    let seen = events.until(|item| item["event"] == "turn_finished").await;
    let end = seen.last().unwrap();
    assert_eq!(
        (&end["end"], &end["message"]),
        (
            &json!("model_failed"),
            &json!("there is no model to ask: choose one, or run code of your own")
        )
    );
    // It goes on, and one that is named and is not there is told.
    server.run(&session, "print(x)").await;
    let (status, told) = server
        .post("/api/sessions", &json!({"model": "openai/gpt-4o"}))
        .await;
    assert_eq!(
        (status, &told["error"]["reason"]),
        (503, &json!("model")),
        "{told}"
    );
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_set_where_there_was_none() {
    let model = ModelServer::start(|_| (Answer::Text("Forty-two.".to_owned()), 100)).await;
    // Named, the server is reached; by itself it is not found, as it is no usual one.
    let sponde = Sponde::new().with("OPENAI_API_KEY", "");
    sponde.configure(&format!(
        "[providers.mine]\nkind = \"openai-compatible\"\nbase-url = \"{}\"\n",
        model.url
    ));
    let server = Server::start_without_model(&sponde, &["--sandbox", "full"]);
    let session = server.session(json!({})).await;
    server.run(&session, "x = 42").await;
    let mut events = server.events(&session, "").await;
    let set = json!({"command": "set_model", "model": "mine/any"});
    assert_eq!(server.command(&session, &set).await.0, 202);
    let seen = events
        .until(|item| item["event"] == "model_changed" || item["event"] == "model_unchanged")
        .await;
    assert_eq!(
        seen.last().unwrap()["event"],
        "model_changed",
        "{:?}",
        seen.last()
    );
    let submit = json!({"command": "submit", "text": "What is x?"});
    assert_eq!(server.command(&session, &submit).await.0, 202);
    let seen = events.until(|item| item["event"] == "turn_finished").await;
    assert!(json!(seen).to_string().contains("Forty-two."), "{seen:?}");
    server.end();
}
