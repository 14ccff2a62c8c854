//! Fake servers run by the real machinery. `tests/it/local_model.rs` tests the real server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::process::Command;

use rustix::process::Pid;
use tempfile::TempDir;

use super::super::models::KNOWN_MODELS;
use super::*;

/// A directory that contains a program called `llama-server`.
struct Bench(TempDir);

impl Bench {
    /// The program is a shell script that first records its process id and arguments.
    fn new(script: &str) -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let root = bench.path("").display().to_string();
        let text = format!(
            "#!/bin/sh\ncd '{root}'\nprintf '%s\\n' \"$@\" > args\necho $$ > pid.new\nmv pid.new pid\n{script}\n"
        );
        fs::write(bench.path("text"), text).unwrap();
        // Another process writes the file: one that this process has open for writing cannot be executed.
        let copy = "cp text llama-server && chmod +x llama-server";
        let mut command = Command::new("sh");
        assert!(
            command
                .args(["-c", copy])
                .current_dir(bench.path(""))
                .status()
                .unwrap()
                .success()
        );
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, engine: fn(PathBuf) -> Engine) -> LocalServerOptions {
        LocalServerOptions {
            prompts: None,
            engine: engine(self.path("llama-server")),
            model: self.path("tiny.gguf"),
            template: Some("{{ messages }}".to_owned()),
            context: 512,
            threads: 3,
            log: self.path("logs/server.log"),
            ready_within: Duration::from_secs(20),
        }
    }

    async fn start(&self, engine: fn(PathBuf) -> Engine) -> Result<LocalServer, LocalServerError> {
        LocalServer::start(self.options(engine), |_| ()).await
    }

    /// The process id that the program recorded.
    fn pid(&self) -> Option<Pid> {
        fs::read_to_string(self.path("pid"))
            .ok()?
            .trim()
            .parse()
            .ok()
            .and_then(Pid::from_raw)
    }

    fn log(&self) -> String {
        self.path("logs/server.log").display().to_string()
    }

    async fn assert_gone(&self) {
        let pid = self.pid().unwrap();
        until(|| rustix::process::test_kill_process(pid).is_err()).await;
    }
}

/// Answers `/health` at the given port.
const HEALTHY: &str = r#"
    while [ "$1" != --port ]; do shift; done
    echo "$LLAMA_API_KEY" > key
    echo ok > health
    exec python3 -m http.server --bind 127.0.0.1 --directory . "$2"
"#;

async fn until(happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_is_started_and_stopped() {
    let bench = Bench::new(HEALTHY);
    let steps = std::sync::Mutex::new(Vec::new());
    let options = bench.options(Engine::Program);
    let progress = |step| steps.lock().unwrap().push(step);
    let server = LocalServer::start(options.clone(), progress).await.unwrap();

    let port = server.address.port();
    assert_eq!(server.base_url(), format!("http://127.0.0.1:{port}/v1"));
    assert_eq!(
        fs::read_to_string(bench.path("key")).unwrap().trim(),
        server.api_key()
    );
    let expected = format!(
        "--model\n{}\n--host\n127.0.0.1\n--port\n{port}\n--ctx-size\n512\n--threads\n3\n\
         --alias\nlocal\n--parallel\n1\n--jinja\n--chat-template\n{{{{ messages }}}}\n",
        options.model.display()
    );
    assert_eq!(fs::read_to_string(bench.path("args")).unwrap(), expected);
    assert!(!format!("{server:?}").contains(server.api_key()));
    let steps = steps.into_inner().unwrap();
    let [
        starting,
        LocalServerProgress::Loading,
        LocalServerProgress::Ready(_),
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!(*starting, LocalServerProgress::Starting(options.engine));

    let exited = server.exited();
    let exit = server.stop().await;
    assert_eq!(exit, exited.await);
    // How the watching shell reports a death by SIGTERM.
    assert_eq!(exit, ServerExit::Status(128 + 15));
    bench.assert_gone().await;
}

#[tokio::test]
async fn dropping_kills_the_server() {
    let bench = Bench::new(HEALTHY);
    let server = bench.start(Engine::Program).await.unwrap();
    let exited = server.exited();
    drop(server);
    assert_eq!(exited.await, ServerExit::Signal(9));
    bench.assert_gone().await;
}

#[tokio::test]
async fn dropping_the_start_kills_the_server() {
    let bench = Bench::new("exec sleep 1000");
    tokio::select! {
        started = bench.start(Engine::Program) => panic!("{started:?}"),
        () = until(|| bench.pid().is_some()) => {}
    }
    bench.assert_gone().await;
}

#[tokio::test]
async fn a_server_that_ends_is_noticed() {
    let bench = Bench::new(HEALTHY);
    let server = bench.start(Engine::Program).await.unwrap();
    rustix::process::kill_process(bench.pid().unwrap(), Signal::KILL).unwrap();
    // The watching shell reports a death by signal as a status.
    assert_eq!(server.exited().await, ServerExit::Status(128 + 9));
}

#[tokio::test]
async fn a_server_that_fails_is_quoted() {
    let bench = Bench::new("for n in $(seq 30); do echo line $n >&2; done; exit 7");
    for engine in [Engine::Program, Engine::Python] {
        let error = bench.start(engine).await.unwrap_err().to_string();
        let lines = (11..=30).fold(String::new(), |text, n| text + &format!("\n  line {n}"));
        let log = bench.log();
        assert_eq!(
            error,
            format!("the model server ended before it was ready (exit status 7); see {log}{lines}")
        );
        bench.assert_gone().await;
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let bench = Bench::new("echo thinking >&2; exec sleep 1000");
    for engine in [Engine::Program, Engine::Python] {
        let mut options = bench.options(engine);
        options.ready_within = Duration::from_secs(1);
        let error = LocalServer::start(options, |_| ())
            .await
            .unwrap_err()
            .to_string();
        let log = bench.log();
        let expected = format!("the model server was not ready after 1 s; see {log}\n  thinking");
        assert_eq!(error, expected);
        bench.assert_gone().await;
    }
}

#[tokio::test]
async fn a_port_taken_by_someone_else_is_not_the_end() {
    let taken = "echo \"couldn't bind HTTP server socket\" >&2; exit 1";
    let once = format!("[ -e tried ] || {{ touch tried; {taken}; }}\n{HEALTHY}");
    let server = Bench::new(&once).start(Engine::Program).await.unwrap();
    assert_eq!(server.stop().await, ServerExit::Status(128 + 15));

    let error = Bench::new(taken)
        .start(Engine::Program)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("ended before it was ready (exit status 1)"),
        "{error}"
    );
}

#[tokio::test]
async fn what_the_python_engine_reports_is_believed_within_reason() {
    for (line, expected) in [
        (
            r#"{"event":"no-package","error":"No module"}"#,
            "cannot import `xllamacpp` (No module)",
        ),
        (
            r#"{"event":"listening","address":"http://0.0.0.0:80"}"#,
            "the model server listens on \"http://0.0.0.0:80\", which is not this machine alone",
        ),
        (
            r#"{"event":"listening","address":"/tmp/socket"}"#,
            "the model server listens on \"/tmp/socket\", which is not this machine alone",
        ),
    ] {
        let bench = Bench::new(&format!("echo noise; echo '{line}'; exec sleep 1000"));
        let error = bench.start(Engine::Python).await.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
        bench.assert_gone().await;
    }
}

/// The real script on a real Python that lacks the package (`-S`: no packages at all).
#[tokio::test]
async fn a_missing_package_is_named() {
    let bench = Bench::new(r#"exec python3 -S "$@""#);
    let error = bench.start(Engine::Python).await.unwrap_err().to_string();
    let python = bench.path("llama-server");
    let expected = format!(
        "{} cannot import `xllamacpp` (No module named 'xllamacpp')",
        python.display()
    );
    assert_eq!(error, expected);
    // The key and the options came by stdin; the command line reveals nothing.
    let args = fs::read_to_string(bench.path("args")).unwrap();
    assert!(!args.contains("api_key"), "{args}");
    bench.assert_gone().await;
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let bench = Bench::new("");
    fs::remove_file(bench.path("llama-server")).unwrap();
    let error = bench.start(Engine::Python).await.unwrap_err().to_string();
    let python = bench.path("llama-server");
    let expected = format!(
        "cannot start xllamacpp in {}: No such file or directory (os error 2)",
        python.display()
    );
    assert_eq!(error, expected);

    let other = Bench::new("");
    fs::write(other.path("logs"), "in the way").unwrap();
    let error = other.start(Engine::Program).await.unwrap_err().to_string();
    assert_eq!(
        error,
        format!("cannot write {}: File exists (os error 17)", other.log())
    );
}

#[test]
fn a_program_on_the_path_comes_before_python() {
    let bench = Bench::new("");
    let directory = bench.path("");
    let python = bench.path("text");
    let missing = bench.path("missing");
    let with_plain_file = tempfile::tempdir().unwrap();
    fs::write(with_plain_file.path().join("llama-server"), "not a program").unwrap();
    let path = |entries: &[&Path]| std::env::join_paths(entries).unwrap();
    let found = |path: std::ffi::OsString, python: Option<&Path>| {
        Engine::find(Some(path.as_os_str()), python).map_err(|error| error.to_string())
    };
    let program = Ok(Engine::Program(bench.path("llama-server")));
    assert_eq!(found(path(&[&missing, &directory]), Some(&python)), program);
    assert_eq!(
        found(path(&[with_plain_file.path(), &directory]), None),
        program
    );
    let in_python = Ok(Engine::Python(python.clone()));
    assert_eq!(
        found(path(&[with_plain_file.path()]), Some(&python)),
        in_python
    );
    assert_eq!(
        found(path(&[Path::new("."), Path::new("")]), Some(&python)),
        in_python
    );
    let nothing = "no `llama-server` on the search path and no Python environment";
    assert_eq!(found(path(&[]), None), Err(nothing.to_owned()));
    let nowhere = format!("{nothing} at {}", missing.display());
    assert_eq!(found(path(&[]), Some(&missing)), Err(nowhere));
}

#[test]
fn options_come_from_the_model_and_its_file() {
    let bench = Bench::new("");
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let pair =
        |key: &str, value: &str| [text(key), 8_u32.to_le_bytes().into(), text(value)].concat();
    let header = [
        b"GGUF".to_vec(),
        3_u32.to_le_bytes().into(),
        0_u64.to_le_bytes().into(),
        4_u64.to_le_bytes().into(),
        pair("general.architecture", "qwen2"),
        pair("general.name", "Qwen2.5 Coder"),
        pair("tokenizer.chat_template", "<tool_call>x</tool_call>"),
        [
            text("qwen2.context_length"),
            4_u32.to_le_bytes().into(),
            2048_u32.to_le_bytes().into(),
        ]
        .concat(),
    ]
    .concat();
    let known = &KNOWN_MODELS[0];
    let path = bench.path(known.file);
    fs::write(&path, header).unwrap();
    let engine = Engine::Python(bench.path("python"));
    let options = |model: &LocalModel| {
        let log = bench.path("log");
        LocalServerOptions::for_model(model, bench.0.path(), engine.clone(), log)
            .map_err(|error| error.to_string())
    };
    let cores = usable_cores();
    assert!((1..=8).contains(&cores));
    let expected = LocalServerOptions {
        prompts: None,
        engine: engine.clone(),
        model: path.clone(),
        template: Some("```jsonx```".to_owned()),
        context: 8192,
        threads: cores,
        log: bench.path("log"),
        ready_within: Duration::from_mins(3),
    };
    assert_eq!(options(&LocalModel::Known(known)), Ok(expected.clone()));
    let expected = LocalServerOptions {
        prompts: None,
        context: 2048,
        ..expected
    };
    assert_eq!(options(&LocalModel::File(path)), Ok(expected));

    let text = bench.path("text");
    let error = format!("cannot read model {}: not a GGUF file", text.display());
    assert_eq!(options(&LocalModel::File(text)), Err(error));
}
