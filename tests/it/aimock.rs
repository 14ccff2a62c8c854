//! aimock, an npm package that plays every model vendor's API; what it was sent is in its journal.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sponde::llm::http;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::support::tools;

/// How long the mock may take to come up: the machine may be busy.
const START_LIMIT: Duration = Duration::from_mins(1);

/// An aimock server, ended when dropped.
pub(crate) struct Aimock {
    pub(crate) url: String,
    process: Child,
    _fixtures: TempDir,
}

impl Aimock {
    pub(crate) async fn start(fixtures: &Value) -> Self {
        Self::start_with_pauses(fixtures, "1").await
    }

    /// Waits so many milliseconds before each piece of a reply.
    pub(crate) async fn start_with_pauses(fixtures: &Value, milliseconds: &str) -> Self {
        Self::start_in_pieces(fixtures, milliseconds, "7").await
    }

    /// The same with pieces of so many characters.
    pub(crate) async fn start_in_pieces(fixtures: &Value, milliseconds: &str, size: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("fixtures.json");
        std::fs::write(&file, json!({ "fixtures": fixtures }).to_string()).unwrap();
        let mut process = Command::new(tool("llmock"))
            .args([
                "--port",
                "0",
                "--latency",
                milliseconds,
                "--chunk-size",
                size,
                "--fixtures",
            ])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let started = async {
            loop {
                let line = lines.next_line().await.unwrap();
                let line = line.expect("aimock ended before it listened");
                if let Some((_, url)) = line.split_once("listening on ") {
                    return url.trim().to_owned();
                }
            }
        };
        let url = tokio::time::timeout(START_LIMIT, started)
            .await
            .expect("aimock did not say where it listens");
        // It logs every request: unread, the pipe would fill up and stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Self {
            url,
            process,
            _fixtures: directory,
        }
    }

    /// The requests it got, oldest first.
    pub(crate) async fn journal(&self) -> Vec<Value> {
        let url = format!("{}/__aimock/journal", self.url);
        let client = http::client(&url).unwrap();
        let text = client.get(url).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Ends it and waits until it is gone.
    pub(crate) async fn stop(mut self) {
        self.process.kill().await.unwrap();
    }
}

/// A program of the test tools.
fn tool(name: &str) -> PathBuf {
    let path = tools().join("node_modules/.bin").join(name);
    assert!(
        path.exists(),
        "`{}` is missing: run `scripts/test`, which installs what the tests need",
        path.display()
    );
    path
}
