//! A language model as the rest of Sponde sees it: a prompt goes in, a stream of deltas comes out.
//!
//! These types are the whole vocabulary of the `llm` floor. Nothing here knows a wire, a vendor or a kernel; providers
//! translate. A tool call's arguments stay the raw text the model wrote: repairing them can run an empty cell, so the
//! agent parses them once, strictly.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use money::{Cost, Price, Usage};

mod money;

/// A pinned, boxed, sendable stream: what [`Provider::stream`] returns.
pub type BoxStream<'a, T> = std::pin::Pin<Box<dyn Stream<Item = T> + Send + 'a>>;

/// A language model that can be asked.
pub trait Provider: Send + Sync {
    /// What is known about the model behind this provider.
    fn info(&self) -> &ModelInfo;

    /// Sends `prompt` and streams the reply. Dropping the stream cancels the request.
    ///
    /// A successful stream ends with exactly one [`Delta::Finished`]; a stream that ends without one
    /// was cut, and the provider must have yielded [`ProviderError::Truncated`] instead.
    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>>;
}

/// What is known about a model. The default knows nothing: `ModelInfo { name, ..ModelInfo::default() }`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelInfo {
    /// The name the person would type: `provider/name`, for example `openai/gpt-5.2` or `local/qwen2.5-coder-1.5b`.
    pub name: String,
    /// The host it is served from, with the port if not the default; `None` if there is no server.
    pub host: Option<String>,
    /// Context window in tokens, where known: prompt and reply together.
    pub context_window: Option<u64>,
    /// Maximum tokens of one reply, where known.
    pub max_output: Option<u64>,
    /// Whether image parts may be sent. False if unknown, because an unreadable picture fails the request.
    pub vision: bool,
    /// Whether it calls tools; `None` if unknown.
    pub tools: Option<bool>,
    /// Its price; `None` if unknown, which is not the same as [`Price::FREE`].
    pub price: Option<Price>,
    /// Whether this is a small model, for which prompts are kept short and carry an example.
    pub small: bool,
    /// Whether the catalog or the server supplied any of the above; if not, `vision: false` is a guess.
    pub known: bool,
}

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The system prompt. Never changes within a session, so that provider caches hit.
    pub system: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// The tools the model may call.
    pub tools: Vec<ToolSpec>,
    /// Whether the model may, must or must not call a tool.
    pub tool_choice: ToolChoice,
    /// Upper bound on the reply, in tokens; `None` leaves it to the provider.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature; `None` leaves it to the provider (reasoning models refuse it).
    pub temperature: Option<f64>,
    /// JSON schema that the reply's text must match; `None` for free text. Mainly for small models that cannot call
    /// tools ([`super::constrained`]).
    pub reply_schema: Option<Value>,
}

/// What the next reply may contain (the `tool_choice` of most wires).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// Text or a call, as the model decides.
    #[default]
    Auto,
    /// A call.
    Required,
    /// Text only.
    None,
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// The user.
    User(Vec<Part>),
    /// The model: its text and its calls, in that order.
    Assistant {
        /// The text, possibly empty.
        text: String,
        /// The tool calls, possibly none.
        calls: Vec<ToolCall>,
        /// The reply in its provider's own form, if it contains more than text and calls.
        native: Option<Native>,
    },
    /// The result of one tool call. Every call of an assistant message is followed by exactly one.
    ToolResult {
        /// [`ToolCall::id`] of the call.
        call_id: String,
        /// The result.
        parts: Vec<Part>,
        /// Whether the tool failed (a kernel's exception counts).
        is_error: bool,
    },
}

/// A reply as the provider that made it wants it back with the next request: reasoning with its signatures, encrypted
/// items, ids. Nobody else reads it. It is JSON, so that it can be kept; clones share it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Value", into = "Value")]
pub struct Native(Arc<Value>);

impl Native {
    /// Wraps a provider's data.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The JSON, for the provider and for storage.
    pub fn value(&self) -> &Value {
        &self.0
    }
}

impl From<Value> for Native {
    fn from(value: Value) -> Self {
        Self::new(value)
    }
}

impl From<Native> for Value {
    fn from(native: Native) -> Self {
        Arc::unwrap_or_clone(native.0)
    }
}

impl fmt::Debug for Native {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Native(..)")
    }
}

/// A piece of a message.
#[derive(Clone, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture, already scaled to what models accept.
    Image {
        /// `image/png` or `image/jpeg`.
        media_type: &'static str,
        /// The encoded file (not base64).
        data: Bytes,
    },
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.debug_tuple("Text").field(text).finish(),
            Self::Image { media_type, data } => {
                write!(f, "Image({media_type}, {} bytes)", data.len())
            }
        }
    }
}

/// Limits on pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureRules {
    /// Maximum side in pixels; servers scale down larger pictures themselves, so they gain nothing.
    pub longest_side: u32,
    /// Bytes of the encoded file.
    pub bytes: usize,
    /// Maximum pictures in one request.
    pub most: usize,
    /// Side in pixels of the tiles that pictures are billed by, if they are.
    pub tile: Option<u32>,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// The name the model calls it by.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of the arguments object.
    pub parameters: Value,
}

/// A call the model made, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The call's id, as [`Delta::CallStart`] gave it.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments, byte for byte as the model wrote them; not necessarily JSON.
    pub arguments: String,
    /// Bytes of the reply's text that precede it.
    pub after: usize,
}

/// One step of a streamed reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More of the answer's text.
    Text(String),
    /// More of the model's visible reasoning. Displayed, never executed.
    Reasoning(String),
    /// A tool call begins. `index` counts the calls of this reply from 0.
    CallStart {
        /// Position of the call within the reply.
        index: usize,
        /// The call's id, unique in the conversation. Generated by us, because the provider library reveals its own
        /// only when the call is complete, and any id will do as long as call and result agree.
        id: String,
        /// The tool's name.
        name: String,
    },
    /// More raw text of a call's arguments.
    CallArguments {
        /// Position of the call within the reply.
        index: usize,
        /// The fragment, to be appended as it is.
        fragment: String,
    },
    /// All of the reply so far is void: it broke off, and is requested again from its beginning. Comes before the wait.
    /// A front end marks what it showed as cut off; no call was complete, so nothing ran.
    Retrying(Retrying),
    /// The reply in its provider's own form, if it contains more than text and calls. At most once, right before the
    /// end.
    Native(Native),
    /// The reply is complete. Always last.
    Finished {
        /// Why it ended.
        reason: StopReason,
        /// What it cost, in tokens.
        usage: Usage,
    },
}

/// A request that failed and will be sent again.
#[derive(Debug, Clone, PartialEq)]
pub struct Retrying {
    /// How it failed.
    pub error: ProviderError,
    /// The wait before it is sent again.
    pub wait: Duration,
    /// Number of the next request, counted from 1.
    pub attempt: u32,
    /// Maximum number of requests.
    pub of: u32,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    Done,
    /// The model wants its tool calls answered.
    ToolCalls,
    /// The reply hit the output limit: the last call may be incomplete.
    Length,
    /// The provider refused or filtered the reply.
    Refused,
}

/// Why a model could not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    /// 401 or 403.
    #[error("`{endpoint}` refused the key: {message}")]
    Unauthorized {
        /// Base URL asked, without credentials.
        endpoint: String,
        /// What the server said.
        message: String,
        /// The environment variable the key was taken from, if any.
        variable: Option<String>,
    },
    /// 429, 529 or another status that asks for patience.
    #[error("`{endpoint}` is busy (status {status}): {message}{}", asks_for(*.retry_after))]
    Busy {
        /// Base URL asked.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// What the server said.
        message: String,
        /// The server's Retry-After, if it gave one.
        retry_after: Option<Duration>,
    },
    /// The prompt does not fit the model's window.
    #[error("the conversation no longer fits the model's context window: {message}")]
    ContextTooLong {
        /// What the server said.
        message: String,
    },
    /// The request cannot be put into the provider's wire format; nothing was sent.
    #[error("cannot send the request to `{endpoint}`: {message}")]
    Unsendable {
        /// Base URL it was meant for.
        endpoint: String,
        /// What does not fit.
        message: String,
    },
    /// There is no such model there.
    #[error("`{endpoint}` has no model `{model}`: {message}{}", instead(.near))]
    UnknownModel {
        /// Base URL asked.
        endpoint: String,
        /// The name it was asked for.
        model: String,
        /// What the server said.
        message: String,
        /// Names it has that look like it, most like it first.
        near: Vec<String>,
    },
    /// Any other refusal of the request (4xx).
    #[error("`{endpoint}` rejected the request (status {status}): {message}")]
    Rejected {
        /// Base URL asked.
        endpoint: String,
        /// HTTP status.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// No connection, or it broke before the reply began.
    #[error("could not reach `{endpoint}`: {message}")]
    Unreachable {
        /// Base URL asked.
        endpoint: String,
        /// What the operating system or the TLS layer said.
        message: String,
    },
    /// The reply stopped in the middle.
    #[error("the reply from `{endpoint}` was cut off: {message}")]
    Truncated {
        /// Base URL asked.
        endpoint: String,
        /// What happened.
        message: String,
    },
    /// The reply began well but then violated the wire format.
    #[error("the reply from `{endpoint}` was garbled: {message}")]
    Garbled {
        /// Base URL asked.
        endpoint: String,
        /// What was wrong.
        message: String,
    },
    /// Nothing arrived for too long.
    #[error("`{endpoint}` sent nothing for {} s", .after.as_secs())]
    Stalled {
        /// Base URL asked.
        endpoint: String,
        /// How long we waited.
        after: Duration,
    },
    /// The reply violated the wire format from its beginning: usually a wrong address.
    #[error("could not read the reply from `{endpoint}`: {message}")]
    Malformed {
        /// Base URL asked.
        endpoint: String,
        /// What was wrong.
        message: String,
    },
}

impl ProviderError {
    /// Whether sending the same prompt again may help.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Truncated { .. }
            | Self::Garbled { .. }
            | Self::Stalled { .. } => true,
            Self::Unauthorized { .. }
            | Self::ContextTooLong { .. }
            | Self::Unsendable { .. }
            | Self::UnknownModel { .. }
            | Self::Rejected { .. }
            | Self::Malformed { .. } => false,
        }
    }
}

/// How long the server asks us to wait, if worth mentioning.
fn asks_for(retry_after: Option<Duration>) -> String {
    match retry_after {
        Some(wait) if wait > Duration::from_mins(1) => {
            format!("; it asks to wait {} min", wait.as_secs().div_ceil(60))
        }
        Some(_) | None => String::new(),
    }
}

fn instead(near: &[String]) -> String {
    match near {
        [] => String::new(),
        near => format!("; it has `{}`", near.join("`, `")),
    }
}
