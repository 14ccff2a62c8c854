//! Code of one tenant, run over each wire, attacks what another tenant has over each wire: its files, processes, sockets and
//! environment. What the server itself opens by a path or an id is attacked as well.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};

use super::super::{Server, answer};
use super::wires::{mcp, run_code, shake_hands};
use super::{SECRET, Tenant, key};
use crate::model_server::{Answer, ModelServer};
use crate::support::Sponde;

/// How a tenant has code run.
#[derive(Debug, Clone, Copy)]
enum Wire {
    Session,
    E2b,
    Mcp,
    Jupyter,
    Terminal,
    CodeApi,
    OpenAi,
}

const WIRES: [Wire; 7] = [
    Wire::Session,
    Wire::E2b,
    Wire::Mcp,
    Wire::Jupyter,
    Wire::Terminal,
    Wire::CodeApi,
    Wire::OpenAi,
];

/// What the model answers with: the code of the wire without code of its own.
type Script = Arc<Mutex<String>>;

impl Wire {
    /// Runs code in a new kernel and returns all that the server says of it.
    async fn run(self, tenant: &Tenant<'_>, script: &Script, code: &str) -> String {
        match self {
            Self::Session => {
                let session = tenant.session().await;
                tenant.run(&session, code).await
            }
            Self::E2b => {
                let (id, token) = sandbox(tenant).await;
                let run = tenant.server.bare(Method::POST, "/e2b/execute");
                let run = run
                    .header("e2b-sandbox-id", id)
                    .header("x-access-token", token);
                answer(run.json(&json!({ "code": code })))
                    .await
                    .1
                    .to_string()
            }
            Self::Mcp => {
                let client = shake_hands(tenant).await.1.expect("a client");
                run_code(tenant, &client, code).await
            }
            Self::Jupyter => {
                let (_, kernel) = tenant.post("/jupyter/api/kernels", &json!({})).await;
                let kernel = kernel["id"].as_str().expect("a kernel");
                let server = tenant.server;
                server.said_by_kernel(&tenant.key, kernel, code).await
            }
            Self::Terminal => {
                let (_, told) = tenant
                    .post("/terminal/run_code", &json!({ "code": code }))
                    .await;
                told.to_string()
            }
            Self::CodeApi => {
                let exec = json!({ "lang": "py", "code": code });
                tenant.post("/codeapi/exec", &exec).await.1.to_string()
            }
            Self::OpenAi => {
                code.clone_into(&mut script.lock().unwrap());
                let asked = json!({
                    "model": "sponde", "input": "go", "include": ["code_interpreter_call.outputs"],
                    "tools": [{ "type": "code_interpreter", "container": { "type": "auto" } }],
                });
                tenant.post("/v1/responses", &asked).await.1.to_string()
            }
        }
    }
}

/// The id and the token of a new sandbox.
async fn sandbox(tenant: &Tenant<'_>) -> (String, String) {
    let (status, made) = tenant.post("/e2b/sandboxes", &json!({})).await;
    assert_eq!(status, 201, "{made}");
    let text = |key: &str| made[key].as_str().unwrap().to_owned();
    (text("sandboxID"), text("envdAccessToken"))
}

/// Code that leaves something to be had: a file, a variable of the environment, sockets of all kinds. The words are not in the
/// code as they are printed, because some wires say the code again.
fn leave(wire: Wire) -> String {
    let secret: String = SECRET.chars().rev().collect();
    format!(
        "import os, socket\n\
         secret = '{secret}'[::-1]\n\
         open('harvest-{wire:?}.txt', 'w').write(secret)\n\
         os.environ['MINE'] = secret\n\
         file, named, port = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()\n\
         file.bind('harvest-{wire:?}.sock'); file.listen()\n\
         named.bind('\\0harvest-{wire:?}'); named.listen()\n\
         port.bind(('127.0.0.1', {port})); port.listen()\n\
         print('le' + 'ft')",
        port = 45_000 + wire as u16,
    )
}

/// Code that goes after all of it, and prints `GOT` if it gets something.
fn attack(paths: &[PathBuf], pids: &[i32], server: u16) -> String {
    let paths: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
    let names: Vec<String> = WIRES.iter().map(|it| format!("harvest-{it:?}")).collect();
    let secret: String = SECRET.chars().rev().collect();
    format!(
        "import os, signal, socket\n\
         secret = '{secret}'[::-1]\n\
         def attempt(name, act):\n\
         \x20   try: print(name, 'G' + 'OT', act())\n\
         \x20   except Exception as error: pass\n\
         for path in {paths:?}:\n\
         \x20   attempt('read ' + path, lambda: open(path).read())\n\
         \x20   attempt('write ' + path, lambda: open(path, 'r+').write('x'))\n\
         \x20   attempt('remove ' + path, lambda: os.remove(path))\n\
         \x20   attempt('list ' + path, lambda: os.listdir(os.path.dirname(path)))\n\
         \x20   attempt('connect ' + path, lambda: socket.socket(socket.AF_UNIX).connect(path.replace('.txt', '.sock')))\n\
         for name in {names:?}:\n\
         \x20   attempt('abstract ' + name, lambda: socket.socket(socket.AF_UNIX).connect('\\0' + name))\n\
         for port in [*range(45_000, 45_007), {server}]:\n\
         \x20   attempt(f'port {{port}}', lambda: socket.create_connection(('127.0.0.1', port), 2))\n\
         for pid in {pids:?}:\n\
         \x20   attempt(f'signal {{pid}}', lambda: os.kill(pid, signal.SIGKILL))\n\
         \x20   attempt(f'environment {{pid}}', lambda: open(f'/proc/{{pid}}/environ').read())\n\
         \x20   attempt(f'directory {{pid}}', lambda: os.listdir(f'/proc/{{pid}}/cwd'))\n\
         for value in os.environ.values():\n\
         \x20   if secret in value or 'sword' + 'fish' in value: print('environment', 'G' + 'OT', value)\n\
         for top in ('/home', '/mnt', '/tmp', '/dev/shm', '/run', '/var/tmp'):\n\
         \x20   for folder, _, files in os.walk(top):\n\
         \x20       for name in files:\n\
         \x20           if 'harvest' in name: print('found', 'G' + 'OT', folder, name)\n\
         print('all ' + 'tried')"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_each_wire_reaches_nothing_of_another_tenant() {
    let script = Script::default();
    let next = Arc::clone(&script);
    let model = ModelServer::start(move |request| {
        if request.body.is_empty() {
            return (Answer::Refuse(404, json!({})), 0);
        }
        let asked = request.json();
        let last = asked["messages"].as_array().and_then(|all| all.last());
        let is_over = last.is_some_and(|it| it["role"] == "tool");
        let answer = if is_over {
            Answer::Text("Done.".to_owned())
        } else {
            Answer::Call(next.lock().unwrap().clone())
        };
        (answer, 100)
    })
    .await;
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", &model.url)
        .with("OPENAI_API_KEY", "sk-hunter2")
        .with("SERVER_PASSWORD", "swordfish-of-the-server");
    let [alice, bob] = ["alice", "bob"].map(|name| key(&sponde, name, "ask"));
    let file = sponde.path("keys.toml").display().to_string();
    let server = Server::start_with(&sponde, &["--keys", &file, "--yes", "--max-sessions", "30"]);
    let tenant = |key: &str| Tenant {
        server: &server,
        key: key.to_owned(),
    };
    let (alice, bob) = (tenant(&alice), tenant(&bob));

    for wire in WIRES {
        let told = wire.run(&alice, &script, &leave(wire)).await;
        assert!(told.contains("left"), "{wire:?}: {told}");
    }
    let home = sponde.path("..").canonicalize().unwrap();
    let mut left = Vec::new();
    harvest_below(&home, &mut left);
    assert!(left.len() >= WIRES.len(), "{left:?}");
    let pids = processes_below(server.program.id());
    assert!(pids.len() >= WIRES.len() - 1, "{pids:?}");

    let port = server.base.rsplit(':').next().unwrap().parse().unwrap();
    let code = attack(&left, &pids, port);
    for wire in WIRES {
        let told = wire.run(&bob, &script, &code).await;
        assert!(told.contains("all tried"), "{wire:?}: {told}");
        assert!(
            !told.contains("GOT") && !told.contains(SECRET),
            "{wire:?}: {told}"
        );
    }
    by_paths(&bob, &left).await;
    "1".clone_into(&mut script.lock().unwrap());
    by_ids(&alice, &bob).await;

    for pid in pids {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::test_kill_process(pid).expect("alice's process lives");
    }
    for path in left {
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            SECRET,
            "{}",
            path.display()
        );
    }
    let ended = server.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Paths of hers, asked of the server over the wires that open files by their path.
async fn by_paths(bob: &Tenant<'_>, left: &[PathBuf]) {
    let client = shake_hands(bob).await.1.expect("a client");
    let (id, token) = sandbox(bob).await;
    for path in left {
        let absolute = path.display().to_string();
        let name = path.file_name().unwrap().to_str().unwrap();
        for wanted in [
            absolute,
            format!("../alice/{name}"),
            format!("/home/user/../../{name}"),
        ] {
            let at = |base: &str| {
                reqwest::Url::parse_with_params(
                    &format!("{}{base}", bob.server.base),
                    [("path", wanted.as_str()), ("username", "user")],
                )
            };
            let get = |base: &str| {
                let url = at(base).unwrap();
                let path = format!("{}?{}", url.path(), url.query().unwrap());
                bob.server.bare(Method::GET, &path)
            };
            let read = get("/e2b/files").header("e2b-sandbox-id", &id);
            let read = answer(read.header("x-access-token", &token)).await;
            let shown = answer(get("/terminal/files/read").bearer_auth(&bob.key)).await;
            for (status, told) in [read, shown] {
                assert!((400..500).contains(&status), "{wanted}: {status} {told}");
            }
            for (tool, more) in [
                ("read_file", json!({})),
                ("write_file", json!({ "content": "x" })),
            ] {
                let mut arguments = more;
                arguments["path"] = wanted.clone().into();
                let params = json!({ "name": tool, "arguments": arguments });
                let (_, _, told) = mcp(bob, Some(&client), "tools/call", params).await;
                assert!(
                    told.contains("\"isError\":true") && !told.contains(SECRET),
                    "{tool} {wanted}: {told}"
                );
            }
            let params = json!({ "uri": format!("sponde://files/{wanted}") });
            let (_, _, told) = mcp(bob, Some(&client), "resources/read", params).await;
            assert!(
                told.contains("\"error\"") && !told.contains(SECRET),
                "{told}"
            );
        }
    }
}

/// Ids of hers behind ids of his own: contexts and commands in his sandbox, files in his container, her responses.
async fn by_ids(alice: &Tenant<'_>, bob: &Tenant<'_>) {
    let (of_alice, token) = sandbox(alice).await;
    let (of_bob, his) = sandbox(bob).await;
    let within = |method: Method, path: &str, id: &str, token: &str| {
        let request = alice.server.bare(method, path);
        request
            .header("e2b-sandbox-id", id)
            .header("x-access-token", token)
    };
    let made = within(Method::POST, "/e2b/contexts", &of_alice, &token);
    let (status, context) = answer(made.json(&json!({}))).await;
    assert_eq!(status, 200, "{context}");
    let context = context["id"].as_str().unwrap();
    let run = json!({ "code": "1", "context_id": context });
    let attempts = [
        within(Method::POST, "/e2b/execute", &of_bob, &his).json(&run),
        within(
            Method::DELETE,
            &format!("/e2b/contexts/{context}"),
            &of_bob,
            &his,
        ),
        within(
            Method::POST,
            &format!("/e2b/contexts/{context}/restart"),
            &of_bob,
            &his,
        )
        .json(&json!({})),
    ];
    for attempt in attempts {
        let (status, told) = answer(attempt).await;
        assert_eq!(status, 404, "{told}");
    }
    let (_, listed) = answer(within(Method::GET, "/e2b/contexts", &of_alice, &token)).await;
    assert!(listed.to_string().contains(context), "{listed}");

    let container = async |tenant: &Tenant<'_>| {
        let (status, made) = tenant.post("/v1/containers", &json!({ "name": "x" })).await;
        assert_eq!(status, 200, "{made}");
        made["id"].as_str().unwrap().to_owned()
    };
    let (hers, his_own) = (container(alice).await, container(bob).await);
    let form = format!(
        "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"harvest.txt\"\r\n\r\n{SECRET}\r\n--b--\r\n"
    );
    let upload = alice
        .request(Method::POST, &format!("/v1/containers/{hers}/files"))
        .header("content-type", "multipart/form-data; boundary=b")
        .body(form);
    let (status, file) = answer(upload).await;
    assert_eq!(status, 200, "{file}");
    let file = file["id"].as_str().unwrap();
    assert_eq!(
        alice
            .get(&format!("/v1/containers/{hers}/files/{file}/content"))
            .await,
        (200, Value::from(SECRET))
    );
    for of in [&hers, &his_own] {
        for path in [
            format!("/v1/containers/{of}/files/{file}"),
            format!("/v1/containers/{of}/files/{file}/content"),
        ] {
            let (status, told) = bob.get(&path).await;
            assert_eq!(status, 404, "{path}: {told}");
        }
        let gone = bob.request(Method::DELETE, &format!("/v1/containers/{of}/files/{file}"));
        assert_eq!(answer(gone).await.0, 404);
    }
    let asked = json!({ "model": "sponde", "input": "go" });
    let (status, response) = alice.post("/v1/responses", &asked).await;
    assert_eq!(status, 200, "{response}");
    let response = response["id"].as_str().unwrap();
    assert_eq!(alice.get(&format!("/v1/responses/{response}")).await.0, 200);
    for path in [
        format!("/v1/responses/{response}"),
        format!("/v1/responses/{response}/input_items"),
    ] {
        assert_eq!(bob.get(&path).await.0, 404, "{path}");
    }
    let on = json!({ "model": "sponde", "input": "go", "previous_response_id": response });
    let (status, told) = bob.post("/v1/responses", &on).await;
    assert!((400..500).contains(&status), "{status} {told}");
    let his = json!({
        "model": "sponde", "input": "go",
        "tools": [{ "type": "code_interpreter", "container": hers }],
    });
    let (status, told) = bob.post("/v1/responses", &his).await;
    assert!((400..500).contains(&status), "{status} {told}");
}

/// Files that [`leave`] made.
fn harvest_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let name = entry.file_name().into_string().unwrap_or_default();
        if kind.is_dir() {
            harvest_below(&path, found);
        } else if kind.is_file() && name.starts_with("harvest-") {
            found.push(path);
        }
    }
}

/// The kernels among the descendants of a process.
fn processes_below(root: u32) -> Vec<i32> {
    let parent = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may have anything in it.
        let after = stat.rsplit_once(')')?.1;
        after.split_whitespace().nth(1)?.parse().ok()
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let is_below = |pid: i32| {
        let mut up = std::iter::successors(Some(pid), |pid| parent(*pid));
        up.any(|it| i64::from(it) == i64::from(root))
    };
    let is_kernel = |pid: i32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with('/') && line.contains("kernel") && !line.contains("bwrap")
    };
    all.filter(|pid| is_below(*pid) && is_kernel(*pid))
        .collect()
}
