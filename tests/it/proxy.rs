//! `sponde kernel-proxy` with other people's clients: what they see of python3 through us is what they see of python3.
//!
//! `tests/fixtures/proxy_clients.py` runs jupyter_kernel_test and jupyter_client, `parity_oracle.py` runs nbclient.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::parity::{CORPUS, NOTEBOOKS};
use crate::support::{LIMIT, Sponde, python_prefix, tools};

const CLIENTS: &str = "proxy_clients.py";
const NBCLIENT: &str = "parity_oracle.py";

/// A home with a kernelspec for the proxy, `proxied`, as docs/proxy.md has it.
fn home() -> Sponde {
    let sponde = Sponde::new();
    let program = assert_cmd::cargo::cargo_bin!("sponde")
        .display()
        .to_string();
    let argv = [
        &program,
        "kernel-proxy",
        "--kernel",
        "python3",
        "-f",
        "{connection_file}",
    ];
    sponde.add_kernel("proxied", &argv.map(str::to_owned));
    sponde
}

/// Python with a fixture in the program's own environment: it finds `proxied` there and python3 in its own prefix.
fn python(sponde: &Sponde, fixture: &str, arguments: &[&str]) -> Command {
    // What the program would get, for it is Python's child.
    let own = sponde.command(&[]);
    let mut command = Command::new(python_prefix().join("bin/python"));
    command
        .arg(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/fixtures")
                .join(fixture),
        )
        .args(arguments)
        .current_dir(sponde.path(""))
        .env_clear()
        .envs(
            own.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("JUPYTER_PLATFORM_DIRS", "1")
        .env("JUPYTER_PATH", sponde.path("../data/jupyter"))
        .env(
            "JUPYTER_RUNTIME_DIR",
            sponde.path("../data/jupyter/runtime"),
        );
    command
}

fn findings(sponde: &Sponde, what: &str, kernel: &str) -> Value {
    let output = python(sponde, CLIENTS, &[what, kernel]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{kernel}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn jupyter_kernel_test_passes_as_it_does_without_us() {
    let sponde = home();
    // One after the other: some of its waits are short.
    let mut direct = findings(&sponde, "suite", "python3");
    if direct
        .as_object()
        .unwrap()
        .values()
        .any(|it| it.as_str().unwrap().contains("Error"))
    {
        // Without us, so it is not our fault: on a busy machine a line of the kernel's comes before its welcome.
        direct = findings(&sponde, "suite", "python3");
    }
    let proxied = findings(&sponde, "suite", "proxied");
    assert_eq!(proxied, direct);
    let passed = |outcome: &&Value| **outcome == "passed";
    let outcomes = proxied.as_object().unwrap();
    assert_eq!(outcomes.values().filter(passed).count(), 12, "{proxied:#}");
    assert_eq!(outcomes.len(), 13, "{proxied:#}");
    sponde.assert_nothing_is_left();
}

#[test]
fn jupyter_client_sees_the_kernel_itself() {
    let sponde = home();
    let mut direct = findings(&sponde, "client", "python3");
    let proxied = findings(&sponde, "client", "proxied");
    // All but the end: we say that the kernel is dead, and how we exit is how `sponde` exits then.
    direct["dead kernel"]["said"] = json!([["status", {"execution_state": "dead"}]]);
    assert_eq!(direct["exit status"], json!(-9));
    direct["exit status"] = json!(4);
    assert_eq!(proxied, direct);
    // And what both saw was right.
    assert_eq!(proxied["lines"], json!(true));
    assert_eq!(proxied["large output"], json!(60_000_001));
    assert_eq!(proxied["after interrupts"], json!("state is kept\n"));
    let buffers = &proxied["comm_msg"][1][1]["buffers"];
    assert_eq!(buffers, &json!(["636261", "", "ff00"]));
    sponde.assert_nothing_is_left();
}

#[test]
fn nbclient_executes_its_notebooks_through_us() {
    let sponde = home();
    let corpus = tools().join(CORPUS);
    let (ours, theirs) = (sponde.path("ours"), sponde.path("theirs"));
    for dir in [&ours, &theirs] {
        std::fs::create_dir(dir).unwrap();
    }
    let names = json!(NOTEBOOKS.map(|(name, flags, _)| (name, flags.contains(&"--allow-errors"))));
    let names = names.to_string();
    let execute = |to: &PathBuf, kernel: &str| {
        let arguments = [
            "execute",
            corpus.to_str().unwrap(),
            to.to_str().unwrap(),
            &names,
            kernel,
        ];
        let output = python(&sponde, NBCLIENT, &arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kernel}: {stderr}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| execute(&theirs, "python3"));
        scope.spawn(|| execute(&ours, "proxied"));
    });
    let arguments = ["compare", ours.to_str().unwrap(), theirs.to_str().unwrap()];
    let compared = python(&sponde, NBCLIENT, &arguments).output().unwrap();
    let report: Value = serde_json::from_slice(&compared.stdout).unwrap();
    let expected: Value = NOTEBOOKS
        .iter()
        .map(|(name, ..)| (format!("{name}.ipynb"), json!("same")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    assert_eq!(report, expected, "{report:#}");
    sponde.assert_nothing_is_left();
}

/// Started by hand over ipc sockets, without Jupyter: its end is ours to cause.
struct Bare {
    sponde: Sponde,
    connection_file: PathBuf,
}

impl Bare {
    fn new() -> Self {
        let sponde = home();
        let connection = json!({
            "shell_port": 1, "iopub_port": 2, "stdin_port": 3, "control_port": 4, "hb_port": 5,
            "ip": sponde.path("k"), "key": "secret", "transport": "ipc", "signature_scheme": "hmac-sha256",
        });
        let connection_file = sponde.write("connection.json", connection.to_string());
        Self {
            sponde,
            connection_file,
        }
    }

    fn command(&self, kernel: &str) -> Command {
        let file = self.connection_file.to_str().unwrap();
        let mut command = self
            .sponde
            .command(&["kernel-proxy", "--kernel", kernel, "-f", file]);
        command.stdin(Stdio::null());
        command
    }

    /// Waits until the real kernel runs.
    fn wait_for_kernel(&self) {
        let begun = Instant::now();
        while !self
            .sponde
            .processes()
            .iter()
            .any(|command| command.contains("ipykernel"))
        {
            assert!(begun.elapsed() < LIMIT, "no kernel was started");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn no_orphan_is_left_however_the_proxy_ends() {
    for signal in [Signal::TERM, Signal::KILL] {
        let bare = Bare::new();
        let mut proxy = bare.command("python3").spawn().unwrap();
        bare.wait_for_kernel();
        kill_process(Pid::from_child(&proxy), signal).unwrap();
        let status = proxy.wait().unwrap();
        match signal {
            Signal::TERM => {
                assert_eq!(status.code(), Some(0));
                bare.sponde.assert_nothing_is_left();
                assert!(!bare.sponde.path("k-1").exists());
            }
            _ => bare.sponde.assert_no_process_is_left(),
        }
    }
}

#[test]
fn the_proxy_ends_with_who_started_it() {
    let bare = Bare::new();
    // A shell in between, which dies; its own id is what Jupyter would have said.
    let script = r#"JPY_PARENT_PID=$$ "$@" & sleep 100"#;
    let proxy = bare.command("python3");
    let mut shell = bare.sponde.command(&[]);
    let mut parent = Command::new("sh");
    parent
        .args(["-c", script, "sh"])
        .arg(proxy.get_program())
        .args(proxy.get_args())
        .current_dir(bare.sponde.path(""))
        .env_clear()
        .envs(
            shell
                .stdin(Stdio::null())
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    let mut parent = parent.spawn().unwrap();
    bare.wait_for_kernel();
    let begun = Instant::now();
    parent.kill().unwrap();
    parent.wait().unwrap();
    let left = || {
        let mut processes = bare.sponde.processes();
        processes.retain(|command| !command.starts_with("sleep"));
        processes
    };
    while !left().is_empty() {
        assert!(begun.elapsed() < LIMIT, "left: {:?}", left());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_cannot_work_is_said() {
    let bare = Bare::new();
    let ended = |kernel: &str| {
        let output = bare.command(kernel).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        let first = stderr.lines().next().unwrap_or_default().to_owned();
        (output.status.code(), first)
    };
    assert_eq!(
        ended("proxied"),
        (
            Some(2),
            "error: kernel `proxied` is a proxy itself".to_owned()
        )
    );
    assert_eq!(
        ended("nothing"),
        (Some(4), "error: there is no kernel `nothing`".to_owned())
    );
    bare.sponde.write("connection.json", "{}");
    assert_eq!(ended("python3").0, Some(2));
}
