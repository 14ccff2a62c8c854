//! `/v1/chat/completions`: a session behind a chat. A named chat continues its session, which is only asked the user's
//! last message. Without a name, each request is asked in full in a new session, which ends with it.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::super::extract::Json as Body;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::building::End;
use super::conversation::{Asking, Step, ask};
use super::ids::random;
use super::input::Input;
use super::outgoing::{Framing, OUTBOX, stream};
use super::responses::end_of;
use super::{Answer, Refused, unsupported};
use crate::agent::Totals;
use crate::app::containers::{ContainerError, MINUTES};
use crate::app::executor::ShownOutput;
use crate::task;

/// The header with the chat's name.
const SESSION: &str = "x-sponde-session";
/// Maximum characters of a chat's name.
const NAME: usize = 200;
/// Minutes that a named chat is kept without use: a day.
const KEPT: u32 = 24 * 60;

/// A parsed request.
struct Wanted {
    model: Option<String>,
    input: Input,
    streams: bool,
    tells_usage: bool,
    /// The name of its chat, if it has one.
    name: Option<String>,
}

impl Wanted {
    fn of(body: &Value, headers: &HeaderMap) -> Result<Self, Refused> {
        let field = |name: &str| body.get(name).filter(|it| !it.is_null());
        let is_empty = |it: &Value| it.as_array().is_some_and(Vec::is_empty);
        for name in ["tools", "functions"] {
            if field(name).is_some_and(|it| !is_empty(it)) {
                return Err(unsupported(&format!(
                    "`{name}`: the agent runs code itself, and calling a program's functions"
                )));
            }
        }
        if field("n").and_then(Value::as_u64).is_some_and(|n| n > 1) {
            return Err(unsupported("`n` above 1"));
        }
        if field("audio").is_some() {
            return Err(unsupported("`audio`"));
        }
        let format = field("response_format").and_then(|it| it.get("type")?.as_str());
        if format.is_some_and(|it| it != "text") {
            return Err(unsupported("a `response_format` other than text"));
        }
        let messages =
            field("messages").ok_or_else(|| Problem::bad_request("there are no messages"))?;
        let header = headers.get(SESSION).and_then(|it| it.to_str().ok());
        let metadata = field("metadata").and_then(|it| it.get("session")?.as_str());
        let user = field("user").and_then(Value::as_str);
        let name = header.or(metadata).or(user).filter(|it| !it.is_empty());
        if name.is_some_and(|it| it.len() > NAME) {
            let message = format!("the name of a session has at most {NAME} characters");
            return Err(Problem::bad_request(message).into());
        }
        Ok(Self {
            model: field("model").and_then(Value::as_str).map(str::to_owned),
            input: Input::of(messages)?,
            streams: field("stream").and_then(Value::as_bool).unwrap_or(false),
            tells_usage: field("stream_options")
                .and_then(|it| it.get("include_usage")?.as_bool())
                .unwrap_or(false),
            name: name.map(str::to_owned),
        })
    }
}

/// Answers.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Body(body): Body<Value>,
) -> Answer {
    let wanted = Wanted::of(&body, &headers)?;
    let openai = &shared.openai;
    let before = match wanted
        .name
        .as_deref()
        .and_then(|name| openai.chats.container(name))
    {
        None => None,
        Some(id) => match openai.containers.get(&id).await {
            Ok(container) => Some(container.id),
            Err(ContainerError::Unknown(_)) => None,
            Err(error) => return Err(error.into()),
        },
    };
    let knows_history = before.is_some();
    let container = if let Some(id) = before {
        id
    } else {
        let minutes = if wanted.name.is_some() { KEPT } else { MINUTES };
        let made = openai.containers.create("chat", Some(minutes)).await?;
        if let Some(name) = &wanted.name {
            openai.chats.keep(name, &made.id);
        }
        made.id
    };
    let passing = wanted.name.is_none().then(|| Passing {
        shared: Arc::clone(&shared),
        container: container.clone(),
    });
    let model = wanted.model.as_deref();
    let asking = ask(
        &openai.containers,
        &container,
        wanted.input,
        knows_history,
        model,
    )
    .await?;
    let chat = Chat {
        id: format!("chatcmpl-{}", random()),
        created: jiff::Timestamp::now().as_second(),
        model: asking.model(),
        asking,
        _passing: passing,
    };
    if !wanted.streams {
        return chat.whole().await;
    }
    let (outlet, messages) = mpsc::channel(OUTBOX);
    let task = task::spawn("openai chat", async move {
        chat.tell(wanted.tells_usage, outlet).await;
    });
    Ok(stream(messages, task, Framing::Bare))
}

/// A container that ends with its chat, however that ends.
struct Passing {
    shared: Arc<Shared>,
    container: String,
}

impl Drop for Passing {
    fn drop(&mut self) {
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (shared, id) = (
            Arc::clone(&self.shared),
            std::mem::take(&mut self.container),
        );
        task::spawn("chat's container", async move {
            if let Err(error) = shared.openai.containers.delete(&id).await {
                tracing::warn!(%error, "the container of a chat stays until its time is over");
            }
        })
        .detach();
    }
}

/// A chat that is being answered.
struct Chat {
    id: String,
    created: i64,
    model: String,
    asking: Asking,
    _passing: Option<Passing>,
}

impl Chat {
    /// The next text, with pictures as Markdown; `None` at the end.
    async fn words(&mut self) -> Option<String> {
        loop {
            match self.asking.next().await? {
                Step::Text(text) => return Some(text),
                Step::Finished { outputs, .. } => {
                    let mut words = String::new();
                    for output in outputs {
                        if let ShownOutput::Picture(mime, bytes) = output {
                            let data = STANDARD.encode(bytes);
                            // Writing to a string does not fail.
                            let _ = write!(words, "\n\n![plot](data:{mime};base64,{data})\n\n");
                        }
                    }
                    if !words.is_empty() {
                        return Some(words);
                    }
                }
                // The text before code is a separate paragraph.
                Step::Started { .. } => return Some("\n\n".to_owned()),
                Step::Code { .. } | Step::CodeDelta { .. } | Step::Again => {}
            }
        }
    }

    async fn whole(mut self) -> Answer {
        let mut text = String::new();
        while let Some(words) = self.words().await {
            text.push_str(&words);
        }
        let reason = match end_of(self.asking.outcome()) {
            End::Completed => "stop",
            End::Incomplete => "length",
            End::Failed(message) => {
                return Err(Problem::new(StatusCode::BAD_GATEWAY, "failed", message).into());
            }
        };
        let message = json!({ "role": "assistant", "content": text.trim(), "refusal": null });
        let answer = json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{
                "index": 0, "message": message, "finish_reason": reason, "logprobs": null,
            }],
            "usage": usage(self.asking.spent()),
        });
        Ok(Json(answer).into_response())
    }

    async fn tell(mut self, tells_usage: bool, outlet: mpsc::Sender<Value>) {
        let role = json!({ "role": "assistant", "content": "" });
        if outlet.send(self.chunk(&role, None)).await.is_err() {
            return;
        }
        let mut has_begun = false;
        while let Some(words) = self.words().await {
            let words = if has_begun {
                words.as_str()
            } else {
                words.trim_start()
            };
            if words.is_empty() {
                continue;
            }
            has_begun = true;
            let delta = json!({ "content": words });
            if outlet.send(self.chunk(&delta, None)).await.is_err() {
                return;
            }
        }
        let reason = match end_of(self.asking.outcome()) {
            End::Completed => "stop",
            End::Incomplete => "length",
            End::Failed(message) => {
                let error = json!({ "error": {
                    "message": message, "type": "server_error", "param": null, "code": "failed",
                }});
                let _ = outlet.send(error).await;
                return;
            }
        };
        let last = self.chunk(&json!({}), Some(reason));
        if outlet.send(last).await.is_err() || !tells_usage {
            return;
        }
        let mut spent = self.chunk(&Value::Null, None);
        spent["choices"] = json!([]);
        spent["usage"] = usage(self.asking.spent());
        let _ = outlet.send(spent).await;
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> Value {
        json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": [{ "index": 0, "delta": delta, "finish_reason": reason, "logprobs": null }],
        })
    }
}

fn usage(spent: Totals) -> Value {
    json!({
        "prompt_tokens": spent.input_tokens,
        "completion_tokens": spent.output_tokens,
        "total_tokens": spent.input_tokens + spent.output_tokens,
        "prompt_tokens_details": { "cached_tokens": spent.cached_tokens },
    })
}
