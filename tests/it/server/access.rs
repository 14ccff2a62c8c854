//! Who may come in, and that nothing leads out.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use reqwest::Method;
use serde_json::{Value, json};

use super::{Server, answer, with_model};

/// Every operation of the document, with names in its path that fit.
pub(super) fn operations(document: &Value, session: &str) -> Vec<(Method, String, bool)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let path = path
            .replace("{id}", session)
            .replace("{file}", "notebook.py")
            .replace("{n}", "0")
            .replace("{mime}", "text%2Fplain");
        let path: String = path
            .split('/')
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        for (method, operation) in item.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let is_open = operation["security"] == json!([]);
            all.push((method, path.clone(), is_open));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_wants_the_token_our_host_and_our_origin() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let id = session.rsplit('/').next().unwrap();
    let (status, document) = server.get("/openapi.json").await;
    assert_eq!(status, 200);
    let operations = operations(&document, id);
    assert!(operations.len() >= 30, "{}", operations.len());
    let open: Vec<&str> = operations
        .iter()
        .filter_map(|(_, path, is_open)| is_open.then_some(path.as_str()))
        .collect();
    assert_eq!(
        open,
        ["/", "/assets/x", "/health", "/api/login", "/out/x/x/0"]
    );
    for (method, path, is_open) in &operations {
        let bare = || server.bare(method.clone(), path);
        let (status, told) = answer(bare()).await;
        if *is_open {
            assert_ne!(status, 401, "{method} {path}");
        } else {
            assert_eq!(status, 401, "{method} {path}: {told}");
        }
        // With the token too: a browser would send the cookie.
        let own = server.base.strip_prefix("http://").unwrap();
        for (header, value) in [
            ("host", "evil.example".to_owned()),
            ("host", "localhost.evil.example".to_owned()),
            ("host", "10.9.8.7:80".to_owned()),
            ("host", "3000-i0123456789abcdef.e2b.app".to_owned()),
            ("host", String::new()),
            ("origin", "http://evil.example".to_owned()),
            ("origin", "null".to_owned()),
            ("origin", "http://127.0.0.1:1".to_owned()),
            ("origin", format!("http://{own}.evil.example")),
            ("origin", format!("file://{own}")),
        ] {
            let request = server.request(method.clone(), path).header(header, &value);
            let (status, told) = answer(request).await;
            // No host at all is not HTTP.
            let expected: &[u16] = match (value.as_str(), path.as_str()) {
                ("", _) => &[400, 403],
                // Frames of outputs, which have no origin, get the libraries that draw charts.
                ("null", "/assets/x") => &[404],
                // The error says that ports of sandboxes are not there (`programs::e2b_missing`).
                (host, _) if host.ends_with(".e2b.app") => &[501],
                _ => &[403],
            };
            assert!(
                expected.contains(&status),
                "{method} {path} {header}: {value}: {status} {told}"
            );
        }
        // What is known of its routes is known of its methods.
        if *method == Method::GET && path != "/out/x/x/0" {
            let (status, _) = answer(server.request(Method::OPTIONS, path)).await;
            assert_eq!(status, 405, "{path}");
        }
    }
    let request = server.request(Method::GET, "/api/sessions");
    let (status, _) = answer(request.header("origin", &server.base)).await;
    assert_eq!(status, 200, "its own page");
    let (status, told) = server.get("/api/none").await;
    assert_eq!(
        (status, &told["error"]["reason"]),
        (404, &json!("not_found"))
    );
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_exchanged_for_a_cookie_and_is_in_no_log() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave", "-vvvv"]);
    let login = |token: &str| {
        let request = server.bare(Method::POST, "/api/login");
        request.json(&json!({ "token": token }))
    };
    let good = login(&server.token).send().await.unwrap();
    assert_eq!(good.status(), 204);
    let cookie = good.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/") && !cookie.contains(&server.token),
        "{cookie}"
    );
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let with = |method, path: &str| server.bare(method, path).header("cookie", &cookie);
    assert_eq!(answer(with(Method::GET, "/api/sessions")).await.0, 200);
    // A page of somebody else's cannot do more than ask.
    let create = || with(Method::POST, "/api/sessions").json(&json!({}));
    assert_eq!(answer(create()).await.0, 403, "without an origin");
    let (status, created) = answer(create().header("origin", &server.base)).await;
    assert_eq!(status, 201, "{created}");
    let form = with(Method::POST, "/api/sessions").header("origin", &server.base);
    let form = form.header("content-type", "text/plain").body("{}");
    assert_eq!(answer(form).await.0, 415);
    // Wrong ones are counted, and in the end not looked at.
    for number in 0..10 {
        let (status, _) = answer(login(&format!("wrong {number}"))).await;
        assert_eq!(status, 401);
    }
    let many = login("wrong").send().await.unwrap();
    assert_eq!(
        (many.status().as_u16(), &many.headers()["retry-after"]),
        (429, &"60".parse().unwrap())
    );
    let wrong = server
        .bare(Method::GET, "/api/sessions")
        .bearer_auth("wrong");
    assert_eq!(answer(wrong).await.0, 429);
    // Nobody can lock the token's owner out.
    assert_eq!(server.get("/api/sessions").await.0, 200);
    let (_, metrics) = server.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(
        metrics.contains("\nsponde_wrong_tokens_total 12\n")
            && metrics.contains("\nsponde_sessions 1\n"),
        "{metrics}"
    );
    let (token, cookie) = (
        server.token.clone(),
        cookie.split('=').nth(1).unwrap().to_owned(),
    );
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("a request had a wrong token"),
        "{}",
        ended.stderr
    );
    for secret in [&token, &cookie] {
        assert!(!ended.stderr.contains(secret.as_str()), "{}", ended.stderr);
    }
    for entry in std::fs::read_dir(sponde.sessions())
        .into_iter()
        .flatten()
        .flatten()
    {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains(&token));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_widen_what_the_server_was_started_with() {
    let (_model, sponde) = with_model([]).await;
    std::fs::create_dir(sponde.path("sub")).unwrap();
    std::os::unix::fs::symlink("/tmp", sponde.path("out")).unwrap();
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    for (body, status) in [
        (json!({ "approval": "never" }), 403),
        (json!({ "approval": "on-risk" }), 403),
        (json!({ "directory": ".." }), 403),
        (json!({ "directory": "/" }), 403),
        (json!({ "directory": "out" }), 403),
        (json!({ "directory": "none" }), 400),
        (json!({ "notebook": "../up.ipynb" }), 403),
        (json!({ "notebook": "out/x.ipynb" }), 403),
        (json!({ "files": ["/etc/passwd"] }), 403),
        (json!({ "kernel": "/usr/bin/python3" }), 403),
        (json!({ "kernel": "./venv" }), 403),
        (json!({ "kernel": "none" }), 503),
        (json!({ "resume": "../../etc" }), 404),
        (json!({ "resume": "20200101-none" }), 404),
        (json!({ "sandbox": "full" }), 422),
    ] {
        let (told, answer) = server.post("/api/sessions", &body).await;
        assert_eq!(told, status, "{body}: {answer}");
    }
    let session = server
        .session(json!({ "directory": "sub", "approval": "always" }))
        .await;
    let never = json!({ "command": "set_approval", "approval": "never" });
    assert_eq!(server.command(&session, &never).await.0, 403);
    let (_, listed) = server.get("/api/sessions").await;
    let live = &listed["live"][0];
    assert_eq!(live["directory"], sponde.path("sub").display().to_string());
    assert_eq!(
        (&live["busy"], &live["pending"], &live["clients"]),
        (&json!(false), &json!(false), &json!(0))
    );
    let too_large = json!({ "command": "submit", "text": "x".repeat(9 << 20) });
    assert_eq!(server.command(&session, &too_large).await.0, 413);
    server.end();
}

/// The status of an answer, and what comes of it at once: a stream has no end.
async fn begun(request: reqwest::RequestBuilder) -> (u16, String) {
    let mut response = request.send().await.unwrap();
    let mut bytes = Vec::new();
    let soon = std::time::Duration::from_secs(1);
    while let Ok(Ok(Some(more))) = tokio::time::timeout(soon, response.chunk()).await {
        bytes.extend(more);
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (response.status().as_u16(), text)
}

/// With the token: no name in any path leads out of the server's directory, however it is written, nor through a link.
#[tokio::test(flavor = "multi_thread")]
async fn no_name_in_a_path_leads_out() {
    let (_model, sponde) = with_model([]).await;
    let secret = "the-secret-of-another-directory";
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), secret).unwrap();
    std::os::unix::fs::symlink(outside.path(), sponde.path("out")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), sponde.path("link")).unwrap();
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    let id = session.rsplit('/').next().unwrap();
    let (_, document) = server.get("/openapi.json").await;
    let passwords = std::fs::read_to_string("/etc/passwd").unwrap();
    let first = passwords.lines().next().unwrap();
    let (mut asked, mut wrong) = (0, Vec::new());
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.contains('{') {
            continue;
        }
        let names = [
            "..%2f..%2fetc%2fpasswd",
            "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "%2fetc%2fpasswd",
            "out%2fsecret",
            "link",
            "..",
        ];
        for name in names {
            // Every name, and each behind a session that is there.
            for keeps_session in [false, true] {
                let filled: Vec<&str> = path
                    .split('/')
                    .map(|part| match part {
                        "{id}" if keeps_session => id,
                        part if part.starts_with('{') => name,
                        part => part,
                    })
                    .collect();
                let filled = filled.join("/");
                for method in item.as_object().unwrap().keys() {
                    let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
                    // Only the session that is there would be ended by this.
                    if method == Method::DELETE && filled == session {
                        continue;
                    }
                    // E2B's clients send the token so.
                    let request = server.request(method.clone(), &filled);
                    let request = request.header("x-api-key", &server.token);
                    let request = match method {
                        Method::POST | Method::PUT | Method::PATCH => request.json(&json!({})),
                        _ => request,
                    };
                    let (status, told) = begun(request).await;
                    asked += 1;
                    assert!(
                        !told.contains(secret) && !told.contains(first),
                        "{method} {filled}: {status} {told}"
                    );
                    let is_refused =
                        matches!(status, 400 | 401 | 403 | 404 | 405 | 409 | 410 | 415 | 422);
                    // A link itself is replaced or removed; the client's library takes `..` out of a path, which leads to other
                    // routes; what has only the session's name in it is the session's. A leading slash means the directory; settings
                    // are kept in memory; and E2B's routes that are not there are 501.
                    let is_harmless = matches!(name, "link" | "..")
                        || !filled.contains(name)
                        || name.starts_with("%2f") && filled.contains("/files/")
                        || name.starts_with("%2f") && filled.contains("/contents/")
                        || filled.starts_with("/jupyter/api/config/")
                        || filled.starts_with("/e2b/") && status == 501;
                    if !is_refused && !is_harmless {
                        wrong.push(format!("{method} {filled}: {status} {told}"));
                    }
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(asked > 500, "{asked}");
    let kept = std::fs::read_to_string(outside.path().join("secret")).unwrap();
    assert_eq!(kept, secret);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string("/etc/passwd").unwrap(), passwords);
    server.end();
}

/// A server beyond this machine says so, is reached under its address, and wants the token there too.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_all_addresses_wants_the_token() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave", "--listen", "0.0.0.0:0"]);
    assert!(
        server.base.starts_with("http://127.0.0.1:"),
        "{}",
        server.base
    );
    let port = server.base.rsplit(':').next().unwrap();
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: it says under which address this machine is reached.
    let own = socket
        .connect("192.0.2.1:9")
        .and_then(|()| socket.local_addr());
    let own = own.map_or_else(|_| "127.0.0.1".to_owned(), |it| it.ip().to_string());
    let url = format!("http://{own}:{port}/api/sessions");
    let bare = || server.client.get(&url);
    assert_eq!(answer(bare()).await.0, 401);
    assert_eq!(answer(bare().bearer_auth("wrong")).await.0, 401);
    assert_eq!(answer(bare().bearer_auth(&server.token)).await.0, 200);
    let named = bare()
        .bearer_auth(&server.token)
        .header("host", format!("evil.example:{port}"));
    assert_eq!(answer(named).await.0, 403);
    let ended = server.end();
    assert!(
        ended
            .stderr
            .contains("other machines can reach this server"),
        "{}",
        ended.stderr
    );
}

/// `--open` gives the browser a file that only this person can read, and that leads to the page with the token.
#[tokio::test(flavor = "multi_thread")]
async fn the_browser_is_opened_by_a_file() {
    let (_model, sponde) = with_model([]).await;
    let opener = sponde.write(
        "xdg-open",
        "#!/bin/sh\nstat -c %a \"$1\" > opened.tmp\ncat \"$1\" >> opened.tmp\nmv opened.tmp opened\n",
    );
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}",
        sponde.path("").display(),
        std::env::var("PATH").unwrap()
    );
    let sponde = sponde.with("PATH", &path);
    let server = Server::start(&sponde, &["-k", "misbehave", "--open"]);
    let file = sponde.path("opened");
    tokio::task::block_in_place(|| crate::support::eventually(|| file.exists()));
    let record = sponde.read("opened");
    let (mode, page) = record.split_once('\n').unwrap();
    assert_eq!(mode, "600");
    let url = format!("{}/#token={}", server.base, server.token);
    assert!(page.contains(&url), "{page}");
    server.end();
}

/// Two servers over one directory of sessions: each knows what the other has open, and what it left when it was killed.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_the_sessions_directory() {
    let (_model, sponde) = with_model([]).await;
    let one = Server::start(&sponde, &["-k", "misbehave"]);
    let two = Server::start(&sponde, &["-k", "misbehave"]);
    let session = one.session(json!({})).await;
    one.run(&session, "echo of the first").await;
    let id = session.rsplit('/').next().unwrap().to_owned();
    let (_, listed) = two.get("/api/sessions").await;
    assert_eq!(
        (
            &listed["live"],
            &listed["stored"][0]["id"],
            &listed["stored"][0]["open"]
        ),
        (&json!([]), &json!(id), &json!(true))
    );
    let resume = json!({ "resume": id });
    let (status, told) = two.post("/api/sessions", &resume).await;
    assert_eq!(
        (status, &told["error"]["reason"]),
        (409, &json!("taken")),
        "{told}"
    );
    one.program.signal(rustix::process::Signal::KILL);
    let is_free = || async { two.get("/api/sessions").await.1["stored"][0]["open"] == false };
    while !is_free().await {
        tokio::task::yield_now().await;
    }
    let (status, told) = two.post("/api/sessions", &resume).await;
    assert_eq!(status, 201, "{told}");
    let (_, notebook) = two.get(&format!("{session}/notebook.ipynb")).await;
    assert!(
        notebook.to_string().contains("echo of the first"),
        "{notebook}"
    );
    // The token's file of the one that was killed goes with the next start.
    two.kill();
}

/// Whoever followed a session that ended is told so, and by whom, until somebody resumes it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ended_is_gone_until_it_is_resumed() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    server.run(&session, "echo kept").await;
    let request = server.request(Method::DELETE, &format!("{session}?as=desk"));
    assert_eq!(answer(request).await.0, 204);
    for path in ["", "/events", "/variables", "/notebook.ipynb"] {
        let (status, told) = server.get(&format!("{session}{path}")).await;
        assert_eq!(
            (status, told),
            (
                410,
                json!({"error": {
                    "message": "desk (web) ended the session",
                    "hint": "`POST /api/sessions` with `resume` continues it",
                    "reason": "ended",
                    "by": "desk (web)",
                }})
            )
        );
    }
    assert_eq!(server.get("/api/sessions/20200101-none").await.0, 404);
    let id = session.rsplit('/').next().unwrap();
    let resume = json!({ "resume": id });
    assert_eq!(server.post("/api/sessions", &resume).await.0, 201);
    assert_eq!(server.get(&session).await.0, 200);
    // One that a program ends with a command is gone too.
    let (status, _) = server
        .command(&session, &json!({"command": "shutdown"}))
        .await;
    assert_eq!(status, 202);
    while server.get(&session).await.0 == 200 {
        tokio::task::yield_now().await;
    }
    let (status, told) = server.get(&session).await;
    assert_eq!(
        (status, &told["error"]["message"]),
        (410, &json!("the session has ended"))
    );
    server.end();
}

/// A session works where it did: one of elsewhere would widen what the server's clients reach.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_directory_is_not_resumed() {
    let (_model, sponde) = with_model([]).await;
    std::fs::create_dir(sponde.path("sub")).unwrap();
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    let session = server.session(json!({})).await;
    server.run(&session, "echo elsewhere").await;
    let id = session.rsplit('/').next().unwrap().to_owned();
    server.end();
    let server = Server::start(&sponde, &["-k", "misbehave", "--root", "sub"]);
    let (_, listed) = server.get("/api/sessions").await;
    assert_eq!(listed, json!({"live": [], "stored": []}));
    let resume = json!({ "resume": id });
    assert_eq!(server.post("/api/sessions", &resume).await.0, 404);
    server.end();
    let server = Server::start(&sponde, &["-k", "misbehave"]);
    assert_eq!(server.post("/api/sessions", &resume).await.0, 201);
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_unix_socket_is_its_persons_and_wants_the_token_too() {
    let (_model, sponde) = with_model([]).await;
    let path = sponde.path("serve.sock");
    // One that was left by a run that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listen = format!("unix:{}", path.display());
    let secret = "a-token-of-my-own-that-is-long-enough";
    let file = sponde.write("token", secret);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut all = vec!["serve", "--model", "gpt-4o", "--sandbox", "full"];
    all.extend(["--listen", &listen, "--token-file", "token"]);
    let mut program = sponde.start(&all);
    let said = tokio::task::block_in_place(|| program.line());
    assert_eq!(said.trim(), listen);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let ask = |extra: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let head = format!(
            "GET /api/sessions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{extra}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split(' ').nth(1).unwrap().to_owned()
    };
    let statuses = tokio::task::block_in_place(|| {
        let mut huge = String::from("x-huge: ");
        huge.push_str(&"x".repeat(100 << 10));
        huge.push_str("\r\n");
        let many: Vec<String> = (0..100)
            .map(|number| {
                format!(
                    "x-{number}: 1
"
                )
            })
            .collect();
        let many = many.concat();
        [
            ask(""),
            ask(&format!("authorization: Bearer {secret}\r\n")),
            ask(&huge),
            ask(&many),
        ]
    });
    assert_eq!(statuses, ["401", "200", "431", "431"]);
    program.interrupt();
    let ended = tokio::task::block_in_place(|| program.end());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!path.exists() && file.exists());
}
