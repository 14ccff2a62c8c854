//! The E2B tools of agent frameworks, unmodified, on real kernels in the sandbox. Where a loop of an agent runs, a scripted model
//! says what the agent calls.

use std::process::Command;

use serde_json::{Value, json};

use super::e2b::Server;
use super::{fixture, python_of, seen};
use crate::support::Sponde;

/// What `program` sees, with the packages of `environment`.
fn seen_by(program: &str, environment: &str) -> Value {
    let sponde = Sponde::new();
    let server = Server::start(&sponde, &[]);
    let target = json!({ "url": server.url, "token": server.token });
    let mut client = Command::new(python_of(environment));
    client
        .arg(fixture("e2b_agents.py"))
        .arg(program)
        .arg(target.to_string());
    let seen = seen(&mut client);
    server.end(&sponde);
    seen
}

/// `crewai-tools`: `E2BPythonTool`, `E2BExecTool` and `E2BFileTool`, then a crew with a scripted model.
#[test]
fn crewai_runs_a_plot() {
    assert_eq!(
        seen_by("crewai", "crewai"),
        json!({
            "tool": [["shown\n"], "42", null],
            "picture": [true],
            "error": ["ZeroDivisionError", "division by zero"],
            "left": 0,
            "kept": "set",
            "command": "plot.png\nset\n",
            "file": [300, 200],
            "closed": 0,
            "crew": "plotted",
            "crew_saw": true,
        })
    );
}

/// `langchain-e2b`: a deep agent with a scripted model in `E2BSandbox`, and `AsyncE2BSandbox`.
#[test]
fn langchain_runs_a_plot() {
    assert_eq!(
        seen_by("langchain", "agents"),
        json!({
            "tools": ["edit_file", "execute", "grep", "write_file"],
            "executed": "saved",
            "found": true,
            "last": "plotted",
            "picture": [null, [300, 200]],
            "edited": true,
            "listed": ["/home/user/plot.png", "/home/user/plot.py"],
            "failed": ["no\n", 3],
            "late": 124,
            "missing": "file_not_found",
            "async": ["saved\n", [300, 200]],
        })
    );
}

/// `openai-agents`: a `SandboxAgent` with a scripted model on `E2BSandboxClient`: files, a command, a terminal, a picture.
#[test]
fn the_openai_agents_sdk_runs_a_plot() {
    assert_eq!(
        seen_by("openai", "agents"),
        json!({
            "last": "plotted",
            "executed": "saved",
            "terminal": true,
            "picture": [300, 200],
            "left": 0,
        })
    );
}

/// `smolagents`: a `CodeAgent` with a scripted model and `executor_type="e2b"`.
#[test]
fn smolagents_runs_a_plot() {
    assert_eq!(
        seen_by("smolagents", "agents"),
        json!({
            "shown": [true, true],
            "saved": "Execution logs:\nsaved\nLast output from code snippet:\nNone",
            "answer": [300, 200],
            "state": "42",
            "error": ["AgentError", true],
            "during": 1,
            "left": 0,
        })
    );
}
