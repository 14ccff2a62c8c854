//! One server: started on its first call, asked over JSON-RPC, and restarted if it has ended.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::http::Http;
use super::messages::NoResult;
use super::pipes::Pipes;
use crate::app::Context;
use crate::config::tools::{Reached, ToolServer, Variable};
use crate::llm::key_command;

/// Our protocol version; servers of later versions also support it.
const VERSION: &str = "2025-06-18";
/// How long a server may take to start: it may have to download a package first.
const START: Duration = Duration::from_mins(2);
/// Default time limit of a call.
const CALL: Duration = Duration::from_mins(1);
/// Maximum tools of a server.
const TOOLS: usize = 1000;
/// Maximum starts in a session.
const STARTS: usize = 10;

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

/// A running server.
pub(super) struct Running {
    /// Its tools, in its own description.
    pub(super) tools: Vec<Value>,
    link: Link,
}

/// The connection to a server.
enum Link {
    Pipes(Pipes),
    Http(Http),
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

    /// The running server, started if necessary.
    ///
    /// # Errors
    /// A message for the code that calls.
    pub(super) async fn running(&self) -> Result<Arc<Running>, String> {
        let mut state = self.state.lock().await;
        if let Some(running) = state.running.as_ref().filter(|it| !it.link.is_over()) {
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
        let started = started.unwrap_or_else(|_| Err(NoResult::Late(START).to_string()));
        let running = started.map_err(|error| {
            format!(
                "the MCP server `{}` could not be started: it {error}",
                self.name
            )
        })?;
        let running = Arc::new(running);
        state.running = Some(Arc::clone(&running));
        Ok(running)
    }

    /// Calls one of its tools.
    ///
    /// # Errors
    /// A message for the code that calls.
    pub(super) async fn call(
        &self,
        running: &Running,
        tool: &str,
        arguments: &Value,
    ) -> Result<Value, String> {
        let limit = self.config.seconds.map_or(CALL, Duration::from_secs);
        let params = json!({ "name": tool, "arguments": arguments });
        let called = running.link.ask("tools/call", &params, limit).await;
        called.map_err(|error| format!("`{tool}`: the MCP server `{}` {error}", self.name))
    }

    /// Starts it. An error completes a sentence about it.
    async fn start(&self) -> Result<Running, String> {
        let mut variables = Vec::new();
        for (name, variable) in self.config.reached.variables() {
            variables.push((name.clone(), self.value(variable).await?));
        }
        let link = match &self.config.reached {
            Reached::Program { command, args, .. } => {
                Link::Pipes(Pipes::start(command, args, &variables, &self.context)?)
            }
            Reached::Address { url, .. } => Link::Http(Http::new(url, &variables)?),
        };
        let tools = link.introduce().await.map_err(|error| error.to_string())?;
        Ok(Running { tools, link })
    }

    /// The value of a variable. A key is redacted everywhere else.
    async fn value(&self, variable: &Variable) -> Result<String, String> {
        let (prefix, value) = match variable {
            Variable::Plain(value) => return Ok(value.clone()),
            Variable::FromEnv(from) => {
                let value = self.context.paths.environment.get(&from.env);
                let value = value.ok_or_else(|| {
                    format!("needs the variable `{}`, which is not set", from.env)
                })?;
                (&from.prefix, value.to_owned())
            }
            Variable::FromCommand(from) => {
                let printed = key_command::run(&from.command, key_command::LIMIT).await;
                let printed = printed.map_err(|error| format!("has no key: {error}"))?;
                (&from.prefix, printed.expose().to_owned())
            }
        };
        self.context.redactor.add(&value);
        Ok(format!("{prefix}{value}"))
    }
}

impl Link {
    fn is_over(&self) -> bool {
        match self {
            Self::Pipes(pipes) => pipes.is_over(),
            Self::Http(http) => http.is_over(),
        }
    }

    async fn ask(&self, method: &str, params: &Value, limit: Duration) -> Result<Value, NoResult> {
        match self {
            Self::Pipes(pipes) => pipes.ask(method, params, limit).await,
            Self::Http(http) => http.ask(method, params, limit).await,
        }
    }

    async fn tell(&self, method: &str, params: &Value) -> Result<(), NoResult> {
        match self {
            Self::Pipes(pipes) => pipes.tell(method, params).await,
            Self::Http(http) => http.tell(method, params).await,
        }
    }

    /// Shakes hands, and returns the tools.
    async fn introduce(&self) -> Result<Vec<Value>, NoResult> {
        let client = json!({ "name": "sponde", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": VERSION, "capabilities": {}, "clientInfo": client });
        let hello = self.ask("initialize", &hello, START).await?;
        if let Self::Http(http) = self {
            http.agreed(&hello);
        }
        self.tell("notifications/initialized", &json!({})).await?;
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
        // Code makes functions from their names.
        tools.retain(|tool| tool.get("name").is_some_and(Value::is_string));
        Ok(tools)
    }
}
