//! Typed message contents (messaging spec 5.4, "Messages on the shell channel" and following).
//!
//! Parsing is tolerant, because real kernels need it: `null` reads as a field's default, `status: "abort"` is
//! `aborted`, an `error` without traceback is still an error, and an unknown type or shape is kept as
//! [`Content::Other`]. Only what Sponde acts on is typed.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::mime::MimeBundle;

/// The content of a message, chosen by `msg_type`.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Ask for the kernel's description.
    KernelInfoRequest,
    /// The kernel's description.
    KernelInfoReply(Box<KernelInfo>),
    /// Run code.
    ExecuteRequest(ExecuteRequest),
    /// The execution's result on shell.
    ExecuteReply(ExecuteReply),
    /// Stop the running code (control).
    InterruptRequest,
    /// The interrupt was accepted.
    InterruptReply,
    /// End the kernel (control).
    ShutdownRequest {
        /// Whether it will be restarted.
        restart: bool,
    },
    /// The kernel is about to exit.
    ShutdownReply,
    /// The kernel wants a line of input (stdin).
    InputRequest(InputRequest),
    /// The line (stdin).
    InputReply {
        /// What was typed, without the newline.
        value: String,
    },
    /// Ask for completions.
    CompleteRequest {
        /// The code so far.
        code: String,
        /// Cursor, in unicode code points.
        cursor_pos: usize,
    },
    /// Ask for documentation.
    InspectRequest {
        /// The code so far.
        code: String,
        /// Cursor, in unicode code points.
        cursor_pos: usize,
        /// 0 or 1.
        detail_level: u8,
    },
    /// Ask whether code is a complete statement.
    IsCompleteRequest {
        /// The code so far.
        code: String,
    },
    /// Busy or idle (iopub).
    Status(ExecutionState),
    /// The code that the kernel runs, with its number (iopub).
    ExecuteInput {
        /// The `In [n]` number.
        execution_count: Option<i64>,
    },
    /// Text (iopub).
    Stream(Stream),
    /// Rich output (iopub).
    DisplayData(Display),
    /// New data for an earlier `display_id` (iopub).
    UpdateDisplayData(Display),
    /// The value of the last expression (iopub).
    ExecuteResult(Display),
    /// An exception (iopub).
    Error(ErrorContent),
    /// Clear the outputs (iopub).
    ClearOutput {
        /// Wait for the next output before clearing.
        wait: bool,
    },
    /// The subscription is live (iopub, JEP 65).
    IopubWelcome,
    /// Anything else, as it came.
    Other {
        /// The message type.
        msg_type: String,
        /// The content.
        content: Value,
    },
}

/// `execute_request`.
#[expect(clippy::struct_excessive_bools, reason = "the spec's own fields")]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecuteRequest {
    /// The source.
    pub code: String,
    /// Run without publishing or counting.
    pub silent: bool,
    /// Keep it in the kernel's history, which also gives it a number.
    pub store_history: bool,
    /// Expressions to evaluate afterwards; their bundles come with the reply.
    pub user_expressions: Map<String, Value>,
    /// Whether the kernel may ask for input.
    pub allow_stdin: bool,
    /// Abort queued requests after an error.
    pub stop_on_error: bool,
}

/// `execute_reply`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExecuteReply {
    /// The result of the execution.
    #[serde(deserialize_with = "or_default")]
    pub status: ReplyStatus,
    /// The `In [n]` number.
    pub execution_count: Option<i64>,
    /// Exception name, if `status` is an error.
    #[serde(deserialize_with = "or_default")]
    pub ename: String,
    /// Exception text.
    #[serde(deserialize_with = "or_default")]
    pub evalue: String,
    /// Traceback lines.
    #[serde(deserialize_with = "or_default")]
    pub traceback: Vec<String>,
    /// One bundle or error for each of the request's expressions.
    #[serde(deserialize_with = "or_default")]
    pub user_expressions: Map<String, Value>,
    /// Pager pages and the like (deprecated, but IPython's `?` uses it).
    #[serde(deserialize_with = "or_default")]
    pub payload: Vec<Value>,
}

/// The `status` of a reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReplyStatus {
    /// It worked; also what a missing status means.
    #[default]
    Ok,
    /// The code raised.
    Error,
    /// It was not run, or was interrupted (`abort` and `aborted`).
    Aborted,
}

impl<'de> Deserialize<'de> for ReplyStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match String::deserialize(deserializer)?.as_str() {
            "error" => Self::Error,
            "abort" | "aborted" => Self::Aborted,
            _ => Self::Ok,
        })
    }
}

/// The fields of `kernel_info_reply` that we use.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct KernelInfo {
    /// Version of the messaging protocol.
    #[serde(deserialize_with = "or_default")]
    pub protocol_version: String,
    /// `ipython`, `bash`, ...
    #[serde(deserialize_with = "or_default")]
    pub implementation: String,
    /// Its version.
    #[serde(deserialize_with = "or_default")]
    pub implementation_version: String,
    /// The language, as notebooks store it under `metadata.language_info`.
    #[serde(deserialize_with = "or_default")]
    pub language_info: Map<String, Value>,
    /// A greeting.
    #[serde(deserialize_with = "or_default")]
    pub banner: String,
    /// Optional features, for example `kernel subshells`.
    #[serde(deserialize_with = "or_default")]
    pub supported_features: Vec<String>,
}

/// `input_request`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct InputRequest {
    /// What to show before the cursor.
    #[serde(deserialize_with = "or_default")]
    pub prompt: String,
    /// Whether the answer must not be shown.
    #[serde(deserialize_with = "or_default")]
    pub password: bool,
}

/// `execution_state` of a status message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionState {
    /// Working on the parent request.
    Busy,
    /// Done with the parent request.
    Idle,
    /// Just started.
    Starting,
    /// A server restarts the kernel: its state is lost.
    Restarting,
    /// A server gave up on the kernel.
    Dead,
    /// A state that the protocol does not define.
    Unknown,
}

/// `stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Stream {
    /// `stdout` or `stderr`; some kernels invent others.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The text.
    #[serde(deserialize_with = "or_default")]
    pub text: String,
}

/// `display_data`, `update_display_data` and `execute_result`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Display {
    /// The representations.
    #[serde(deserialize_with = "or_default")]
    pub data: MimeBundle,
    /// Metadata for each representation.
    #[serde(deserialize_with = "or_default")]
    pub metadata: Map<String, Value>,
    /// Not stored in notebooks; holds the `display_id`.
    #[serde(deserialize_with = "or_default")]
    pub transient: Transient,
    /// The `Out [n]` number, for results.
    pub execution_count: Option<i64>,
}

/// `transient` of a display message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Transient {
    /// Names the display for later updates.
    pub display_id: Option<String>,
}

/// `error`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct ErrorContent {
    /// Exception name; bash sends an empty one.
    #[serde(deserialize_with = "or_default")]
    pub ename: String,
    /// Exception text.
    #[serde(deserialize_with = "or_default")]
    pub evalue: String,
    /// Lines with ANSI colours.
    #[serde(deserialize_with = "or_default")]
    pub traceback: Vec<String>,
}

impl Content {
    /// The `msg_type` of this content.
    pub fn msg_type(&self) -> &str {
        match self {
            Self::KernelInfoRequest => "kernel_info_request",
            Self::KernelInfoReply(_) => "kernel_info_reply",
            Self::ExecuteRequest(_) => "execute_request",
            Self::ExecuteReply(_) => "execute_reply",
            Self::InterruptRequest => "interrupt_request",
            Self::InterruptReply => "interrupt_reply",
            Self::ShutdownRequest { .. } => "shutdown_request",
            Self::ShutdownReply => "shutdown_reply",
            Self::InputRequest(_) => "input_request",
            Self::InputReply { .. } => "input_reply",
            Self::CompleteRequest { .. } => "complete_request",
            Self::InspectRequest { .. } => "inspect_request",
            Self::IsCompleteRequest { .. } => "is_complete_request",
            Self::Status(_) => "status",
            Self::ExecuteInput { .. } => "execute_input",
            Self::Stream(_) => "stream",
            Self::DisplayData(_) => "display_data",
            Self::UpdateDisplayData(_) => "update_display_data",
            Self::ExecuteResult(_) => "execute_result",
            Self::Error(_) => "error",
            Self::ClearOutput { .. } => "clear_output",
            Self::IopubWelcome => "iopub_welcome",
            Self::Other { msg_type, .. } => msg_type,
        }
    }

    /// Parses the content frame of a message of type `msg_type`.
    ///
    /// # Errors
    /// Only if the frame is not JSON; an unexpected shape becomes [`Content::Other`].
    pub fn from_json(msg_type: &str, frame: &[u8]) -> Result<Self, serde_json::Error> {
        fn typed<'a, T: Deserialize<'a>>(frame: &'a [u8]) -> Option<T> {
            serde_json::from_slice(frame).ok()
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Small {
            #[serde(deserialize_with = "or_default")]
            execution_state: String,
            execution_count: Option<i64>,
            #[serde(deserialize_with = "or_default")]
            wait: bool,
        }
        let content = match msg_type {
            "stream" => typed(frame).map(Self::Stream),
            "status" => typed(frame).map(|s: Small| {
                Self::Status(match s.execution_state.as_str() {
                    "busy" => ExecutionState::Busy,
                    "idle" => ExecutionState::Idle,
                    "starting" => ExecutionState::Starting,
                    "restarting" | "autorestarting" => ExecutionState::Restarting,
                    "dead" => ExecutionState::Dead,
                    _ => ExecutionState::Unknown,
                })
            }),
            "execute_input" => typed(frame).map(|s: Small| Self::ExecuteInput {
                execution_count: s.execution_count,
            }),
            "execute_result" => typed(frame).map(Self::ExecuteResult),
            "display_data" => typed(frame).map(Self::DisplayData),
            "update_display_data" => typed(frame).map(Self::UpdateDisplayData),
            "error" => typed(frame).map(Self::Error),
            "clear_output" => typed(frame).map(|s: Small| Self::ClearOutput { wait: s.wait }),
            "execute_reply" => typed(frame).map(Self::ExecuteReply),
            "kernel_info_reply" => typed(frame).map(|info| Self::KernelInfoReply(Box::new(info))),
            "input_request" => typed(frame).map(Self::InputRequest),
            "interrupt_reply" => Some(Self::InterruptReply),
            "shutdown_reply" => Some(Self::ShutdownReply),
            "iopub_welcome" => Some(Self::IopubWelcome),
            _ => None,
        };
        match content {
            Some(content) => Ok(content),
            None => Ok(Self::Other {
                msg_type: msg_type.to_owned(),
                content: serde_json::from_slice(frame)?,
            }),
        }
    }

    /// The content frame, for types that we send. Types that we only receive encode as an empty object.
    pub fn to_json(&self) -> Value {
        use serde_json::json;
        match self {
            Self::ExecuteRequest(request) => json!(request),
            Self::ShutdownRequest { restart } => json!({ "restart": restart }),
            Self::InputReply { value } => json!({ "status": "ok", "value": value }),
            Self::CompleteRequest { code, cursor_pos } => {
                json!({ "code": code, "cursor_pos": cursor_pos })
            }
            Self::InspectRequest {
                code,
                cursor_pos,
                detail_level,
            } => json!({ "code": code, "cursor_pos": cursor_pos, "detail_level": detail_level }),
            Self::IsCompleteRequest { code } => json!({ "code": code }),
            Self::Other { content, .. } => content.clone(),
            Self::KernelInfoRequest
            | Self::InterruptRequest
            | Self::KernelInfoReply(_)
            | Self::ExecuteReply(_)
            | Self::InterruptReply
            | Self::ShutdownReply
            | Self::InputRequest(_)
            | Self::Status(_)
            | Self::ExecuteInput { .. }
            | Self::Stream(_)
            | Self::DisplayData(_)
            | Self::UpdateDisplayData(_)
            | Self::ExecuteResult(_)
            | Self::Error(_)
            | Self::ClearOutput { .. }
            | Self::IopubWelcome => json!({}),
        }
    }
}

/// Reads `null`, and only that, as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(msg_type: &str, content: &Value) -> Content {
        Content::from_json(msg_type, content.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_real_kernels_send_is_understood() {
        assert_eq!(
            read(
                "execute_reply",
                &json!({"status": "abort", "execution_count": 3})
            ),
            Content::ExecuteReply(ExecuteReply {
                status: ReplyStatus::Aborted,
                execution_count: Some(3),
                ..ExecuteReply::default()
            })
        );
        assert_eq!(
            read(
                "error",
                &json!({"ename": null, "evalue": "1", "traceback": null})
            ),
            Content::Error(ErrorContent {
                evalue: "1".to_owned(),
                ..ErrorContent::default()
            })
        );
        assert_eq!(
            read("stream", &json!({"name": "other", "text": "x"})),
            Content::Stream(Stream {
                name: "other".to_owned(),
                text: "x".to_owned()
            })
        );
        assert_eq!(
            read(
                "execute_result",
                &json!({"data": {"text/plain": "1"}, "execution_count": null})
            ),
            Content::ExecuteResult(Display {
                data: MimeBundle::text("1"),
                ..Display::default()
            })
        );
    }

    #[test]
    fn unknown_types_and_shapes_survive() {
        let comm = json!({"comm_id": "a", "data": {"x": [1]}});
        assert_eq!(
            read("comm_open", &comm),
            Content::Other {
                msg_type: "comm_open".to_owned(),
                content: comm.clone()
            }
        );
        let odd = json!(["not", "an", "object"]);
        assert_eq!(
            read("stream", &odd),
            Content::Other {
                msg_type: "stream".to_owned(),
                content: odd.clone()
            }
        );
        assert!(Content::from_json("stream", b"{").is_err());
    }
}
