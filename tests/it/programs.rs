//! What other programs call: each wire with its own, unmodified client, on real kernels in the sandbox.

mod acp;
mod conformance;
mod dify;
mod e2b;
mod e2b_agents;
mod e2b_missing;
mod librechat;
mod mcp;
mod mcp_app;
mod openai;
mod python;
mod terminal;
mod tools;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Sponde, tools};

/// The Python environment that has the clients.
fn python() -> PathBuf {
    python_of("program-clients")
}

/// The Python of an environment that `scripts/test` makes.
fn python_of(environment: &str) -> PathBuf {
    let python = tools().join(environment).join("bin/python");
    assert!(
        python.exists(),
        "`{}` is not there: run scripts/test once, it installs what the tests need",
        python.display()
    );
    python
}

fn fixture(name: &str) -> PathBuf {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/programs");
    fixtures.join(name)
}

/// How a client starts the program in the home of `sponde`.
fn start(sponde: &Sponde, arguments: &[&str]) -> Value {
    let command = sponde.command(arguments);
    let text = |it: &std::ffi::OsStr| it.to_string_lossy().into_owned();
    let variables = command.get_envs();
    let variables = variables.filter_map(|(name, value)| Some((text(name), text(value?))));
    let variables: serde_json::Map<String, Value> = variables
        .map(|(name, value)| (name, Value::from(value)))
        .collect();
    json!({
        "command": text(command.get_program()),
        "args": arguments,
        "cwd": sponde.path("").display().to_string(),
        "env": variables,
    })
}

/// Runs a client to its end. Returns the JSON of its last line.
fn seen(command: &mut Command) -> Value {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let last = stdout.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|_| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        panic!("{}\n{stdout}\n{stderr}", output.status)
    })
}

/// The program with its two pipes.
struct Pipes {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipes {
    fn start(sponde: &Sponde, arguments: &[&str]) -> Self {
        let mut child = sponde
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        Self {
            child,
            input,
            output,
        }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
    }

    fn asked(&mut self, message: &Value) -> Value {
        self.send(&message.to_string());
        self.next()
    }

    /// The client's pipe closes: the program ends by itself.
    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
    }
}
