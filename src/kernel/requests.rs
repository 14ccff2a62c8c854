//! Requests to a kernel other than running a cell: completion, documentation, its variables, its usage.
//!
//! None of them counts as a cell or enters the kernel's history, and each has a timeout: kernels that do not know a
//! request never answer (bash and is_complete), and a Python kernel's first completion can take seconds.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::command::{About, Command};
use super::execution::stdout_of;
use super::quirks::Quirks;
use super::{ExecuteOptions, Kernel, KernelError};
use crate::jupyter::content::Content;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::mime::MimeBundle;

/// Timeout for completion and documentation: the first one imports a lot.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout for is_complete, which is only a hint.
const HINT: Duration = Duration::from_secs(1);
/// Timeout for requests on control, which are answered even while a cell runs.
const CONTROL: Duration = Duration::from_secs(3);
/// Timeout for reading the variables.
const READ_VARIABLES: Duration = Duration::from_secs(5);
/// Prints the variables of a Python kernel, one JSON object per line.
const PYTHON_VARIABLES: &str = include_str!("variables.py");
/// The same in R.
const R_VARIABLES: &str = include_str!("variables.R");

/// Completions at the cursor (`complete_reply`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Completions {
    /// The candidates.
    pub matches: Vec<String>,
    /// Start of the text that they replace, in unicode code points.
    pub cursor_start: usize,
    /// Its end.
    pub cursor_end: usize,
}

/// Whether code is a complete statement (`is_complete_reply`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// It can be run.
    Complete,
    /// More lines are needed; indent the next one by this.
    Incomplete {
        /// White space.
        indent: String,
    },
    /// It has a syntax error.
    Invalid,
    /// The kernel cannot tell, or did not answer in time.
    Unknown,
}

/// A kernel's resource usage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Resident memory of the kernel and its children, in bytes.
    pub memory: Option<u64>,
    /// Processor usage in percent of one core since the last request.
    pub cpu: Option<f64>,
}

/// A variable in a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type, as named by the language.
    #[serde(rename = "type")]
    pub kind: String,
    /// Rows and columns, or length, if it has any; as written by the language.
    #[serde(default)]
    pub shape: String,
    /// The beginning of its printed form.
    #[serde(default)]
    pub head: String,
    /// Size of its values in bytes, if that is cheap to find out; for text that a table refers to, only the references.
    #[serde(default)]
    pub bytes: Option<u64>,
}

impl Kernel {
    /// Completions at `cursor` (unicode code points from the start of `code`).
    ///
    /// # Errors
    /// [`KernelError::NoAnswer`] or [`KernelError::Closed`]. A busy kernel answers when it is idle again.
    pub async fn complete(&self, code: &str, cursor: usize) -> Result<Completions, KernelError> {
        let request = Content::CompleteRequest {
            code: code.to_owned(),
            cursor_pos: cursor,
        };
        let reply = self.request(Channel::Shell, request, PATIENCE).await?;
        Ok(read(&reply))
    }

    /// Documentation for the name at `cursor`; `None` if there is none. `detail` 1 includes the source.
    ///
    /// # Errors
    /// As [`Kernel::complete`].
    pub async fn inspect(
        &self,
        code: &str,
        cursor: usize,
        detail: u8,
    ) -> Result<Option<MimeBundle>, KernelError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Reply {
            found: bool,
            data: MimeBundle,
        }
        let request = Content::InspectRequest {
            code: code.to_owned(),
            cursor_pos: cursor,
            detail_level: detail.min(1),
        };
        let reply: Reply = read(&self.request(Channel::Shell, request, PATIENCE).await?);
        Ok((reply.found && !reply.data.is_empty()).then_some(reply.data))
    }

    /// Whether `code` is a complete statement. Only a hint: [`Completeness::Unknown`] if there is no answer within a
    /// second.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn is_complete(&self, code: &str) -> Result<Completeness, KernelError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Reply {
            status: String,
            indent: String,
        }
        if !self.quirks().await?.answers_is_complete {
            return Ok(Completeness::Unknown);
        }
        let request = Content::IsCompleteRequest {
            code: code.to_owned(),
        };
        let reply: Reply = match self.request(Channel::Shell, request, HINT).await {
            Ok(reply) => read(&reply),
            Err(KernelError::NoAnswer { .. }) => return Ok(Completeness::Unknown),
            Err(error) => return Err(error),
        };
        Ok(match reply.status.as_str() {
            "complete" => Completeness::Complete,
            "incomplete" => Completeness::Incomplete {
                indent: reply.indent,
            },
            "invalid" => Completeness::Invalid,
            _ => Completeness::Unknown,
        })
    }

    /// The kernel's current resource usage, even while a cell runs.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn usage(&self) -> Result<Usage, KernelError> {
        let about = self.about().await?;
        if is_ipykernel(&about) {
            let request = Content::Other {
                msg_type: "usage_request".to_owned(),
                content: json!({}),
            };
            if let Ok(reply) = self.request(Channel::Control, request, CONTROL).await {
                let reply: Map<String, Value> = read(&reply);
                return Ok(Usage {
                    memory: reply.get("kernel_memory").and_then(Value::as_u64),
                    cpu: reply.get("kernel_cpu").and_then(Value::as_f64),
                });
            }
        }
        Ok(Usage {
            memory: about.pid.and_then(super::processes::resident),
            cpu: None,
        })
    }

    /// The variables in the kernel; with ipykernel 7 even while a cell runs.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] if we cannot list the variables of its language, or if the kernel is busy and has
    /// no subshells; otherwise as [`Kernel::complete`].
    pub async fn variables(&self) -> Result<Vec<Variable>, KernelError> {
        let about = self.about().await?;
        let language = about.info.language_info.get("name").and_then(Value::as_str);
        let code = match language.map(str::to_ascii_lowercase).as_deref() {
            Some("python" | "ipython") => PYTHON_VARIABLES,
            Some("r") => R_VARIABLES,
            _ => {
                return Err(KernelError::Unsupported {
                    kernel: about.info.implementation,
                    what: "list its variables",
                });
            }
        };
        let mut options = ExecuteOptions::aside(code, READ_VARIABLES);
        // In R, silent code prints nothing.
        options.silent = is_ipykernel(&about);
        if about.busy {
            options.subshell = Some(self.subshell(&about).await?);
        }
        let beside = options.subshell.clone();
        let (outputs, _) = self.execute(options).await?.collect().await;
        if let Some(subshell_id) = beside {
            let request = Content::Other {
                msg_type: "delete_subshell_request".to_owned(),
                content: json!({ "subshell_id": subshell_id }),
            };
            // A subshell that stays only costs a sleeping thread.
            let _ = self.request(Channel::Control, request, CONTROL).await;
        }
        let text = stdout_of(outputs);
        // Other lines were printed by other code.
        Ok(text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect())
    }

    /// Creates a subshell (JEP 91).
    async fn subshell(&self, about: &About) -> Result<String, KernelError> {
        let unsupported = || KernelError::Unsupported {
            kernel: about.info.implementation.clone(),
            what: "do anything else while a cell runs",
        };
        let offered = about.info.supported_features.iter();
        // Kernels built on ipykernel's base class inherit the claim but not the feature.
        if !is_ipykernel(about) || !offered.clone().any(|feature| feature == "kernel subshells") {
            return Err(unsupported());
        }
        let request = Content::Other {
            msg_type: "create_subshell_request".to_owned(),
            content: json!({}),
        };
        let reply: Map<String, Value> =
            read(&self.request(Channel::Control, request, CONTROL).await?);
        reply
            .get("subshell_id")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(unsupported)
    }

    /// The deviations of this kernel from the protocol.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn quirks(&self) -> Result<Quirks, KernelError> {
        Ok(Quirks::of(&self.info().await?.implementation))
    }

    /// Sends any request and waits for its reply, at most `patience`.
    pub(super) async fn request(
        &self,
        channel: Channel,
        content: Content,
        patience: Duration,
    ) -> Result<Message, KernelError> {
        let request = name_of(&content);
        let answer = self.ask(|reply| Command::Ask {
            channel,
            content,
            reply,
        });
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => answer,
            Err(_) => Err(KernelError::NoAnswer {
                kernel: self.info().await?.implementation,
                request,
                after: patience,
            }),
        }
    }
}

fn name_of(content: &Content) -> &'static str {
    match content {
        Content::CompleteRequest { .. } => "complete_request",
        Content::InspectRequest { .. } => "inspect_request",
        Content::IsCompleteRequest { .. } => "is_complete_request",
        _ => "control request",
    }
}

fn is_ipykernel(about: &About) -> bool {
    about.info.implementation == "ipython"
}

/// Parses the content of a reply; the default if its shape is unexpected.
pub(super) fn read<T: Default + serde::de::DeserializeOwned>(reply: &Message) -> T {
    match &reply.content {
        Content::Other { content, .. } => {
            serde_json::from_value(content.clone()).unwrap_or_default()
        }
        _ => T::default(),
    }
}
