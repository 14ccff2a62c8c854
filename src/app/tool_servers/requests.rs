//! What code asks at the socket: the tools of a server, or a call of one. A line of JSON in, a line out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::Shared;
use super::process::Running;
use crate::session::transcript::Author;
use crate::session::{CodeStatus, Transcript};
use crate::task;

/// Requests at a time.
const AT_ONCE: usize = 16;
/// Bytes of a request.
const LONGEST: u64 = 16 << 20;
/// How long a request may take to arrive, and an answer to be read.
const WITHIN: Duration = Duration::from_mins(1);
/// What the code of a cell says that calls tools which change something.
const MENTION: &str = "sponde.tools";

/// Answers until it is dropped.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open, say.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = Arc::clone(&shared);
        task::spawn("mcp tool call", async move {
            let _slot = slot;
            if let Err(error) = answer(stream, &shared).await {
                tracing::debug!(%error, "code that calls a tool went away");
            }
        })
        .detach();
    }
}

async fn answer(stream: UnixStream, shared: &Shared) -> std::io::Result<()> {
    let (input, mut output) = stream.into_split();
    let mut line = Vec::new();
    let mut input = BufReader::new(input.take(LONGEST));
    tokio::time::timeout(WITHIN, input.read_until(b'\n', &mut line)).await??;
    let answer = match requested(&line, shared).await {
        Ok(result) => json!({ "result": result }),
        Err(words) => json!({ "error": words }),
    };
    let mut answer = answer.to_string().into_bytes();
    answer.push(b'\n');
    tokio::time::timeout(WITHIN, output.write_all(&answer)).await?
}

async fn requested(line: &[u8], shared: &Shared) -> Result<Value, String> {
    let request: Value = serde_json::from_slice(line)
        .map_err(|error| format!("the request is not JSON: {error}"))?;
    let text = |name: &str| request.get(name).and_then(Value::as_str);
    let name = text("server").ok_or("the request names no server")?;
    let server = shared
        .servers
        .get(name)
        .ok_or_else(|| format!("there is no MCP server `{name}`"))?;
    let running = server.running().await?;
    let Some(tool) = text("tool") else {
        return Ok(json!(running.tools));
    };
    if !only_reads(&running, tool)? && !may_change(shared).await {
        return Err(format!(
            "`{tool}` may change something, and this cell does not say that it uses tools: import the server in the same cell, with \
             `from sponde.tools import {name}`"
        ));
    }
    let arguments = request.get("arguments").filter(|it| it.is_object());
    server
        .call(&running, tool, arguments.unwrap_or(&json!({})))
        .await
}

/// Whether a tool says that it changes nothing.
fn only_reads(running: &Running, tool: &str) -> Result<bool, String> {
    let mut tools = running.tools.iter();
    let found = tools.find(|it| it.get("name").and_then(Value::as_str) == Some(tool));
    let found = found.ok_or_else(|| format!("the server has no tool `{tool}`"))?;
    let hint = found
        .get("annotations")
        .and_then(|it| it.get("readOnlyHint"));
    Ok(hint.and_then(Value::as_bool).unwrap_or_default())
}

/// Whether a cell runs that was judged as one that calls tools, or that a person wrote.
async fn may_change(shared: &Shared) -> bool {
    let Some(session) = shared.session.get() else {
        return false;
    };
    let calls_tools = |transcript: &Transcript| {
        transcript.cells().iter().rev().any(|cell| {
            cell.code().is_some_and(|code| {
                code.status == CodeStatus::Running
                    && (code.author == Author::Person || cell.source.contains(MENTION))
            })
        })
    };
    session.look(calls_tools).await.unwrap_or_default()
}
