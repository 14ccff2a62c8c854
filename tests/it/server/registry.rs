//! Many sessions of one process, each with its own directory, environment and kernel.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sponde::agent::Command;
use sponde::agent::stream::{Received, SessionHandle};
use sponde::app::registry::{LiveSession, OpenRequest, Registry, RegistryError, RegistryLimits};
use sponde::app::{Context, Notify, SessionSettings, sandbox::SandboxSettings};
use sponde::config::Config;
use sponde::kernel::Level;
use sponde::paths::{Environment, Paths};

use super::{Server, with_model};
use crate::support::{NOBODY, eventually, misbehaving, python_prefix};

/// What a process in a home of its own is started with.
fn context(home: &std::path::Path) -> Context {
    for dir in ["run", "work", "data/jupyter/kernels/misbehave"] {
        std::fs::create_dir_all(home.join(dir)).unwrap();
    }
    let argv = misbehaving(&[]).spec.argv;
    let spec =
        serde_json::json!({"argv": argv, "display_name": "misbehave", "language": "misbehave"});
    std::fs::write(
        home.join("data/jupyter/kernels/misbehave/kernel.json"),
        spec.to_string(),
    )
    .unwrap();
    let variable = |name: &str, value: String| (name.to_owned(), value);
    let environment = Environment::new(
        vec![
            variable("HOME", home.display().to_string()),
            variable("PATH", std::env::var("PATH").unwrap()),
            variable("VIRTUAL_ENV", python_prefix().display().to_string()),
            variable("OPENAI_BASE_URL", format!("{NOBODY}/v1")),
        ],
        Some(home.join("work")),
    );
    let config = home.join("config");
    Context {
        config: Config::load(&config, None).unwrap(),
        paths: Paths {
            config,
            data: home.join("data/sponde"),
            cache: home.join("cache"),
            state: home.join("state"),
            jupyter_data: home.join("data/jupyter"),
            jupyter_runtime: home.join("data/jupyter/runtime"),
            sockets: home.join("run"),
            environment,
        },
        notify: Notify::nobody(),
        redactor: sponde::kernel::Redactor::default(),
    }
}

fn request(kernel: &str, directory: PathBuf, who: &str) -> OpenRequest {
    OpenRequest {
        settings: SessionSettings {
            model: Some("openai-compatible/nobody".to_owned()),
            kernels: vec![kernel.to_owned()],
            sandbox: SandboxSettings {
                level: Some(Level::Full.into()),
                ..SandboxSettings::default()
            },
            ..SessionSettings::default()
        },
        directory: Some(directory),
        variables: vec![("WHO".to_owned(), who.to_owned())],
        resume: None,
    }
}

/// What the only cell of a session has put out, once it has ended.
async fn put_out(handle: &SessionHandle) -> String {
    let (snapshot, mut client) = handle.join("reader").await.unwrap();
    let mut transcript = snapshot.transcript();
    loop {
        let code = transcript.cells().iter().find_map(|cell| cell.code());
        if let Some(code) = code
            && code.finished.is_some()
        {
            return serde_json::to_string(&code.outputs.to_notebook()).unwrap();
        }
        match client.next().await.expect("the session ended") {
            Received::Snapshot(snapshot) => transcript = snapshot.transcript(),
            Received::Item(item) => {
                if let sponde::agent::stream::Body::Edit { edit, .. } = &item.body {
                    transcript.apply(edit.clone()).unwrap();
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_sessions_of_a_registry_keep_apart_and_leave_nothing() {
    const SESSIONS: usize = 50;
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let limits = RegistryLimits {
        sessions: SESSIONS,
        idle: None,
    };
    let registry = Registry::new(context(&home), limits);
    let mut live: Vec<(usize, Arc<LiveSession>)> = Vec::new();
    for number in 0..SESSIONS {
        let directory = home.join(format!("work/{number}"));
        std::fs::create_dir(&directory).unwrap();
        let (kernel, code) = if number % 5 == 0 {
            (
                "python3",
                "import os; print(os.environ['WHO'], os.getcwd(), os.getpid())",
            )
        } else {
            ("misbehave", "env WHO\ncwd\npid")
        };
        let opened = registry
            .open(request(kernel, directory, &format!("who-{number}.")))
            .await;
        let (session, _) = opened.unwrap_or_else(|error| panic!("{number}: {error}"));
        let run = Command::Run {
            code: code.to_owned(),
            language: None,
        };
        session.handle().send("test", run).await.unwrap();
        live.push((number, session));
    }
    let one_more = registry
        .open(request("misbehave", home.join("work"), "one"))
        .await;
    assert!(matches!(
        one_more,
        Err(RegistryError::Full { limit: SESSIONS })
    ));
    let mut pids = BTreeSet::new();
    for (number, session) in &live {
        let text = tokio::time::timeout(Duration::from_mins(4), put_out(session.handle())).await;
        let text = text.unwrap();
        let own = format!("who-{number}.");
        assert_eq!(text.matches("who-").count(), 1, "{text}");
        assert!(
            text.contains(&own) && text.contains(&format!("work/{number}")),
            "{text}"
        );
        let pid: Vec<i32> = text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|it| it.parse().ok())
            .filter(|pid| *pid > 50)
            .collect();
        pids.insert(*pid.last().unwrap());
    }
    assert_eq!(pids.len(), SESSIONS);
    // Ended in another order than they began, some by themselves, all others with the registry.
    let mut random = 42_u64;
    while live.len() > SESSIONS / 3 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = usize::try_from(random >> 33).unwrap() % live.len();
        let (number, session) = live.swap_remove(at);
        if number % 2 == 0 {
            registry.end(&session.id).await.unwrap();
        } else {
            let _ = session.handle().send("test", Command::Shutdown).await;
        }
    }
    registry.close().await;
    assert!(registry.list().is_empty());
    let closed = registry
        .open(request("misbehave", home.join("work"), "one"))
        .await;
    assert!(matches!(closed, Err(RegistryError::Closing)));
    let is_gone = move || {
        pids.iter()
            .all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    };
    tokio::task::spawn_blocking(move || eventually(is_gone))
        .await
        .unwrap();
    for dir in ["run", "data/jupyter/runtime"] {
        let left = std::fs::read_dir(home.join(dir)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{dir}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_looks_at_ends_and_can_be_resumed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().canonicalize().unwrap();
    let limits = RegistryLimits {
        sessions: 2,
        idle: Some(Duration::from_millis(200)),
    };
    let registry = Registry::new(context(&home), limits);
    let (looked_at, _) = registry
        .open(request("misbehave", home.join("work"), "one"))
        .await
        .unwrap();
    let guard = looked_at.client();
    let (forgotten, _) = registry
        .open(request("misbehave", home.join("work"), "two"))
        .await
        .unwrap();
    let run = Command::Run {
        code: "echo kept".to_owned(),
        language: None,
    };
    forgotten.handle().send("test", run).await.unwrap();
    put_out(forgotten.handle()).await;
    let id = forgotten.id.clone();
    let watched = (registry.clone(), id.clone());
    tokio::task::spawn_blocking(move || eventually(|| watched.0.get(&watched.1).is_none()))
        .await
        .unwrap();
    assert!(
        registry.get(&looked_at.id).is_some(),
        "somebody looks at it"
    );
    let resume = OpenRequest {
        resume: Some(id.clone()),
        ..request("misbehave", home.join("work"), "two")
    };
    // Its files are free when its end is over.
    let (resumed, _) = loop {
        let again = OpenRequest {
            resume: resume.resume.clone(),
            ..request("misbehave", home.join("work"), "two")
        };
        match registry.open(again).await {
            Err(RegistryError::NotOpened(_) | RegistryError::Full { .. }) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            opened => break opened.unwrap(),
        }
    };
    assert_eq!(resumed.id, id);
    let text = put_out(resumed.handle()).await;
    assert!(text.contains("kept"), "{text}");
    drop(guard);
    registry.close().await;
}

/// The usual limit of open files is for programs, not for servers; kernels have it as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_raises_its_limit_of_open_files_and_no_kernels() {
    let (_model, sponde) = with_model([]).await;
    let own = sponde.command(&["serve", "--model", "gpt-4o", "--sandbox", "full"]);
    let mut limited = Process::new("sh");
    limited
        .args(["-c", "ulimit -Sn 100; exec \"$0\" \"$@\""])
        .arg(own.get_program())
        .args(own.get_args())
        .current_dir(sponde.path(""))
        .env_clear();
    limited.envs(
        own.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let server = Server::of(sponde.start_command(limited));
    for _ in 0..8 {
        let session = server.session(json!({})).await;
        let code = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])";
        let cell = server.run(&session, code).await;
        let path = format!("{session}/cells/{cell}/outputs/0/text%2Fplain");
        let response = server.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(response.text().await.unwrap(), "100\n");
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.program.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let files: Vec<&str> = files.unwrap().split_whitespace().collect();
    assert_eq!(files[3], files[4], "{limits}");
    assert_eq!(server.end().code, Some(0));
}
