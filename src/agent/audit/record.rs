//! What an audit log says, one record a line. A kind or field is never renamed or given another meaning; a reader leaves
//! kinds that it does not know as they are.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::approval::Grounds;
use crate::agent::tool_calls::ToolCall;
use crate::kernel::{Connection, Extent, Redactor};

/// The version of the format: raised when a reader of the version before would misread something.
pub const VERSION: u32 = 1;

/// What a log begins with, each time that its session is opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The session's id.
    pub session: String,
    /// The version of Sponde.
    pub sponde: String,
    /// Where its kernels work.
    pub directory: String,
    /// When a person is asked before code runs.
    pub approval: String,
    /// What code may do.
    pub sandbox: Confined,
}

/// How kernels are confined, in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confined {
    /// `read-only`, `workspace`, `full`, or `not ours`: then somebody else started the kernel.
    pub level: String,
    /// What enforces it; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// What it reaches: `off`, `on`, or `allow:` and a list.
    pub network: String,
    /// More directories that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_dirs: Vec<String>,
}

impl Confined {
    /// A kernel of this extent; `None` if somebody else started it.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The session began.
    Begun(Header),
    /// The session was opened again.
    Resumed(Header),
    /// A model was asked.
    ModelAsked {
        /// What for: `reply`, `summary`, `input`.
        purpose: String,
        /// Its name.
        model: String,
        /// The host that it was asked at, with the port if it is an unusual one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// It answered, for so many tokens.
    ModelAnswered {
        /// Read.
        input_tokens: u64,
        /// Of these from the provider's cache.
        cached_tokens: u64,
        /// Written.
        output_tokens: u64,
    },
    /// Another model answers from now on.
    ModelChanged {
        /// Its name.
        model: String,
    },
    /// There is code that may run.
    CodeProposed {
        /// The cell.
        cell: String,
        /// `model` or `person`.
        author: String,
        /// The code.
        #[serde(flatten)]
        code: Code,
    },
    /// A person changed it.
    CodeChanged {
        /// The cell.
        cell: String,
        /// The client.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The code from now on.
        #[serde(flatten)]
        code: Code,
    },
    /// It was decided whether code runs.
    Decision {
        /// The cell.
        cell: String,
        /// SHA-256 of the code that was decided on.
        sha256: String,
        /// `run`, `always`, `change` or `decline`.
        decision: String,
        /// What it rests on; absent where it was declined by a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grounds: Option<Grounds>,
        /// The client that decided.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The rule and the findings that it went by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ruling: Option<Value>,
    },
    /// A kernel got code.
    Ran {
        /// The cell.
        cell: String,
        /// The code.
        #[serde(flatten)]
        code: Code,
    },
    /// What became of a cell.
    Outcome {
        /// The cell.
        cell: String,
        /// In the words of `code_finished`.
        status: String,
        /// Whether it ran again, after the session was resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A limit was reached.
    Limit {
        /// `cell_time`, `steps`, `repetition`, `budget`, or in words a limit of the kernel.
        limit: String,
        /// The cell, if it is about one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cell: Option<String>,
    },
    /// A person said whether the turn goes on at a limit.
    LimitAnswered {
        /// Whether it does.
        go_on: bool,
        /// The client.
        by: String,
    },
    /// A kernel answers: a new one, or one that was restarted or kept.
    KernelStarted {
        /// Name of its kernelspec.
        kernel: String,
        /// How it is confined.
        sandbox: Confined,
    },
    /// A kernel is gone.
    KernelDied {
        /// Name of its kernelspec.
        kernel: String,
        /// How.
        reason: String,
    },
    /// A kernel could not be started.
    KernelFailed {
        /// Name of its kernelspec.
        kernel: String,
    },
    /// Code asked for a line and got one.
    InputAnswered {
        /// The cell.
        cell: String,
        /// `person` or `model`.
        by: String,
        /// The client, if it was a person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// From now on a person is asked, or not.
    ApprovalChanged {
        /// When.
        approval: String,
        /// The client that wants it so.
        by: String,
    },
    /// Code of a kernel reached for the network, or tried to.
    Connection(Connection),
    /// Code called a tool of an MCP server, or tried to.
    ToolCalled(ToolCall),
    /// Files that a cell made, changed or deleted.
    Files {
        /// The cell.
        cell: String,
        /// Paths in the working directory.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        created: Vec<String>,
        /// The same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changed: Vec<String>,
        /// The same.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deleted: Vec<String>,
        /// How many more there are.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
        /// Whether there may be some that were not looked at.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
    },
    /// Turns were taken back.
    Undone {
        /// How many cells went.
        cells: usize,
        /// Where variables came from.
        variables: String,
        /// Files that are as they were.
        restored: Vec<String>,
        /// Files that were not there before.
        removed: Vec<String>,
        /// How many more files there are.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: usize,
    },
    /// A resumed session can go on.
    Restored {
        /// Where its variables come from.
        by: String,
        /// Cells that ran again.
        ran: usize,
        /// Cells of those with other outputs.
        differing: usize,
    },
    /// A turn is over.
    TurnFinished {
        /// How it ended.
        end: String,
    },
    /// The end of the log was an incomplete line, because a process was killed while it wrote: it was cut off.
    Mended {
        /// Its length.
        bytes: u64,
        /// SHA-256 of it.
        sha256: String,
    },
    /// The log was found changed when the session was opened.
    Broken {
        /// The first bad line.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// Records are missing, because the disk took none for too long.
    Lost {
        /// How many.
        records: u64,
    },
    /// Items of the session were gone before they could be read.
    Missed {
        /// How many, at most.
        items: u64,
    },
    /// The session was closed in good order.
    Ended,
    /// Of a later version.
    #[serde(other)]
    Unknown,
}

/// Code, without the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// Its language.
    pub language: String,
    /// SHA-256 of its UTF-8.
    pub sha256: String,
    /// Bytes of its UTF-8.
    pub bytes: usize,
}

impl Code {
    /// `source` in `language`.
    pub fn of(source: &str, language: &str) -> Self {
        Self {
            language: language.to_owned(),
            sha256: super::digest::sha256(source.as_bytes()),
            bytes: source.len(),
        }
    }
}

impl Record {
    /// The same without secrets.
    pub(super) fn redacted(self, redactor: &Redactor) -> Self {
        let Ok(mut value) = serde_json::to_value(&self) else {
            return self;
        };
        redactor.all_in(&mut value);
        serde_json::from_value(value).unwrap_or(self)
    }

    /// Whether it has to be on the disk before the session goes on.
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

    /// Whether a session in which it happened is worth a log.
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
