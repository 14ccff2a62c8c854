//! The same over the wires of other programs: MCP, Open WebUI's, LibreChat's, E2B's, OpenAI's.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::super::answer;
use super::{SECRET, Tenant};

/// What `tenant` gets of MCP, as text; `client` is what a handshake gave.
pub(super) async fn mcp(
    tenant: &Tenant<'_>,
    client: Option<&str>,
    method: &str,
    params: Value,
) -> (u16, Option<String>, String) {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let request = tenant
        .request(Method::POST, "/mcp")
        .header("accept", "application/json, text/event-stream");
    let request = match client {
        Some(client) => request
            .header("mcp-session-id", client)
            .header("mcp-protocol-version", "2025-06-18"),
        None => request,
    };
    let response = request.json(&message).send().await.unwrap();
    let given = response.headers().get("mcp-session-id").cloned();
    let given = given.map(|it| it.to_str().unwrap().to_owned());
    (
        response.status().as_u16(),
        given,
        response.text().await.unwrap(),
    )
}

pub(super) async fn shake_hands(tenant: &Tenant<'_>) -> (u16, Option<String>) {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    });
    let (status, client, _) = mcp(tenant, None, "initialize", params).await;
    (status, client)
}

pub(super) async fn run_code(tenant: &Tenant<'_>, client: &str, code: &str) -> String {
    let params = json!({ "name": "run_code", "arguments": { "code": code } });
    mcp(tenant, Some(client), "tools/call", params).await.2
}

/// Both use the session that has no name.
pub(super) async fn by_mcp(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let of_alice = shake_hands(alice).await.1.expect("a client");
    let of_bob = shake_hands(bob).await.1.expect("a client");
    let told = run_code(alice, &of_alice, &format!("x = '{SECRET}'; print(x)")).await;
    assert!(told.contains(SECRET), "{told}");
    let told = run_code(bob, &of_bob, "print('x' in globals())").await;
    assert!(told.contains("False"), "{told}");
    let list = |tenant, client| mcp(tenant, Some(client), "resources/list", json!({}));
    let (_, _, listed) = list(alice, &of_alice).await;
    let uris = listed.split('"').filter(|it| it.starts_with("sponde://"));
    let uris: Vec<&str> = uris.collect();
    assert!(!uris.is_empty(), "{listed}");
    for uri in uris {
        let read = |tenant, client| {
            mcp(
                tenant,
                Some(client),
                "resources/read",
                json!({ "uri": uri }),
            )
        };
        let (_, _, told) = read(bob, &of_bob).await;
        assert!(!told.contains(SECRET), "{uri}: {told}");
    }
    // What she got at her handshake, with his key.
    let (status, _, told) = list(bob, &of_alice).await;
    assert!(
        status == 404 && !told.contains("sponde://"),
        "{status} {told}"
    );
}

/// The names of users and chats are what a client says: behind another key they are others.
pub(super) async fn by_terminal(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let run = async |tenant: &Tenant<'_>, code: &str| {
        let request = tenant
            .request(Method::POST, "/terminal/run_code")
            .header("x-user-id", "ada")
            .header("x-session-id", "chat-1");
        answer(request.json(&json!({ "code": code }))).await.1
    };
    let told = run(alice, &format!("x = '{SECRET}'\nprint(x)")).await;
    assert!(told.to_string().contains(SECRET), "{told}");
    let told = run(bob, "x").await;
    assert_eq!(told["raised"]["name"], "NameError", "{told}");
    for path in [
        "/terminal/files/read?path=secret.txt",
        "/terminal/files/view?path=../alice/secret.txt",
    ] {
        let (status, told) = bob.get(path).await;
        assert!((400..500).contains(&status), "{path}: {status} {told}");
    }
}

/// Files of LibreChat's runs.
pub(super) async fn by_codeapi(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let code = format!("open('/mnt/data/harvest.txt', 'w').write('{SECRET}')");
    let exec = json!({ "lang": "py", "code": code });
    let (status, ran) = alice.post("/codeapi/exec", &exec).await;
    assert_eq!(status, 200, "{ran}");
    let (session, file) = (&ran["session_id"], &ran["files"][0]["id"]);
    let (session, file) = (session.as_str().unwrap(), file.as_str().unwrap());
    let (status, told) = alice
        .get(&format!("/codeapi/download/{session}/{file}"))
        .await;
    assert_eq!((status, told), (200, Value::from(SECRET)));
    for path in [
        format!("/codeapi/download/{session}/{file}"),
        format!("/codeapi/files/{session}"),
        format!("/codeapi/sessions/{session}/objects/{file}"),
    ] {
        let (status, told) = bob.get(&path).await;
        assert!(
            status == 404 || told == json!([]),
            "{path}: {status} {told}"
        );
    }
    let brought = json!({
        "lang": "py", "code": "import os; print(os.listdir('/mnt/data'))",
        "files": [{ "id": file, "storage_session_id": session, "name": "harvest.txt" }],
    });
    let (_, told) = bob.post("/codeapi/exec", &brought).await;
    assert_eq!(told["stdout"], "[]\n", "{told}");
}

/// Snapshots and signed addresses of E2B's sandboxes.
pub(super) async fn by_e2b(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let make = async |tenant: &Tenant<'_>| {
        let (status, made) = tenant
            .post("/e2b/sandboxes", &json!({ "templateID": "base" }))
            .await;
        assert_eq!(status, 201, "{made}");
        let text = |key: &str| made[key].as_str().unwrap().to_owned();
        (text("sandboxID"), text("envdAccessToken"))
    };
    let (of_alice, token) = make(alice).await;
    let (of_bob, his) = make(bob).await;
    let snapshots = format!("/e2b/sandboxes/{of_alice}/snapshots");
    let (status, told) = alice.post(&snapshots, &json!({ "name": "harvest" })).await;
    assert!((200..300).contains(&status), "{status} {told}");
    let (_, told) = alice.get("/e2b/snapshots").await;
    assert!(told.to_string().contains("harvest:default"), "{told}");
    let (_, told) = bob.get("/e2b/snapshots").await;
    assert!(!told.to_string().contains("harvest"), "{told}");
    let from = json!({ "templateID": "harvest:default" });
    let attempts = [
        bob.request(Method::POST, "/e2b/sandboxes").json(&from),
        bob.request(Method::DELETE, "/e2b/templates/harvest:default"),
        bob.request(Method::POST, &snapshots).json(&json!({})),
        bob.request(Method::POST, &format!("/e2b/sandboxes/{of_alice}/fork"))
            .json(&json!({})),
        bob.request(Method::POST, &format!("/e2b/sandboxes/{of_alice}/pause")),
    ];
    for attempt in attempts {
        let (status, told) = answer(attempt).await;
        assert!((400..500).contains(&status), "{status} {told}");
    }
    // A signature opens the file that it was made for, of the sandbox whose token made it.
    let signed = |path: &str, of: &str, token: &str| {
        let digest = Sha256::digest(format!("{of}:read:user:{token}"));
        let signature = STANDARD_NO_PAD
            .encode(digest)
            .replace('+', "%2B")
            .replace('/', "%2F");
        format!("/files?path={path}&username=user&signature=v1_{signature}")
    };
    let write = alice
        .server
        .bare(Method::POST, "/e2b/files?path=harvest.txt&username=user")
        .header("e2b-sandbox-id", &of_alice)
        .header("x-access-token", &token)
        .header("content-type", "application/octet-stream")
        .body(SECRET);
    assert_eq!(answer(write).await.0, 200);
    let get = async |url: String, named: Option<&str>| {
        let request = bob.server.bare(Method::GET, &url);
        answer(match named {
            Some(id) => request.header("e2b-sandbox-id", id),
            None => request,
        })
        .await
    };
    let right = get(signed("harvest.txt", "harvest.txt", &token), None).await;
    assert_eq!(right, (200, Value::from(SECRET)));
    for (url, named) in [
        (
            signed("harvest.txt", "harvest.txt", &his),
            Some(of_alice.as_str()),
        ),
        (signed("harvest.txt", "other.txt", &token), None),
        (
            signed("harvest.txt", "harvest.txt", &token),
            Some(of_bob.as_str()),
        ),
        (
            signed("harvest.txt", "harvest.txt", ""),
            Some(of_alice.as_str()),
        ),
    ] {
        let (status, told) = get(url, named).await;
        assert!(
            (400..=502).contains(&status) && !told.to_string().contains(SECRET),
            "{status} {told}"
        );
    }
    for (tenant, id) in [(alice, of_alice), (bob, of_bob)] {
        let ended = tenant.request(Method::DELETE, &format!("/e2b/sandboxes/{id}"));
        assert_eq!(answer(ended).await.0, 204);
    }
}

/// Files of `/v1/files`.
pub(super) async fn by_openai(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let form = format!(
        "--b\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n\
         --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"harvest.txt\"\r\n\r\n{SECRET}\r\n--b--\r\n"
    );
    let upload = alice
        .request(Method::POST, "/v1/files")
        .header("content-type", "multipart/form-data; boundary=b")
        .body(form);
    let (status, file) = answer(upload).await;
    assert_eq!(status, 200, "{file}");
    let id = file["id"].as_str().unwrap();
    assert_eq!(
        alice.get(&format!("/v1/files/{id}/content")).await.1,
        SECRET
    );
    for path in [format!("/v1/files/{id}"), format!("/v1/files/{id}/content")] {
        assert_eq!(bob.get(&path).await.0, 404, "{path}");
    }
    assert!(!bob.get("/v1/files").await.1.to_string().contains(id));
    let wanted = json!({ "name": "x", "file_ids": [id] });
    assert_eq!(bob.post("/v1/containers", &wanted).await.0, 404);
}

/// Sockets without a file, and memory that is shared by a name.
pub(super) async fn by_names(
    (alice, of_alice): (&Tenant<'_>, &str),
    (bob, of_bob): (&Tenant<'_>, &str),
) {
    let offer = format!(
        "import os, socket\nfor kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n    s = socket.socket(socket.AF_UNIX, kind)\n    \
         s.bind('\\0harvest%d' % kind)\n    if kind == socket.SOCK_STREAM: s.listen()\n    globals()['s%d' % kind] = s\n\
         open('/dev/shm/harvest', 'w').write('{SECRET}')\nprint('offered')"
    );
    let told = alice.run(of_alice, &offer).await;
    assert!(told.contains("offered"), "{told}");
    let take = "import os, socket\n\
         def attempt(name, act):\n    try: print(name, 'GOT', act())\n    except Exception as error: print(name, type(error).__name__)\n\
         attempt('stream', lambda: socket.socket(socket.AF_UNIX).connect('\\0harvest1'))\n\
         attempt('datagram', lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'x', '\\0harvest2'))\n\
         attempt('shared', lambda: open('/dev/shm/harvest').read())\n\
         print('there', [it for it in os.listdir('/dev/shm') if 'harvest' in it], 'harvest' in open('/proc/net/unix').read())";
    let told = bob.run(of_bob, take).await;
    for expected in [
        "stream ConnectionRefusedError",
        "datagram ConnectionRefusedError",
        "shared FileNotFoundError",
        "there [] False",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

/// What a key is for holds on every wire.
pub(super) async fn scopes(runs: &Tenant<'_>, reads: &Tenant<'_>) {
    for (path, body) in [
        (
            "/mcp",
            json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }),
        ),
        ("/e2b/sandboxes", json!({ "templateID": "base" })),
        ("/v1/containers", json!({ "name": "x" })),
        (
            "/v1/responses",
            json!({ "model": "gpt-4o", "input": "hello?" }),
        ),
        ("/codeapi/exec", json!({ "lang": "py", "code": "1" })),
        ("/terminal/run_code", json!({ "code": "1" })),
        ("/terminal/notebooks", json!({ "path": "n.ipynb" })),
    ] {
        assert_eq!(reads.post(path, &body).await.0, 403, "{path}");
    }
    for path in [
        "/e2b/sandboxes",
        "/v1/containers",
        "/v1/files",
        "/terminal/files/list",
    ] {
        assert_eq!(reads.get(path).await.0, 200, "{path}");
    }
    // Who may run code and not ask: the answer says why there is none. The caller counts what a model was asked.
    let asked = json!({ "model": "gpt-4o", "input": "hello?" });
    let (_, told) = runs.post("/v1/responses", &asked).await;
    let words = told["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("there is no model to ask"), "{told}");
    let chat = json!({ "model": "gpt-4o", "messages": [{ "role": "user", "content": "hello?" }] });
    let (_, told) = runs.post("/v1/chat/completions", &chat).await;
    assert!(
        told.to_string().contains("there is no model to ask"),
        "{told}"
    );
    let client = shake_hands(runs).await.1.expect("a client");
    let params = json!({ "name": "ask", "arguments": { "question": "hello?" } });
    let (_, _, told) = mcp(runs, Some(&client), "tools/call", params).await;
    assert!(
        told.contains("\"isError\":true") || told.contains("\"error\""),
        "{told}"
    );
}
