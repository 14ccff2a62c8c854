//! Files, checkpoints, sessions, settings: what front ends need to open and save a notebook.

use reqwest::Method;
use serde_json::{Value, json};

use super::super::{Server, answer, with_model};

impl Server<'_> {
    async fn ask(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let path = format!("/jupyter/api/{path}");
        answer(self.request(method, &path).json(&body)).await
    }
}

/// The fields of a model that do not depend on when it was made.
fn fields(model: &Value) -> Value {
    let keys = [
        "name", "path", "type", "format", "mimetype", "size", "content",
    ];
    let known = keys
        .into_iter()
        .map(|key| (key.to_owned(), model[key].clone()));
    Value::Object(known.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notebook_is_made_saved_checkpointed_renamed_and_removed() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let root = std::fs::canonicalize(sponde.path("")).unwrap();
    std::fs::create_dir(root.join("nb")).unwrap();
    let (status, made) = server
        .ask(Method::POST, "contents/nb", json!({"type": "notebook"}))
        .await;
    assert_eq!((status, &made["path"]), (201, &json!("nb/Untitled.ipynb")));
    let (_, second) = server
        .ask(Method::POST, "contents/nb", json!({"type": "notebook"}))
        .await;
    assert_eq!(second["path"], "nb/Untitled1.ipynb");
    let cell = |source: &str| {
        json!({
            "cell_type": "code", "id": "a", "execution_count": null, "metadata": {"trusted": true}, "outputs": [],
            "source": source,
        })
    };
    let notebook = |source: &str| {
        json!({
            "cells": [cell(source)], "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
        })
    };
    let save =
        |source: &str| json!({"type": "notebook", "format": "json", "content": notebook(source)});
    let at = "contents/nb/Untitled.ipynb";
    let (status, saved) = server.ask(Method::PUT, at, save("1\n2")).await;
    assert_eq!((status, &saved["content"]), (200, &Value::Null));
    let file = std::fs::read_to_string(root.join("nb/Untitled.ipynb")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(file["cells"][0]["source"], json!(["1\n", "2"]));
    assert_eq!(
        file["cells"][0]["metadata"],
        json!({}),
        "trust is nothing that a file says"
    );
    let (status, opened) = server
        .ask(Method::GET, &format!("{at}?hash=1"), json!(null))
        .await;
    assert_eq!(
        (status, &opened["content"]["cells"][0]["source"]),
        (200, &json!("1\n2"))
    );
    assert_eq!(opened["hash"].as_str().unwrap().len(), 64);
    // A checkpoint, a change, and back.
    let (status, checkpoint) = server
        .ask(Method::POST, &format!("{at}/checkpoints"), json!(null))
        .await;
    assert_eq!((status, &checkpoint["id"]), (201, &json!("checkpoint")));
    assert_eq!(server.ask(Method::PUT, at, save("3")).await.0, 200);
    let (_, all) = server
        .ask(Method::GET, &format!("{at}/checkpoints"), json!(null))
        .await;
    assert_eq!(all, json!([checkpoint]));
    let back = server
        .ask(
            Method::POST,
            &format!("{at}/checkpoints/checkpoint"),
            json!(null),
        )
        .await;
    assert_eq!(back.0, 204);
    let (_, opened) = server.ask(Method::GET, at, json!(null)).await;
    assert_eq!(opened["content"]["cells"][0]["source"], "1\n2");
    let gone = server
        .ask(
            Method::DELETE,
            &format!("{at}/checkpoints/checkpoint"),
            json!(null),
        )
        .await;
    assert_eq!(gone.0, 204);
    names(&server).await;
    text_and_bytes(&server, &root).await;
    assert_eq!(server.end().code, Some(0));
}

async fn names(server: &Server<'_>) {
    let at = "contents/nb/Untitled.ipynb";
    // Another name, a copy, a listing without what is hidden, and the end.
    let (status, renamed) = server
        .ask(Method::PATCH, at, json!({"path": "nb/b.ipynb"}))
        .await;
    assert_eq!((status, &renamed["name"]), (200, &json!("b.ipynb")));
    let taken = server.ask(
        Method::PATCH,
        "contents/nb/b.ipynb",
        json!({"path": "nb/Untitled1.ipynb"}),
    );
    assert_eq!(taken.await.0, 409);
    let (_, copied) = server
        .ask(
            Method::POST,
            "contents/nb",
            json!({"copy_from": "nb/b.ipynb"}),
        )
        .await;
    assert_eq!(copied["path"], "nb/b-Copy1.ipynb");
    let (_, listed) = server.ask(Method::GET, "contents/nb", json!(null)).await;
    let names: Vec<&str> = listed["content"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["path"].as_str())
        .collect();
    assert_eq!(
        names,
        ["nb/Untitled1.ipynb", "nb/b-Copy1.ipynb", "nb/b.ipynb"]
    );
    assert_eq!(
        server
            .ask(Method::DELETE, "contents/nb/b.ipynb", json!(null))
            .await
            .0,
        204
    );
    assert_eq!(
        server
            .ask(Method::GET, "contents/nb/b.ipynb", json!(null))
            .await
            .0,
        404
    );
}

/// Text, bytes, and a large file in pieces.
async fn text_and_bytes(server: &Server<'_>, root: &std::path::Path) {
    let text = json!({"type": "file", "format": "text", "content": "größe\n"});
    assert_eq!(server.ask(Method::PUT, "contents/t.txt", text).await.0, 201);
    let (_, opened) = server.ask(Method::GET, "contents/t.txt", json!(null)).await;
    assert_eq!(
        fields(&opened),
        json!({
            "name": "t.txt", "path": "t.txt", "type": "file", "format": "text", "mimetype": "text/plain; charset=utf-8",
            "size": 8, "content": "größe\n",
        })
    );
    for (chunk, piece) in [(1, "AAEC"), (2, "Av8="), (-1, "/w==")] {
        let body = json!({"type": "file", "format": "base64", "content": piece, "chunk": chunk});
        let (status, told) = server.ask(Method::PUT, "contents/b.bin", body).await;
        assert!(status < 300, "{told}");
    }
    assert_eq!(
        std::fs::read(root.join("b.bin")).unwrap(),
        [0, 1, 2, 2, 255, 255]
    );
    let (_, opened) = server.ask(Method::GET, "contents/b.bin", json!(null)).await;
    assert_eq!(
        (&opened["format"], &opened["content"]),
        (&json!("base64"), &json!("AAECAv//"))
    );
    let raw = server
        .request(Method::GET, "/jupyter/files/b.bin")
        .send()
        .await
        .unwrap();
    assert_eq!(raw.bytes().await.unwrap().as_ref(), [0, 1, 2, 2, 255, 255]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_and_a_session_alone_writes_its_notebook() {
    let (_model, sponde) = with_model([]).await;
    let root = std::fs::canonicalize(sponde.path("")).unwrap();
    std::fs::create_dir(root.join("work")).unwrap();
    std::fs::write(root.join("outside.txt"), "secret").unwrap();
    std::fs::write(root.join("work/.hidden"), "secret").unwrap();
    std::os::unix::fs::symlink("../outside.txt", root.join("work/link.txt")).unwrap();
    std::os::unix::fs::symlink("..", root.join("work/up")).unwrap();
    let server = Server::start(&sponde, &["-k", "misbehave", "--root", "work"]);
    for path in [
        "..%2Foutside.txt",
        "link.txt",
        "up%2Foutside.txt",
        "up",
        ".hidden",
        "x%2F..%2F..%2Foutside.txt",
    ] {
        let text = json!({"type": "file", "format": "text", "content": "x"});
        for (method, body) in [
            (Method::GET, json!(null)),
            (Method::DELETE, json!(null)),
            (Method::PUT, text),
            (Method::PATCH, json!({"path": "stolen.txt"})),
            (Method::POST, json!({"copy_from": "../outside.txt"})),
            (Method::POST, json!({"copy_from": "link.txt"})),
        ] {
            // A link itself can be replaced, renamed and removed: it is in the directory.
            let is_own = path == "link.txt" || path == "up";
            if is_own && method != Method::GET && method != Method::POST {
                continue;
            }
            let (status, told) = server
                .ask(method.clone(), &format!("contents/{path}"), body)
                .await;
            assert!(
                [400, 403, 404, 409].contains(&status),
                "{method} {path}: {status} {told}"
            );
        }
        let (status, _) =
            answer(server.request(Method::GET, &format!("/jupyter/files/{path}"))).await;
        assert!([403, 404].contains(&status), "{path}: {status}");
        let checkpoint = server
            .ask(
                Method::POST,
                &format!("contents/{path}/checkpoints"),
                json!(null),
            )
            .await;
        assert!(
            [400, 403, 404, 409].contains(&checkpoint.0),
            "{path}: {checkpoint:?}"
        );
    }
    let rename = server
        .ask(
            Method::PATCH,
            "contents/link.txt",
            json!({"path": "../x.txt"}),
        )
        .await;
    assert_eq!(rename.0, 403);
    let (_, listed) = server.ask(Method::GET, "contents", json!(null)).await;
    assert_eq!(listed["content"], json!([]));
    assert_eq!(
        std::fs::read_to_string(root.join("outside.txt")).unwrap(),
        "secret"
    );
    sessions(&server).await;
    settings(&server).await;
    assert_eq!(server.end().code, Some(0));
}

/// Which notebook uses which kernel, and who writes it.
async fn sessions(server: &Server<'_>) {
    // A session's notebook is open in a front end, with the session's kernel; saving it there is refused.
    let session = server.session(json!({"notebook": "s.ipynb"})).await;
    server.run(&session, "print 1").await;
    let (status, jupyter) = server
        .ask(
            Method::POST,
            "sessions",
            json!({"path": "s.ipynb", "type": "notebook", "kernel": {"name": "misbehave"}}),
        )
        .await;
    assert_eq!((status, &jupyter["path"]), (201, &json!("s.ipynb")));
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(
        kernels,
        json!([jupyter["kernel"]]),
        "no other one was started"
    );
    let empty = json!({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    let save = json!({"type": "notebook", "format": "json", "content": empty});
    let (status, told) = server
        .ask(Method::PUT, "contents/s.ipynb", save.clone())
        .await;
    assert_eq!((status, &told["reason"]), (409, &json!("session")));
    // A kernel of another notebook ends with its session.
    assert_eq!(
        server.ask(Method::PUT, "contents/o.ipynb", save).await.0,
        201
    );
    let (_, other) = server
        .ask(
            Method::POST,
            "sessions",
            json!({"path": "o.ipynb", "name": "o", "type": "notebook", "kernel": {}}),
        )
        .await;
    let again = server
        .ask(
            Method::POST,
            "sessions",
            json!({"path": "o.ipynb", "kernel": {}}),
        )
        .await;
    assert_eq!(again.1, other);
    let path = format!("sessions/{}", other["id"].as_str().unwrap());
    let (_, renamed) = server
        .ask(Method::PATCH, &path, json!({"path": "p.ipynb"}))
        .await;
    assert_eq!(
        (&renamed["path"], &renamed["kernel"]["id"]),
        (&json!("p.ipynb"), &other["kernel"]["id"])
    );
    let (_, all) = server.ask(Method::GET, "sessions", json!(null)).await;
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    assert_eq!(server.ask(Method::DELETE, &path, json!(null)).await.0, 204);
    let (_, kernels) = server.get("/jupyter/api/kernels").await;
    assert_eq!(kernels.as_array().unwrap().len(), 1, "{kernels}");
}

async fn settings(server: &Server<'_>) {
    assert_eq!(
        server.ask(Method::GET, "config/x", json!(null)).await,
        (200, json!({}))
    );
    let change = json!({"a": {"b": 1, "c": 2}, "d": 3});
    assert_eq!(server.ask(Method::PATCH, "config/x", change).await.0, 200);
    let (_, changed) = server
        .ask(
            Method::PATCH,
            "config/x",
            json!({"a": {"b": null}, "d": null}),
        )
        .await;
    assert_eq!(changed, json!({"a": {"c": 2}}));
    assert_eq!(
        server.ask(Method::PUT, "config/x", json!({"e": 1})).await.0,
        204
    );
    assert_eq!(
        server.ask(Method::GET, "config/x", json!(null)).await,
        (200, json!({"e": 1}))
    );
    let (_, me) = server
        .get("/jupyter/api/me?permissions=%7B%22contents%22%3A%5B%22read%22%5D%7D")
        .await;
    assert_eq!(
        (&me["identity"]["username"], &me["permissions"]),
        (&json!("test"), &json!({"contents": ["read"]}))
    );
    let (_, status) = server.get("/jupyter/api/status").await;
    assert_eq!(
        (&status["kernels"], &status["connections"]),
        (&json!(1), &json!(0))
    );
    let (_, specs) = server.get("/jupyter/api/kernelspecs").await;
    assert_eq!(specs["default"], "misbehave");
    let (_, one) = server.get("/jupyter/api/kernelspecs/misbehave").await;
    assert_eq!(one, specs["kernelspecs"]["misbehave"]);
    assert_eq!(one["spec"]["language"], "misbehave");
    let python = &specs["kernelspecs"]["python3"]["resources"]["logo-64x64"];
    let logo = server
        .request(Method::GET, python.as_str().unwrap())
        .send()
        .await
        .unwrap();
    assert_eq!(logo.headers()["content-type"], "image/png");
    assert_eq!(
        server
            .get("/jupyter/kernelspecs/python3/kernel.json")
            .await
            .0,
        404
    );
    assert_eq!(server.get("/jupyter/api").await.0, 200);
}
