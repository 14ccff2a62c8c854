//! `run_code`, and following a turn to its end: progress, questions to the client's person, the result.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::call::{Call, Progress, Reply, reply_of};
use super::super::caller::Era;
use super::super::change::Change;
use super::super::parked::{Asking, Follow};
use super::super::resources::notebook_uri;
use super::super::state::McpServer;
use super::results::{of_answer, of_cell};
use super::{Arguments, Failed, arguments, default_session};
use crate::agent::{Command, Decision, EventKind, OutputChange};
use crate::jupyter::nbformat::Output;
use crate::rpc::RpcError;
use crate::session::summarize::plain;

/// Seconds that code may run unless told otherwise, and at most.
const TIMEOUT: u64 = 120;
const LONGEST: u64 = 24 * 3600;
/// Bytes of text of a result.
const TEXT: usize = 20_000;
const MOST_TEXT: usize = 400_000;
/// How often a client hears that something still runs.
const ALIVE: Duration = Duration::from_secs(5);
/// The name of the one question.
const QUESTION: &str = "answer";

/// What `run_code` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCode {
    /// The code. Its last expression is shown.
    code: String,
    /// Its language, such as python, r, bash or javascript; default is that of the session's main kernel.
    language: Option<String>,
    /// The session whose variables it uses.
    #[serde(default = "default_session")]
    session: String,
    /// Seconds after which it is interrupted; default is 120. Variables stay.
    timeout_s: Option<u64>,
    /// Bytes of text that you get of the output; default is 20000.
    max_output: Option<usize>,
}

/// Runs code.
pub(super) async fn run_code(
    server: &McpServer,
    params: &Map<String, Value>,
    call: &Call,
) -> Result<Value, RpcError> {
    let begun = begin(server, arguments(params), call).await;
    match begun {
        Ok(follow) => follow.finish(server, params, call).await,
        Err(failed) => Ok(failed.result()),
    }
}

async fn begin(
    server: &McpServer,
    arguments: Arguments<RunCode>,
    call: &Call,
) -> Result<Follow, Failed> {
    let RunCode {
        code,
        language,
        session,
        timeout_s,
        max_output,
    } = arguments?;
    let session = server.executor().session(&session).await?;
    let limit = Duration::from_secs(timeout_s.unwrap_or(TIMEOUT).clamp(1, LONGEST));
    let turn = session
        .run(&call.caller.name, code, language, Some(limit))
        .await?;
    Ok(Follow {
        session,
        turn,
        answer: None,
        most: max_output.unwrap_or(TEXT).min(MOST_TEXT),
        printed: String::new(),
        asking: None,
    })
}

/// Goes on with a turn whose client comes back with an answer.
pub(super) async fn go_on(
    server: &McpServer,
    params: &Map<String, Value>,
    call: &Call,
) -> Result<Value, RpcError> {
    let state = params
        .get("requestState")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let Some(mut follow) = server.parked().take(state, &called(params)) else {
        let gone = Failed::new("nothing waits for this answer: it was given already, came after ten minutes, or belongs to another call")
            .hint("call the tool again");
        return Ok(gone.result());
    };
    let answers = params.get("inputResponses");
    let answer = answers
        .and_then(|answers| answers.get(QUESTION))
        .map(reply_of);
    match (answer, follow.asking.take()) {
        (Some(reply), Some(asking)) => follow.deliver(asking, reply).await,
        // Asked again.
        (None, asking) => {
            follow.asking = asking;
            return Ok(follow.park(server, params));
        }
        (Some(_), None) => {}
    }
    follow.finish(server, params, call).await
}

/// What a retry has to repeat.
fn called(params: &Map<String, Value>) -> Value {
    json!([params.get("name"), params.get("arguments")])
}

impl Follow {
    /// Follows the turn to its end, or to a question that a client without a handshake comes back with.
    pub(super) async fn finish(
        mut self,
        server: &McpServer,
        params: &Map<String, Value>,
        client: &Call,
    ) -> Result<Value, RpcError> {
        let mut progress = Progress::of(params, client);
        loop {
            let next = tokio::time::timeout(ALIVE, self.turn.next()).await;
            let Ok(event) = next else {
                let last = match self.printed.trim() {
                    "" => format!("running for {} s", progress.seconds()),
                    printed => printed.to_owned(),
                };
                progress.tell(&last);
                continue;
            };
            let Some(event) = event else { break };
            let asking = match event {
                EventKind::Output { change, .. } => {
                    self.printed(&change, &mut progress);
                    None
                }
                EventKind::Text { text, .. } => {
                    self.answer.get_or_insert_default().push_str(&text);
                    None
                }
                EventKind::CodeProposed { source, .. } => {
                    // What was said before is on the way to the answer.
                    self.answer = self.answer.map(|_| String::new());
                    progress.tell(source.lines().next().unwrap_or_default());
                    None
                }
                EventKind::InputRequested {
                    cell,
                    prompt,
                    password,
                } => self.line(cell, prompt, password, client).await,
                EventKind::ApprovalRequested { cell, reason, .. } => {
                    self.approval(cell, reason, client).await
                }
                EventKind::ContinueRequested { .. } => {
                    let _ = self
                        .turn
                        .send(Command::Continue {
                            go_on: false,
                            words: None,
                        })
                        .await;
                    None
                }
                EventKind::TurnFinished { .. } => break,
                _ => None,
            };
            let Some(asking) = asking else { continue };
            self.asking = Some(asking.clone());
            if client.caller.era == Era::Modern {
                return Ok(self.park(server, params));
            }
            let asked = tokio::time::Instant::now();
            let reply = client.elicit(&asking.form(&self.session.name)).await;
            self.turn.extend(asked.elapsed());
            self.deliver(asking, reply).await;
        }
        Ok(self.result(server).await)
    }

    fn printed(&mut self, change: &OutputChange, progress: &mut Progress) {
        if let OutputChange::Append {
            output: Output::Stream { text, .. },
            ..
        } = change
        {
            let text = plain(text);
            let last = text.lines().rev().find(|line| !line.trim().is_empty());
            if let Some(last) = last {
                last.trim().clone_into(&mut self.printed);
            }
            progress.tell(&text);
        }
    }

    /// Code wants a line: `Some` if the client's person can be asked.
    async fn line(
        &mut self,
        cell: String,
        prompt: String,
        password: bool,
        client: &Call,
    ) -> Option<Asking> {
        let reason = if password {
            "passwords are not asked for over MCP: give the code what it needs by a file or an environment variable"
        } else if client.caller.elicits {
            return Some(Asking::Line { cell, prompt });
        } else {
            "this client cannot ask its user for input: write the value into the code"
        };
        let reason = reason.to_owned();
        let _ = self.turn.send(Command::RefuseInput { cell, reason }).await;
        None
    }

    async fn approval(&mut self, cell: String, reason: String, client: &Call) -> Option<Asking> {
        if client.caller.elicits {
            let id = cell.clone();
            let look = move |transcript: &crate::session::Transcript| {
                transcript.cell(&id).map(|cell| cell.source.clone())
            };
            let source = self.session.live.handle().look(look).await.ok().flatten();
            return Some(Asking::Approval {
                cell,
                reason,
                source: source.unwrap_or_default(),
            });
        }
        let decision = Decision::Decline {
            reason: Some("Nobody can be asked whether this code may run.".to_owned()),
        };
        let _ = self.turn.send(Command::Decide { cell, decision }).await;
        None
    }

    async fn deliver(&mut self, asking: Asking, reply: Reply) {
        let command = match (asking, reply) {
            (Asking::Line { cell, .. }, Reply::Value(content)) => {
                let value = content.get("value").and_then(Value::as_str);
                let value = value.unwrap_or_default().to_owned();
                Command::Reply { cell, value }
            }
            (Asking::Line { cell, .. }, Reply::None(reason)) => {
                Command::RefuseInput { cell, reason }
            }
            (Asking::Approval { cell, .. }, Reply::Value(content)) => {
                let runs = content.get("run").and_then(Value::as_bool) == Some(true);
                let decision = if runs {
                    Decision::Run
                } else {
                    Decision::Decline { reason: None }
                };
                Command::Decide { cell, decision }
            }
            (Asking::Approval { cell, .. }, Reply::None(reason)) => Command::Decide {
                cell,
                decision: Decision::Decline {
                    reason: Some(reason),
                },
            },
        };
        // Somebody else may have been first, or the code is over.
        let _ = self.turn.send(command).await;
    }

    /// Lets the turn wait for the client's next request.
    fn park(self, server: &McpServer, params: &Map<String, Value>) -> Value {
        let Some(asking) = self.asking.clone() else {
            return Failed::new("nothing is asked").result();
        };
        let form = asking.form(&self.session.name);
        match server.parked().park(self, called(params)) {
            Some(state) => json!({
                "resultType": "input_required",
                "inputRequests": { QUESTION: { "method": "elicitation/create", "params": form } },
                "requestState": state,
            }),
            None => Failed::new("too many runs wait for an answer, and this one was interrupted")
                .hint("answer those first")
                .result(),
        }
    }

    async fn result(self, server: &McpServer) -> Value {
        let Self {
            session,
            turn,
            answer,
            most,
            ..
        } = self;
        let outcome = turn.outcome().clone();
        drop(turn);
        server.changed(Change::List);
        server.changed(Change::Updated(notebook_uri(&session.name)));
        let cell = outcome.cells.last().cloned();
        let result = match &cell {
            Some(cell) => session.result(cell, most, server.preparer()).await,
            None => None,
        };
        match answer {
            Some(answer) => of_answer(server, &session, &outcome, &answer).await,
            None => of_cell(
                &session,
                &outcome,
                cell.as_deref(),
                result.unwrap_or_default(),
            ),
        }
    }
}

impl Asking {
    /// The form that a person fills in.
    fn form(&self, session: &str) -> Value {
        match self {
            Self::Line { prompt, .. } => {
                let prompt = prompt.trim();
                let prompt = if prompt.is_empty() { "input" } else { prompt };
                json!({
                    "mode": "form",
                    "message": format!("The code in session `{session}` asks: {prompt}"),
                    "requestedSchema": {
                        "type": "object",
                        "properties": { "value": { "type": "string", "title": prompt } },
                        "required": ["value"],
                    },
                })
            }
            Self::Approval { reason, source, .. } => json!({
                "mode": "form",
                "message": format!("May this code run? {reason}\n\n{source}"),
                "requestedSchema": {
                    "type": "object",
                    "properties": { "run": { "type": "boolean", "title": "Run it" } },
                    "required": ["run"],
                },
            }),
        }
    }
}
