//! Commands of a sandbox, as `process.proto` has them: streams of what a command says, and requests with one answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::failure::E2bFailure;
use super::frame::{self, Frames};
use super::missing::Missing;
use super::{InSandbox, body, parse, parsed};
use crate::app::sandboxes::{
    Events, Input, ProcessEvent, ProcessInfo, ProcessRequest, ProgramSandbox, Stream, TerminalSize,
    Which,
};
use crate::server::extract::Path;

/// After so much silence there is a message that says nothing, unless the client says how often.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long the next message of a client's stream may take.
const WITHIN: Duration = Duration::from_mins(5);

/// `ProcessConfig`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Config {
    cmd: String,
    args: Vec<String>,
    envs: std::collections::BTreeMap<String, String>,
    cwd: Option<String>,
}

/// `StartRequest`.
#[derive(Deserialize)]
struct Start {
    process: Config,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

/// `PTY`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Pty {
    size: Size,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Size {
    cols: u32,
    rows: u32,
}

/// `ProcessSelector`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

/// `ProcessInput`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Sent {
    stdin: Option<String>,
    pty: Option<String>,
}

/// What the others take.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Wanted {
    process: Selector,
    input: Sent,
    signal: Value,
    pty: Option<Pty>,
}

/// `StreamInputRequest`.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Streamed {
    start: Option<StreamedStart>,
    data: Option<StreamedData>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamedStart {
    process: Selector,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StreamedData {
    input: Sent,
}

/// Answers a request.
pub(super) async fn call(
    InSandbox(sandbox): InSandbox,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    match method.as_str() {
        "Start" | "Connect" => {
            let headers = request.headers().clone();
            let begun = begin(&sandbox, method == "Start", &headers, request).await;
            match begun {
                Ok((pid, events)) => follow(pid, events, &headers, sandbox.ended().clone()),
                Err(failure) => frame::refused(&failure),
            }
        }
        "StreamInput" => match stream_input(&sandbox, request).await {
            Ok(()) => {
                let answer = [frame::message(&json!({})), frame::end(None)].concat();
                ([(CONTENT_TYPE, "application/connect+json")], answer).into_response()
            }
            Err(failure) => frame::refused(&failure),
        },
        _ => match once(&sandbox, &method, request).await {
            Ok(answer) => (StatusCode::OK, Json(answer)).into_response(),
            Err(failure) => failure.into_connect(),
        },
    }
}

async fn begin(
    sandbox: &Arc<ProgramSandbox>,
    is_new: bool,
    headers: &HeaderMap,
    request: Request,
) -> Result<(u32, Events), E2bFailure> {
    let mut frames = Frames::default();
    frames.add(&body(request).await?);
    let message = frames.next()?;
    let message = message.ok_or_else(|| invalid("the stream has no message"))?;
    if !is_new {
        let wanted: Wanted = parse(&message)?;
        return Ok(sandbox.processes().follow(&wanted.process.which()?)?);
    }
    let start: Start = parse(&message)?;
    let mut argv = vec![start.process.cmd];
    argv.extend(start.process.args);
    let request = ProcessRequest {
        argv,
        variables: start.process.envs.into_iter().collect(),
        cwd: start.process.cwd.filter(|it| !it.is_empty()),
        tag: start.tag,
        stdin: start.stdin.unwrap_or(true),
        terminal: start.pty.map(|it| it.size()),
        limit: millis(headers, "connect-timeout-ms", 1),
    };
    let sandbox = Arc::clone(sandbox);
    // Starting it waits for a fork.
    let started = tokio::task::spawn_blocking(move || sandbox.spawn(request)).await;
    let started = started
        .map_err(|error| E2bFailure::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(started?)
}

fn millis(headers: &HeaderMap, name: &str, unit: u64) -> Option<Duration> {
    let value = headers.get(name)?.to_str().ok()?.parse::<u64>().ok()?;
    Some(Duration::from_millis(value.checked_mul(unit)?)).filter(|it| !it.is_zero())
}

/// What a command says, to its end. It goes on if the client does not.
fn follow(pid: u32, events: Events, headers: &HeaderMap, ended: CancellationToken) -> Response {
    let every = millis(headers, "keepalive-ping-interval", 1000).unwrap_or(KEEPALIVE);
    let started = frame::message(&json!({ "event": { "start": { "pid": pid } } }));
    let first = futures_util::stream::once(async move { Ok::<_, std::io::Error>(started) });
    let rest = futures_util::stream::unfold(Some((events, ended)), move |following| async move {
        let (mut events, ended) = following?;
        let event = tokio::select! {
            biased;
            () = ended.cancelled() => {
                let error = std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "the sandbox has ended");
                return Some((Err(error), None));
            }
            event = tokio::time::timeout(every, events.recv()) => event,
        };
        Some(match event {
            Err(_) => {
                let nothing = frame::message(&json!({ "event": { "keepalive": {} } }));
                (Ok(nothing), Some((events, ended)))
            }
            Ok(Some(ProcessEvent::Output(stream, bytes))) => {
                (Ok(output(stream, &bytes)), Some((events, ended)))
            }
            Ok(Some(last)) => (Ok(last_of(&last)), None),
            Ok(None) => {
                let gone = E2bFailure::new(StatusCode::SERVICE_UNAVAILABLE, "the command is gone");
                (Ok(frame::end(Some(&gone))), None)
            }
        })
    });
    let body = Body::from_stream(first.chain(rest));
    ([(CONTENT_TYPE, "application/connect+json")], body).into_response()
}

fn output(stream: Stream, bytes: &Bytes) -> Bytes {
    let name = match stream {
        Stream::Stdout => "stdout",
        Stream::Stderr => "stderr",
        Stream::Terminal => "pty",
    };
    frame::message(&json!({ "event": { "data": { name: STANDARD.encode(bytes) } } }))
}

/// How a command ended, and the end of the stream.
fn last_of(event: &ProcessEvent) -> Bytes {
    let end = match event {
        ProcessEvent::Exited(code) => {
            json!({ "exitCode": code, "exited": true, "status": format!("exit status {code}") })
        }
        ProcessEvent::Signalled(signal) => {
            let status = match signal {
                9 => "signal: killed".to_owned(),
                15 => "signal: terminated".to_owned(),
                other => format!("signal: {other}"),
            };
            json!({ "exitCode": -1, "exited": false, "status": status, "error": status })
        }
        ProcessEvent::TimedOut => {
            let late = E2bFailure::new(StatusCode::GATEWAY_TIMEOUT, "the command's time was up");
            return frame::end(Some(&late));
        }
        // Not the last one.
        ProcessEvent::Output(stream, bytes) => return output(*stream, bytes),
    };
    let end = frame::message(&json!({ "event": { "end": end } }));
    [end, frame::end(None)].concat().into()
}

/// Input in pieces; each is given to the command as it comes.
async fn stream_input(sandbox: &Arc<ProgramSandbox>, request: Request) -> Result<(), E2bFailure> {
    let mut pieces = request.into_body().into_data_stream();
    let (mut frames, mut which) = (Frames::default(), None);
    loop {
        let piece = tokio::time::timeout(WITHIN, pieces.next()).await;
        let piece = piece.map_err(|_| invalid("the input did not arrive in time"))?;
        let Some(piece) = piece else {
            return Ok(());
        };
        frames.add(&piece.map_err(|error| invalid(&error.to_string()))?);
        while let Some(message) = frames.next()? {
            let streamed: Streamed = parse(&message)?;
            if let Some(start) = streamed.start {
                which = Some(start.process.which()?);
            }
            if let Some(data) = streamed.data {
                let which = which.as_ref();
                let which =
                    which.ok_or_else(|| invalid("the stream does not say to which command"))?;
                let (to, bytes) = data.input.bytes()?;
                sandbox.processes().write(which, to, &bytes).await?;
            }
        }
    }
}

async fn once(
    sandbox: &Arc<ProgramSandbox>,
    method: &str,
    request: Request,
) -> Result<Value, E2bFailure> {
    let processes = sandbox.processes();
    let wanted: Wanted = parsed(request).await?;
    match method {
        "List" => {
            let all: Vec<Value> = processes.list().iter().map(shown).collect();
            return Ok(json!({ "processes": all }));
        }
        "SendInput" => {
            let (to, bytes) = wanted.input.bytes()?;
            let which = wanted.process.which()?;
            processes.write(&which, to, &bytes).await?;
        }
        // There is nothing else about a command that could become another.
        "Update" => {
            let pty = wanted.pty;
            let pty =
                pty.ok_or_else(|| invalid("the request does not say what becomes another"))?;
            processes.resize(&wanted.process.which()?, pty.size())?;
        }
        "CloseStdin" => processes.close_stdin(&wanted.process.which()?).await?,
        "SendSignal" => {
            let kills = match &wanted.signal {
                Value::String(name) if name == "SIGNAL_SIGKILL" => true,
                Value::String(name) if name == "SIGNAL_SIGTERM" => false,
                Value::Number(number) if number.as_u64() == Some(9) => true,
                Value::Number(number) if number.as_u64() == Some(15) => false,
                other => {
                    return Err(invalid(&format!(
                        "`{other}` is no signal: SIGKILL and SIGTERM are"
                    )));
                }
            };
            processes.signal(&wanted.process.which()?, kills)?;
        }
        other => return Err(Missing::Call(format!("`{other}` of commands")).into()),
    }
    Ok(json!({}))
}

fn shown(info: &ProcessInfo) -> Value {
    let request = &info.request;
    let (cmd, args) = request
        .argv
        .split_first()
        .map_or(("", [].as_slice()), |(cmd, args)| (cmd.as_str(), args));
    let envs: serde_json::Map<String, Value> = request
        .variables
        .iter()
        .map(|(name, value)| (name.clone(), value.clone().into()))
        .collect();
    let mut config = json!({ "cmd": cmd, "args": args, "envs": envs });
    if let (Some(fields), Some(cwd)) = (config.as_object_mut(), &request.cwd) {
        fields.insert("cwd".to_owned(), cwd.clone().into());
    }
    let mut shown = json!({ "config": config, "pid": info.pid });
    if let (Some(fields), Some(tag)) = (shown.as_object_mut(), &request.tag) {
        fields.insert("tag".to_owned(), tag.clone().into());
    }
    shown
}

impl Selector {
    fn which(self) -> Result<Which, E2bFailure> {
        match (self.pid, self.tag) {
            (Some(pid), _) => Ok(Which::Pid(pid)),
            (None, Some(tag)) => Ok(Which::Tag(tag)),
            (None, None) => Err(invalid("the request does not say which command is meant")),
        }
    }
}

impl Pty {
    fn size(&self) -> TerminalSize {
        let part = |it: u32| u16::try_from(it).unwrap_or(u16::MAX);
        TerminalSize {
            columns: part(self.size.cols),
            rows: part(self.size.rows),
        }
    }
}

impl Sent {
    fn bytes(self) -> Result<(Input, Vec<u8>), E2bFailure> {
        let (to, text) = match (self.stdin, self.pty) {
            (Some(text), _) => (Input::Stdin, text),
            (None, Some(text)) => (Input::Terminal, text),
            (None, None) => return Err(invalid("the request has no input")),
        };
        let decoded = STANDARD.decode(text);
        let bytes = decoded.map_err(|error| invalid(&format!("the input is not base64: {error}")));
        Ok((to, bytes?))
    }
}

fn invalid(message: &str) -> E2bFailure {
    E2bFailure::new(StatusCode::BAD_REQUEST, message.to_owned())
}
