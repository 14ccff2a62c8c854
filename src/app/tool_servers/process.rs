//! One server: started with its first call, asked by JSON-RPC over its pipes, started again if it has ended.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::BufReader;
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::app::Context;
use crate::child::{Lifetime, Supervised};
use crate::config::tools::{ToolServer, Variable};
use crate::llm::key_command;
use crate::rpc::{self, Incoming, Line, Questions, RpcError, Unanswered, notification};
use crate::task::{self, Task};

/// The version of the protocol that we speak; servers of later ones speak it too.
const VERSION: &str = "2025-06-18";
/// How long a server may take to be there: a package may be fetched first.
const START: Duration = Duration::from_mins(2);
/// How long a call may take, unless the configuration says otherwise.
const CALL: Duration = Duration::from_mins(1);
/// Bytes of a message from a server.
const LONGEST: usize = 16 << 20;
/// Messages that wait for it to read.
const OUTBOX: usize = 64;
/// Tools of a server.
const TOOLS: usize = 1000;
/// How often it is started in a session.
const STARTS: usize = 10;
/// Variables that every server gets.
const USUAL: [&str; 12] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A configured server.
pub(super) struct Server {
    name: String,
    config: ToolServer,
    context: Context,
    state: tokio::sync::Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Arc<Running>>,
    starts: usize,
}

/// A server that runs.
pub(super) struct Running {
    /// Its tools as it describes them.
    pub(super) tools: Vec<Value>,
    link: Link,
    _process: Supervised,
}

/// The pipes of a process.
struct Link {
    outlet: mpsc::Sender<Value>,
    questions: Arc<Questions>,
    over: CancellationToken,
    /// Why it is over, if we ended it.
    reason: Arc<Mutex<Option<String>>>,
    _tasks: [Task; 2],
}

impl Server {
    pub(super) fn new(name: &str, config: ToolServer, context: Context) -> Self {
        Self {
            name: name.to_owned(),
            config,
            context,
            state: tokio::sync::Mutex::default(),
        }
    }

    /// It, running.
    ///
    /// # Errors
    /// Words for the code that calls.
    pub(super) async fn running(&self) -> Result<Arc<Running>, String> {
        let mut state = self.state.lock().await;
        if let Some(running) = state
            .running
            .as_ref()
            .filter(|it| !it.link.over.is_cancelled())
        {
            return Ok(Arc::clone(running));
        }
        state.running = None;
        if state.starts >= STARTS {
            return Err(format!(
                "the MCP server `{}` ended {STARTS} times and is not started again in this session",
                self.name
            ));
        }
        state.starts += 1;
        let started = tokio::time::timeout(START, self.start()).await;
        let started = started.unwrap_or_else(|_| Err("it is not there after 2 minutes".to_owned()));
        let running = started.map_err(|error| {
            format!(
                "the MCP server `{}` could not be started: {error}",
                self.name
            )
        })?;
        let running = Arc::new(running);
        state.running = Some(Arc::clone(&running));
        Ok(running)
    }

    /// Calls a tool of it.
    ///
    /// # Errors
    /// Words for the code that calls.
    pub(super) async fn call(
        &self,
        running: &Running,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, String> {
        let limit = self.config.seconds.map_or(CALL, Duration::from_secs);
        let params = json!({ "name": tool, "arguments": arguments });
        let called = running.link.ask("tools/call", &params, limit).await;
        called.map_err(|error| {
            let what = match error {
                Unanswered::Late => format!(
                    "did not answer within {} s and was given up",
                    limit.as_secs()
                ),
                Unanswered::Gone => format!("has ended{}", running.link.why()),
                Unanswered::Refused(words) => format!("answered with an error: {words}"),
                Unanswered::TooMany => "has too many calls at a time".to_owned(),
            };
            format!("`{tool}`: the MCP server `{}` {what}", self.name)
        })
    }

    async fn start(&self) -> Result<Running, String> {
        let mut command = Command::new(&self.config.command);
        let environment = &self.context.paths.environment;
        command
            .args(&self.config.args)
            .env_clear()
            .envs(
                USUAL
                    .iter()
                    .filter_map(|name| Some((*name, environment.get(name)?))),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (name, variable) in &self.config.env {
            command.env(name, self.value(variable).await?);
        }
        if let Some(cwd) = environment.cwd() {
            command.current_dir(cwd);
        }
        let mut process = Supervised::spawn(command, Lifetime::Parent)
            .map_err(|error| format!("`{}`: {error}", self.config.command))?;
        let pipes = process.child.stdin.take().zip(process.child.stdout.take());
        let (stdin, stdout) = pipes.ok_or("it has no pipes")?;
        let link = Link::new(stdin, stdout);
        let tools = link.introduce().await.map_err(|error| match error {
            Unanswered::Gone => format!("it ended{}", link.why()),
            other => other.to_string(),
        })?;
        Ok(Running {
            tools,
            link,
            _process: process,
        })
    }

    /// The value of a variable, which nobody else sees.
    async fn value(&self, variable: &Variable) -> Result<String, String> {
        let value = match variable {
            Variable::Plain(value) => return Ok(value.clone()),
            Variable::FromEnv(from) => {
                let value = self.context.paths.environment.get(&from.env);
                value
                    .ok_or_else(|| format!("the variable `{}` is not set", from.env))?
                    .to_owned()
            }
            Variable::FromCommand(from) => {
                let printed = key_command::run(&from.command, key_command::LIMIT).await;
                printed
                    .map_err(|error| error.to_string())?
                    .expose()
                    .to_owned()
            }
        };
        self.context.redactor.add(&value);
        Ok(value)
    }
}

impl Link {
    fn new(stdin: tokio::process::ChildStdin, stdout: ChildStdout) -> Self {
        let (outlet, messages) = mpsc::channel(OUTBOX);
        let questions: Arc<Questions> = Arc::default();
        let over = CancellationToken::new();
        let reason: Arc<Mutex<Option<String>>> = Arc::default();
        let writing = task::spawn("mcp server input", rpc::write(messages, stdin));
        let (answers, asked) = (outlet.clone(), Arc::clone(&questions));
        let (ends, why) = (over.clone(), Arc::clone(&reason));
        let reading = task::spawn("mcp server output", async move {
            if let Some(words) = read(stdout, &answers, &asked).await {
                *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
            }
            ends.cancel();
            asked.close();
        });
        Self {
            outlet,
            questions,
            over,
            reason,
            _tasks: [writing, reading],
        }
    }

    /// Why it is over, as a part of a sentence.
    fn why(&self) -> String {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        reason
            .as_ref()
            .map_or_else(String::new, |reason| format!(" ({reason})"))
    }

    async fn ask(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, Unanswered> {
        if self.over.is_cancelled() {
            return Err(Unanswered::Gone);
        }
        let mut question = self.questions.ask(&self.outlet, method, params).await?;
        let answered = question.answered(limit).await;
        if answered == Err(Unanswered::Late) {
            let params = json!({ "requestId": question.id(), "reason": "the time is up" });
            // One that reads nothing is not waited for.
            let _ = self
                .outlet
                .try_send(notification("notifications/cancelled", &params));
        }
        answered
    }

    /// Shakes hands, and returns the tools.
    async fn introduce(&self) -> Result<Vec<Value>, Unanswered> {
        let client = json!({ "name": "sponde", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": client });
        self.ask("initialize", &hello, START).await?;
        let ready = notification("notifications/initialized", &json!({}));
        self.outlet
            .send(ready)
            .await
            .map_err(|_| Unanswered::Gone)?;
        let mut tools = Vec::new();
        let mut cursor = Value::Null;
        while tools.len() < TOOLS {
            let params = match &cursor {
                Value::Null => json!({}),
                cursor => json!({ "cursor": cursor }),
            };
            let mut page = self.ask("tools/list", &params, START).await?;
            if let Some(Value::Array(more)) = page.get_mut("tools").map(Value::take) {
                tools.extend(more);
            }
            cursor = page
                .get_mut("nextCursor")
                .map(Value::take)
                .unwrap_or_default();
            if cursor.is_null() {
                break;
            }
        }
        tools.truncate(TOOLS);
        Ok(tools)
    }
}

/// Reads what a server says until it ends, or must be ended for this reason.
async fn read(
    stdout: ChildStdout,
    answers: &mpsc::Sender<Value>,
    questions: &Questions,
) -> Option<String> {
    let mut stdout = BufReader::with_capacity(64 << 10, stdout);
    let mut line = Vec::new();
    loop {
        match rpc::next_line(&mut stdout, &mut line, LONGEST).await {
            Ok(Line::Whole) => {}
            Ok(Line::TooLong) => {
                return Some(format!(
                    "a message of it had more than {} MiB",
                    LONGEST >> 20
                ));
            }
            Ok(Line::End) | Err(_) => return None,
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        // What is no message is not ours to answer.
        match rpc::parse(&line) {
            Ok(Incoming::Response { id, outcome }) => questions.answer(&id, outcome),
            Ok(Incoming::Request(request)) => {
                let outcome = match request.method.as_str() {
                    "ping" => Ok(Value::Object(Map::new())),
                    other => Err(RpcError::no_method(other)),
                };
                // One that asks more than it reads gets no answer.
                let _ = answers.try_send(rpc::answer(&request.id, outcome));
            }
            Ok(Incoming::Notification { .. }) | Err(_) => {}
        }
    }
}
