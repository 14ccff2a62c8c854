//! Requests of code at the socket: list a server's tools, or call one. One line of JSON each way.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::Shared;
use super::server::{Running, Server};
use crate::agent::tool_calls::{Permitted, ToolCall, ToolCallEnd};
use crate::task;

/// Maximum simultaneous requests.
const AT_ONCE: usize = 16;
/// Maximum bytes of a request.
const LONGEST: u64 = 16 << 20;
/// How long it may take to receive a request, and to send an answer.
const WITHIN: Duration = Duration::from_mins(1);

/// Serves requests until it is dropped.
pub(super) async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // For example, too many files are open.
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
    let answer = tokio::select! {
        answer = requested(&line, shared) => answer,
        // Interrupted code no longer waits for an answer.
        () = gone(&mut input) => return Ok(()),
    };
    let answer = match answer {
        Ok(result) => json!({ "result": result }),
        Err(words) => json!({ "error": words }),
    };
    let mut answer = answer.to_string().into_bytes();
    answer.push(b'\n');
    tokio::time::timeout(WITHIN, output.write_all(&answer)).await?
}

/// Waits until the other side closes the connection. Further input is ignored.
async fn gone(input: &mut (impl AsyncRead + Unpin)) {
    let mut piece = [0; 256];
    while let Ok(1..) = input.read(&mut piece).await {}
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
    let Some(tool) = text("tool") else {
        return Ok(json!(server.running().await?.tools));
    };
    let nothing = json!({});
    let arguments = request.get("arguments").filter(|it| it.is_object());
    let arguments = arguments.unwrap_or(&nothing);
    let (cell, result) = called(shared, (name, server), tool, arguments).await;
    let end = match &result {
        Ok(result) if result.get("isError") != Some(&Value::Bool(true)) => ToolCallEnd::Returned,
        Ok(_) | Err(NotCalled::Failed(_)) => ToolCallEnd::Failed,
        Err(NotCalled::Refused(_)) => ToolCallEnd::Refused,
    };
    let done = ToolCall::new(cell, (name, tool), arguments, end);
    shared.calls.record(done);
    result.map_err(NotCalled::words)
}

/// Why a call has no result, as text for the code.
enum NotCalled {
    Refused(String),
    Failed(String),
}

impl NotCalled {
    fn words(self) -> String {
        match self {
            Self::Refused(words) | Self::Failed(words) => words,
        }
    }
}

/// Calls a tool, if the running cell has permission. Also returns the cell.
async fn called(
    shared: &Shared,
    (name, server): (&str, &Server),
    tool: &str,
    arguments: &Value,
) -> (Option<String>, Result<Value, NotCalled>) {
    let Some((cell, permitted)) = shared.calls.permitted() else {
        let words = format!("`{tool}` is not called: tools can be called only while a cell runs");
        return (None, Err(NotCalled::Refused(words)));
    };
    let called = async {
        if permitted == Permitted::Nothing {
            return Err(NotCalled::Refused(format!(
                "`{tool}` is not called: what this cell does was not recognised as a call of a tool. Import the server in the same \
                 cell (`from sponde.tools import {name}`), and call its functions by their names"
            )));
        }
        let running = server.running().await.map_err(NotCalled::Failed)?;
        let only_reads = only_reads(&running, tool).map_err(NotCalled::Failed)?;
        if permitted == Permitted::Reads && !only_reads {
            return Err(NotCalled::Refused(format!(
                "`{tool}` may change something, so it is not called a second time when a cell runs again"
            )));
        }
        let result = server.call(&running, tool, arguments).await;
        result.map_err(NotCalled::Failed)
    };
    let result = called.await;
    (Some(cell), result)
}

/// Whether a tool declares that it is read-only.
fn only_reads(running: &Running, tool: &str) -> Result<bool, String> {
    let mut tools = running.tools.iter();
    let found = tools.find(|it| it.get("name").and_then(Value::as_str) == Some(tool));
    let found = found.ok_or_else(|| format!("the server has no tool `{tool}`"))?;
    let hint = found
        .get("annotations")
        .and_then(|it| it.get("readOnlyHint"));
    Ok(hint.and_then(Value::as_bool).unwrap_or_default())
}
