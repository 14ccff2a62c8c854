//! The records of an audit log, one per line. A kind or field is never renamed or given another meaning; readers leave
//! unknown kinds unchanged.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::approval::Grounds;
use crate::agent::tool_calls::ToolCall;
use crate::kernel::{Connection, Extent, Redactor};

/// Version of the format; raised when a reader of the previous version would misread something.
pub const VERSION: u32 = 1;

/// First record of a log, written each time its session is opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The session's id.
    pub session: String,
    /// The version of Sponde.
    pub sponde: String,
    /// The kernels' working directory.
    pub directory: String,
    /// When a person is asked before code runs.
    pub approval: String,
    /// What code may do.
    pub sandbox: Confined,
}

/// A kernel's confinement, as text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confined {
    /// `read-only`, `workspace`, `full`, or `not ours` if somebody else started the kernel.
    pub level: String,
    /// What enforces it; absent if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Network access: `off`, `on`, or `allow:` and a list.
    pub network: String,
    /// Additional writable directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_dirs: Vec<String>,
}

impl Confined {
    /// From a kernel's extent; `None` if somebody else started it.
    pub fn of(extent: Option<&Extent>) -> Self {
        use crate::kernel::Level;
        let Some(extent) = extent else {
            return Self {
                level: "not ours".to_owned(),
                tier: None,
                network: "on".to_owned(),
                add_dirs: Vec::new(),
            };
        };
        let is_full = extent.level == Level::Full;
        let tier = if extent.gvisor {
            "gvisor"
        } else if extent.landlock {
            "landlock"
        } else {
            "bubblewrap"
        };
        Self {
            level: match extent.level {
                Level::ReadOnly => "read-only",
                Level::Workspace => "workspace",
                Level::Full => "full",
            }
            .to_owned(),
            tier: (!is_full).then(|| tier.to_owned()),
            network: if is_full {
                "on".to_owned()
            } else {
                extent.network.to_string()
            },
            add_dirs: extent
                .add_dirs
                .iter()
                .map(|dir| dir.display().to_string())
                .collect(),
        }
    }
}

/// One recorded fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The session began.
    Begun(Header),
    /// The session was reopened.
    Resumed(Header),
    /// A model was asked.
    ModelAsked {
        /// The purpose: `reply`, `summary`, `input`.
        purpose: String,
        /// The model's name.
        model: String,
        /// The host it was requested from, with the port if unusual.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// The model answered, with the tokens used.
    ModelAnswered {
        /// Tokens read.
        input_tokens: u64,
        /// Of these, from the provider's cache.
        cached_tokens: u64,
        /// Tokens written.
        output_tokens: u64,
    },
    /// Another model answers from now on.
    ModelChanged {
        /// The model's name.
        model: String,
    },
    /// Code was proposed.
    CodeProposed {
        /// The cell.
        cell: String,
        /// `model` or `person`.
        author: String,
        /// The code.
        #[serde(flatten)]
        code: Code,
    },
    /// A person changed proposed code.
    CodeChanged {
        /// The cell.
        cell: String,
        /// The client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The new code.
        #[serde(flatten)]
        code: Code,
    },
    /// Whether code runs was decided.
    Decision {
        /// The cell.
        cell: String,
        /// SHA-256 of the code that was decided on.
        sha256: String,
        /// `run`, `always`, `change` or `decline`.
        decision: String,
        /// The grounds; absent if a person declined.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grounds: Option<Grounds>,
        /// The client that decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The deciding rule and the findings.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Value>,
    },
    /// Code was sent to a kernel.
    Ran {
        /// The cell.
        cell: String,
        /// The code.
        #[serde(flatten)]
        code: Code,
    },
    /// A cell ended.
    Outcome {
        /// The cell.
        cell: String,
        /// Its status, named as in `code_finished`.
        status: String,
        /// Whether it was a rerun after the session was resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A limit was reached.
    Limit {
        /// `cell_time`, `steps`, `repetition`, `budget`, or a description of a kernel's limit.
        limit: String,
        /// The cell, if the limit is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<String>,
    },
    /// A person decided whether the turn continues at a limit.
    LimitAnswered {
        /// Whether it continues.
        go_on: bool,
        /// The client.
        by: String,
    },
    /// A kernel is ready: a new, restarted or kept one.
    KernelStarted {
        /// Name of the kernelspec.
        kernel: String,
        /// How it is confined.
        sandbox: Confined,
    },
    /// A kernel died.
    KernelDied {
        /// Name of the kernelspec.
        kernel: String,
        /// How it died.
        reason: String,
    },
    /// A kernel could not be started.
    KernelFailed {
        /// Name of the kernelspec.
        kernel: String,
    },
    /// Code requested a line of input and got one.
    InputAnswered {
        /// The cell.
        cell: String,
        /// `person` or `model`.
        by: String,
        /// The client, if it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// The approval policy changed.
    ApprovalChanged {
        /// The new policy.
        approval: String,
        /// The client that changed it.
        by: String,
    },
    /// A kernel's code connected to the network, or tried to.
    Connection(Connection),
    /// Code called a tool of an MCP server, or tried to.
    ToolCalled(ToolCall),
    /// A cell created, changed or deleted files.
    Files {
        /// The cell.
        cell: String,
        /// Created files, relative to the working directory.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        created: Vec<String>,
        /// Changed files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// Deleted files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deleted: Vec<String>,
        /// Number of files not listed.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
        /// Whether part of the directory was not scanned.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
    },
    /// Turns were undone.
    Undone {
        /// Number of cells removed.
        cells: usize,
        /// Where variables were restored from.
        variables: String,
        /// Files restored to an earlier state.
        restored: Vec<String>,
        /// Created files that were removed.
        removed: Vec<String>,
        /// Number of files not listed.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
    },
    /// A resumed session is ready.
    Restored {
        /// Where its variables come from.
        by: String,
        /// Number of cells that ran again.
        ran: usize,
        /// Number of those whose outputs differ.
        differing: usize,
    },
    /// A turn is over.
    TurnFinished {
        /// How it ended.
        end: String,
    },
    /// The log ended in an incomplete line, because a process was killed while writing; it was cut off.
    Mended {
        /// Its length in bytes.
        bytes: u64,
        /// Its SHA-256.
        sha256: String,
    },
    /// Tampering was detected when the session was opened.
    Broken {
        /// The first bad line.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Records were dropped, because the disk could not be written for too long.
    Lost {
        /// How many.
        records: u64,
    },
    /// Items of the session's stream were dropped before they could be read.
    Missed {
        /// How many, at most.
        items: u64,
    },
    /// The session was closed properly.
    Ended,
    /// A kind from a later version.
    #[serde(other)]
    Unknown,
}

/// A reference to code: its hash and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Its language.
    pub language: String,
    /// SHA-256 of the UTF-8 text.
    pub sha256: String,
    /// Bytes of the UTF-8 text.
    pub bytes: usize,
}

impl Code {
    /// For `source` in `language`.
    pub fn of(source: &str, language: &str) -> Self {
        Self {
            language: language.to_owned(),
            sha256: super::digest::sha256(source.as_bytes()),
            bytes: source.len(),
        }
    }
}

impl Record {
    /// Redacts secrets.
    pub(super) fn redacted(self, redactor: &Redactor) -> Self {
        let Ok(mut value) = serde_json::to_value(&self) else {
            return self;
        };
        redactor.all_in(&mut value);
        serde_json::from_value(value).unwrap_or(self)
    }

    /// Whether it must be on disk before the session continues.
    pub(super) fn wants_disk(&self) -> bool {
        matches!(
            self,
            Self::Begun(_)
                | Self::Resumed(_)
                | Self::Decision { .. }
                | Self::Undone { .. }
                | Self::Mended { .. }
                | Self::Broken { .. }
                | Self::Lost { .. }
                | Self::Ended
        )
    }

    /// Whether a session with this record is worth a log.
    pub(super) fn is_worth_it(&self) -> bool {
        matches!(
            self,
            Self::ModelAsked { .. } | Self::CodeProposed { .. } | Self::Decision { .. }
        )
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}
