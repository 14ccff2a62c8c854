//! The Python package `sponde`: its own tests (python/tests), with this program, real kernels and a model that is played.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::python;
use crate::aimock::Aimock;
use crate::support::Sponde;

/// How long the tests of a file may take: the machine may be busy.
const LIMIT: Duration = Duration::from_mins(15);

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// A client in the home of `sponde`, with its environment.
fn client(sponde: &Sponde, program: &Path) -> Command {
    let server = sponde.command(&[]);
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(
            server
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .env("SPONDE_PROGRAM", server.get_program())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(package());
    command
}

/// Runs the tests of one file.
async fn passes(file: &str) {
    let scripted = std::fs::read_to_string(package().join("tests/model.json")).unwrap();
    let scripted: Value = serde_json::from_str(&scripted).unwrap();
    let mock = Aimock::start(&scripted).await;
    let sponde = Sponde::new().with_model(&mock);
    let mut command = client(&sponde, &python());
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", file]);
    let mut command = tokio::process::Command::from(command);
    let output = command.kill_on_drop(true).output();
    let output = tokio::time::timeout(LIMIT, output).await;
    let output = output.expect("the tests did not end").unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    sponde.assert_nothing_is_left();
    mock.stop().await;
}

/// The package says `py.typed`: its types hold by mypy's strict rules, and its style by ruff's (python/pyproject.toml).
#[test]
fn types_are_strict() {
    let sponde = Sponde::new();
    for arguments in [
        ["mypy", "--no-incremental", "sponde"],
        ["ruff", "check", "sponde"],
    ] {
        let [module, arguments @ ..] = arguments;
        let mut command = client(&sponde, &python());
        command.args(["-m", module]).args(arguments);
        if module == "ruff" {
            command.arg("--no-cache");
        }
        let output = command.output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{module}: {shown}");
    }
}

#[tokio::test]
async fn sessions() {
    passes("tests/test_session.py").await;
}

#[tokio::test]
async fn the_interpreter_that_stands_in() {
    passes("tests/test_interpreter.py").await;
}

#[tokio::test]
async fn open_interpreters_own_examples() {
    passes("tests/test_open_interpreter_examples.py").await;
}

#[tokio::test]
async fn adapters_for_agent_libraries() {
    passes("tests/test_adapters.py").await;
}

#[tokio::test]
async fn questions_in_notebooks() {
    passes("tests/test_magic.py").await;
}

/// Runs a command to its end, and returns what it printed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}\n{stderr}");
    text.trim().to_owned()
}

#[test]
fn the_wheel_has_the_program_and_the_module() {
    let sponde = Sponde::new();
    let root = package().join("..").canonicalize().unwrap();
    let [files, wheels, venv] = ["files", "wheels", "venv"].map(|name| sponde.path(name));
    std::fs::create_dir(&files).unwrap();
    std::fs::create_dir(&wheels).unwrap();
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        std::fs::copy(root.join(file), files.join(file)).unwrap();
    }
    // A debug program is mostly what a debugger reads.
    let program = sponde.command(&[]).get_program().to_owned();
    printed(
        Command::new("strip")
            .arg("-o")
            .arg(files.join("sponde"))
            .arg(program),
    );
    let wheel = printed(
        Command::new(root.join("scripts/wheel"))
            .arg("--fast")
            .args([&files, &wheels]),
    );
    printed(
        Command::new(python())
            .args(["-m", "venv", "--without-pip"])
            .arg(&venv),
    );
    let own = venv.join("bin/python");
    let arguments = [
        "install",
        "--quiet",
        "--no-index",
        "--disable-pip-version-check",
    ];
    printed(
        Command::new(python())
            .args(["-m", "pip", "--python"])
            .arg(&own)
            .args(arguments)
            .arg(&wheel),
    );
    // As a person runs it who installs nothing.
    let mut uvx = Command::new(python().with_file_name("uvx"));
    uvx.args(["--offline", "--no-cache", "--no-config", "--python"])
        .arg(&own)
        .arg("--from")
        .arg(&wheel)
        .args(["sponde", "--version"])
        .env("UV_TOOL_DIR", sponde.path("uv"));
    let version = format!("sponde {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&mut uvx), version);
    let code = "import sponde\nwith sponde.Session() as session:\n  print(session.run('6 * 7').text, sponde.find_program())";
    let mut command = client(&sponde, &own);
    command
        .env_remove("SPONDE_PROGRAM")
        .args(["-c", code])
        .current_dir(&wheels);
    let program = venv.join("bin/sponde");
    assert_eq!(printed(&mut command), format!("42 {}", program.display()));
    assert_eq!(printed(Command::new(program).arg("--version")), version);
    sponde.assert_nothing_is_left();
}
