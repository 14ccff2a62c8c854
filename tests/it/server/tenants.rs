//! Tenants of one server attack each other: by ids, paths, links, signals, sockets, the environment. Nothing comes of it.

mod code;
mod wires;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::access::operations;
use super::{Server, answer, with_model};
use crate::support::Sponde;

const SECRET: &str = "the-harvest-of-alice-4711";

/// One tenant's way to a server.
struct Tenant<'a> {
    server: &'a Server<'a>,
    key: String,
}

impl Tenant<'_> {
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.server.bare(method, path).bearer_auth(&self.key)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        answer(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    async fn session(&self) -> String {
        let (status, created) = self.post("/api/sessions", &json!({})).await;
        assert_eq!(status, 201, "{created}");
        created["id"].as_str().unwrap().to_owned()
    }

    /// Runs code and returns what its cell printed.
    async fn run(&self, session: &str, code: &str) -> String {
        let session = format!("/api/sessions/{session}");
        let mut events =
            super::Events::of(self.request(Method::GET, &format!("{session}/events?"))).await;
        let command = json!({ "command": "run", "code": code });
        let (status, told) = self.post(&format!("{session}/commands"), &command).await;
        assert_eq!(status, 202, "{told}");
        let seen = events.until(|item| item["event"] == "turn_finished").await;
        let outputs = seen
            .iter()
            .filter_map(|item| item["edit"]["emit"].as_object());
        outputs
            .map(|emit| Value::from(emit.clone()).to_string())
            .collect()
    }
}

fn key(sponde: &Sponde, name: &str, scope: &str) -> String {
    let file = sponde.path("keys.toml").display().to_string();
    let ended = tokio::task::block_in_place(|| {
        sponde.run(&["keys", "add", name, "--scope", scope, "--file", &file])
    });
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("only time"), "{}", ended.stderr);
    ended.stdout.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_attack_each_other_and_nothing_comes_of_it() {
    let (model, sponde) = with_model([]).await;
    let sponde = sponde.with("SERVER_PASSWORD", "swordfish-of-the-server");
    let keys = [("alice", "ask"), ("bob", "run"), ("carol", "read")]
        .map(|(name, scope)| key(&sponde, name, scope));
    let [alice, bob, carol] = keys;
    let file = sponde.path("keys.toml").display().to_string();
    let server = Server::start_without_model(&sponde, &["--keys", &file]);
    let tenant = |key: &str| Tenant {
        server: &server,
        key: key.to_owned(),
    };
    let (alice, bob, carol) = (tenant(&alice), tenant(&bob), tenant(&carol));

    // What there is to be had.
    let of_alice = alice.session().await;
    let told = alice
        .run(&of_alice, &format!("secret = '{SECRET}'\nopen('secret.txt', 'w').write(secret)\nimport os\nos.environ['MINE'] = secret\nprint(secret)"))
        .await;
    assert!(told.contains(SECRET), "{told}");
    assert!(sponde.path("alice/secret.txt").exists());
    let (_, kernel) = alice
        .post("/jupyter/api/kernels", &json!({ "name": "python3" }))
        .await;
    let kernel = kernel["id"].as_str().expect("a kernel").to_owned();

    let of_bob = bob.session().await;
    by_ids(&bob, &[&of_alice, &kernel]).await;
    assert_eq!(alice.get(&format!("/api/sessions/{of_alice}")).await.0, 200);
    by_other_wires(&alice, &bob).await;
    by_paths(&bob, &sponde).await;
    by_code(&bob, &of_bob, &sponde).await;
    by_links(&bob, &of_bob, &sponde).await;
    wires::by_mcp(&alice, &bob).await;
    wires::by_terminal(&alice, &bob).await;
    wires::by_codeapi(&alice, &bob).await;
    wires::by_e2b(&alice, &bob).await;
    wires::by_openai(&alice, &bob).await;
    wires::by_names((&alice, &of_alice), (&bob, &of_bob)).await;
    without_a_model(&bob, &of_bob).await;
    wires::scopes(&bob, &carol).await;
    // A list of models has no body.
    let asked = model
        .requests()
        .iter()
        .filter(|it| !it.body.is_empty())
        .count();
    assert_eq!(asked, 0, "nobody asked a model");
    reading_only(&carol).await;

    // A key is a cookie, of its tenant alone; what nobody has is refused.
    let login = server
        .bare(Method::POST, "/api/login")
        .header("origin", &server.base);
    let login = login
        .json(&json!({ "token": bob.key }))
        .send()
        .await
        .unwrap();
    assert_eq!(login.status(), 204);
    let cookie = login.headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap();
    let list = server
        .bare(Method::GET, "/api/sessions")
        .header("cookie", cookie);
    let (status, told) = answer(list).await;
    assert!(
        status == 200 && told.to_string().contains(&of_bob),
        "{status} {told}"
    );
    let wrong = server
        .bare(Method::GET, "/api/sessions")
        .bearer_auth("sponde-wrong");
    assert_eq!(answer(wrong).await.0, 401);
    a_login_that_does_not_come(&server);
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Whoever holds a connection open without saying who they are is sent away.
fn a_login_that_does_not_come(server: &Server<'_>) {
    use std::io::{Read as _, Write as _};
    let host = server.base.strip_prefix("http://").unwrap();
    let mut slow = std::net::TcpStream::connect(host).unwrap();
    let head =
        "POST /api/login HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 400\r\n";
    write!(
        slow,
        "{head}Host: {host}\r\nOrigin: {}\r\n\r\n{{",
        server.base
    )
    .unwrap();
    let limit = std::time::Duration::from_mins(2);
    slow.set_read_timeout(Some(limit)).unwrap();
    let mut told = String::new();
    tokio::task::block_in_place(|| slow.read_to_string(&mut told)).unwrap();
    assert!(told.starts_with("HTTP/1.1 4"), "{told}");
}

/// Ids, known from elsewhere, in every operation; and what lists without any.
async fn by_ids(bob: &Tenant<'_>, ids: &[&str]) {
    let (_, document) = bob.get("/openapi.json").await;
    for id in ids {
        for (method, path, is_open) in operations(&document, id) {
            if is_open || !path.contains(id) {
                continue;
            }
            let body = json!({ "command": "run", "code": "1" });
            let request = bob.request(method.clone(), &path);
            let request = if method == Method::GET {
                request
            } else {
                request.json(&body)
            };
            let (status, told) = answer(request).await;
            assert!(
                (400..500).contains(&status),
                "{method} {path}: {status} {told}"
            );
            assert!(
                !told.to_string().contains(SECRET),
                "{method} {path}: {told}"
            );
        }
    }
    let (status, told) = bob
        .post("/api/sessions", &json!({ "resume": ids[0] }))
        .await;
    assert_eq!(status, 404, "{told}");
    // And where none is needed.
    for path in [
        "/api/sessions",
        "/jupyter/api/sessions",
        "/jupyter/api/kernels",
        "/jupyter/api/contents",
        "/metrics",
    ] {
        let (status, told) = bob.get(path).await;
        assert_eq!(status, 200, "{path}");
        let told = told.to_string();
        assert!(
            !ids.iter().any(|id| told.contains(id)) && !told.contains("alice"),
            "{path}: {told}"
        );
        assert!(
            !bob.server.get(path).await.1.to_string().contains(ids[0]),
            "{path} of the owner"
        );
    }
}

/// Sandboxes of E2B's wire and containers of OpenAI's.
async fn by_other_wires(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let template = json!({ "templateID": "code-interpreter-v1" });
    let (status, sandbox) = alice.post("/e2b/sandboxes", &template).await;
    assert_eq!(status, 201, "{sandbox}");
    let sandbox = sandbox["sandboxID"].as_str().unwrap();
    let (status, container) = alice.post("/v1/containers", &json!({ "name": "x" })).await;
    assert_eq!(status, 200, "{container}");
    let container = container["id"].as_str().unwrap();
    for path in [
        format!("/e2b/sandboxes/{sandbox}"),
        format!("/v1/containers/{container}"),
        format!("/v1/containers/{container}/files"),
    ] {
        assert_eq!(alice.get(&path).await.0, 200, "{path}");
        let (status, told) = bob.get(&path).await;
        assert_eq!(status, 404, "{path}: {told}");
    }
    for path in ["/e2b/v2/sandboxes", "/e2b/sandboxes", "/v1/containers"] {
        let (_, told) = bob.get(path).await;
        let told = told.to_string();
        assert!(
            !told.contains(sandbox) && !told.contains(container),
            "{told}"
        );
    }
    // Her sandbox by its id alone, with no key, with his, with a token that is not its.
    for (name, value) in [
        ("x-nothing", "x"),
        ("x-api-key", bob.key.as_str()),
        ("x-access-token", "wrong"),
    ] {
        let code = json!({ "code": "open('/home/user/x', 'w')" });
        let request = bob.server.bare(Method::POST, "/e2b/execute").json(&code);
        let request = request
            .header("e2b-sandbox-id", sandbox)
            .header(name, value);
        let (status, told) = answer(request).await;
        assert!(matches!(status, 401 | 502), "{name}: {status} {told}");
    }
    let (status, _) =
        answer(alice.request(Method::DELETE, &format!("/e2b/sandboxes/{sandbox}"))).await;
    assert_eq!(status, 204);
}

async fn by_paths(bob: &Tenant<'_>, sponde: &Sponde) {
    for wanted in [
        json!({ "directory": "../alice" }),
        json!({ "directory": sponde.path("alice") }),
        json!({ "notebook": "../alice/stolen.ipynb" }),
        json!({ "files": ["../alice/secret.txt"] }),
        json!({ "files": [sponde.path("alice/secret.txt")] }),
    ] {
        let (status, told) = bob.post("/api/sessions", &wanted).await;
        assert!((400..500).contains(&status), "{wanted}: {status} {told}");
    }
    assert!(!sponde.path("alice/stolen.ipynb").exists());
}

async fn by_code(bob: &Tenant<'_>, of_bob: &str, sponde: &Sponde) {
    let pid = pid_in(&sponde.path("alice"));
    let home = sponde.path("..").canonicalize().unwrap();
    let port = bob.server.base.rsplit(':').next().unwrap();
    let code = format!(
        "import os, socket, signal, glob\n\
         def attempt(name, act):\n\
         \x20   try: print(name, 'GOT', act())\n\
         \x20   except Exception as error: print(name, type(error).__name__)\n\
         work, home = {work:?}, {home:?}\n\
         attempt('list', lambda: os.listdir(work + '/alice'))\n\
         attempt('read', lambda: open(work + '/alice/secret.txt').read())\n\
         attempt('keys', lambda: open(work + '/keys.toml').read())\n\
         attempt('data', lambda: os.listdir(home + '/data/sponde/tenants/alice'))\n\
         attempt('signal', lambda: os.kill({pid}, signal.SIGKILL))\n\
         attempt('process', lambda: open('/proc/{pid}/environ').read())\n\
         attempt('port', lambda: socket.create_connection(('127.0.0.1', {port}), 2))\n\
         attempt('write', lambda: open(work + '/alice/planted.py', 'w'))\n\
         print('sockets', glob.glob('/tmp/**/*.sock', recursive=True) + glob.glob('/run/user/**/*', recursive=True))\n\
         print('environment', [it for it in os.environ.values() if {secret:?} in it or 'swordfish' in it])\n\
         print('processes', sum(it.isdigit() for it in os.listdir('/proc')) < 20)\n\
         for name, to in [('link.txt', '../alice/secret.txt'), ('dir', work + '/alice'), ('link.ipynb', '../alice/stolen.ipynb')]:\n\
         \x20   os.symlink(to, name)\n",
        work = sponde
            .path("")
            .canonicalize()
            .unwrap()
            .display()
            .to_string(),
        home = home.display().to_string(),
        secret = SECRET,
    );
    let told = bob.run(of_bob, &code).await;
    assert!(!told.contains("GOT") && !told.contains("sponde-"), "{told}");
    for expected in [
        "signal ProcessLookupError",
        "sockets []",
        "environment []",
        "processes True",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let is_there = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::test_kill_process(is_there).expect("alice's kernel lives");
}

/// Links that lead out, followed by the server.
async fn by_links(bob: &Tenant<'_>, of_bob: &str, sponde: &Sponde) {
    for path in ["link.txt", "dir/secret.txt", "dir/other.txt", "link.ipynb"] {
        let files = format!("/api/sessions/{of_bob}/files/{path}");
        for (path, method) in [
            (files, Method::GET),
            (format!("/jupyter/api/contents/{path}"), Method::GET),
            (format!("/jupyter/files/{path}"), Method::GET),
        ] {
            let (status, told) = answer(bob.request(method.clone(), &path).body("planted")).await;
            assert!(
                (400..500).contains(&status),
                "{method} {path}: {status} {told}"
            );
            assert!(!told.to_string().contains(SECRET), "{told}");
        }
    }
    let (status, told) = bob
        .post("/api/sessions", &json!({ "notebook": "link.ipynb" }))
        .await;
    assert!((400..500).contains(&status), "{status} {told}");
    for path in ["link.txt", "dir/secret.txt", "dir/other.txt"] {
        let files = format!("/api/sessions/{of_bob}/files/{path}");
        let (status, told) = answer(bob.request(Method::PUT, &files).body("planted")).await;
        // A file takes the place of a link, and leaves what that led to.
        let is_right = (400..500).contains(&status) || path == "link.txt";
        assert!(is_right, "{path}: {status} {told}");
    }
    let names = std::fs::read_dir(sponde.path("alice")).unwrap();
    let mut names: Vec<String> = names
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["secret.txt"]);
    let secret = std::fs::read_to_string(sponde.path("alice/secret.txt")).unwrap();
    assert_eq!(secret, SECRET);
}

async fn without_a_model(bob: &Tenant<'_>, of_bob: &str) {
    let commands = format!("/api/sessions/{of_bob}/commands");
    let stream = format!("/api/sessions/{of_bob}/events?");
    let mut events = super::Events::of(bob.request(Method::GET, &stream)).await;
    let asked = json!({ "command": "submit", "text": "hello?" });
    assert_eq!(bob.post(&commands, &asked).await.0, 202);
    let seen = events.until(|item| item["event"] == "turn_finished").await;
    let seen = Value::from(seen).to_string();
    assert!(seen.contains("no model"), "{seen}");
    let wanted = json!({ "command": "set_model", "model": "gpt-4o" });
    assert_eq!(bob.post(&commands, &wanted).await.0, 202);
    let seen = events.until(|item| !item["event"].is_null()).await;
    let seen = Value::from(seen).to_string();
    assert!(seen.contains("not for asking a model"), "{seen}");
    let (status, told) = bob
        .post("/api/sessions", &json!({ "model": "gpt-4o" }))
        .await;
    assert!((400..500).contains(&status), "{status} {told}");
    assert!(
        told.to_string().contains("not for asking a model"),
        "{told}"
    );
}

async fn reading_only(carol: &Tenant<'_>) {
    assert_eq!(carol.get("/api/sessions").await.0, 200);
    let (status, told) = carol.post("/api/sessions", &json!({})).await;
    assert_eq!(
        (status, &told["error"]["reason"]),
        (403, &json!("forbidden")),
        "{told}"
    );
    let upgrade = carol
        .request(Method::GET, "/jupyter/api/kernels/x/channels")
        .header("connection", "upgrade")
        .header("upgrade", "websocket");
    assert_eq!(answer(upgrade).await.0, 403);
}

/// The process of a kernel that works in `directory`.
fn pid_in(directory: &std::path::Path) -> i32 {
    let directory = directory.canonicalize().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd"));
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        cwd.is_ok_and(|cwd| cwd == directory) && line.contains("kernel")
    })
    .expect("alice's kernel")
}

#[test]
fn tenants_that_could_not_be_kept_apart_get_no_server() {
    let sponde = Sponde::new();
    let file = sponde.path("keys.toml").display().to_string();
    for name in ["alice", "bob"] {
        assert_eq!(
            sponde.run(&["keys", "add", name, "--file", &file]).code,
            Some(0)
        );
    }
    let listed = sponde.run(&["keys", "list", "--file", &file]);
    assert_eq!(listed.stdout, "alice\task\nbob\task\n");
    let refused = |more: &[&str], part: &str| {
        let mut arguments = vec!["serve", "--keys", &file];
        arguments.extend(more);
        let ended = sponde.run(&arguments);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    };
    refused(
        &["--sandbox", "full"],
        "lets code of one read all of the others",
    );
    refused(
        &["--gateway", "http://127.0.0.1:1"],
        "starts its own kernels",
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let nested = text.replace("[bob]", "[bob]\ndirectory = \"alice/bob\"");
    std::fs::write(&file, nested).unwrap();
    refused(&[], "are not apart");
    std::fs::write(
        &file,
        text.replace("[bob]", "[bob]\ndatabases = [\"sales\"]"),
    )
    .unwrap();
    refused(&[], "config.toml has none of that name");
}
