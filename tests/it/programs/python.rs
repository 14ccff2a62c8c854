//! The Python package `sponde`: its own tests (python/tests), with this program, real kernels and a model that is played.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::python;
use crate::aimock::Aimock;
use crate::support::Sponde;

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// A client in the home of `sponde`, with its environment.
fn client(sponde: &Sponde, program: &Path) -> Command {
    let server = sponde.command(&[]);
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(server.get_envs().filter_map(|(name, value)| Some((name, value?))))
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
    let output = tokio::process::Command::from(command).output().await.unwrap();
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    sponde.assert_nothing_is_left();
    mock.stop().await;
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
async fn adapters_for_agent_libraries() {
    passes("tests/test_adapters.py").await;
}

#[tokio::test]
async fn questions_in_notebooks() {
    passes("tests/test_magic.py").await;
}
