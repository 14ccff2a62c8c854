//! What can be found in code, as plain values with stable names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What code might do that a person may want to know before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// It deletes files or directories.
    Delete,
    /// It replaces a file of the workspace that was there before the session.
    Overwrite,
    /// It writes outside of the workspace.
    WriteOutside,
    /// It sends or fetches something.
    Network,
    /// It starts other programs.
    Shell,
    /// It installs software.
    Install,
    /// It ends or signals processes.
    ProcessControl,
    /// It uses files or services that hold credentials.
    Credentials,
    /// It changes a database.
    Database,
    /// It calls a tool of an MCP server.
    Tool,
    /// What it does is computed, so it cannot be read from the code.
    Obfuscation,
    /// A part of it is not of its language's grammar.
    Unparseable,
    /// Nobody has looked: the language is not known, or the code is too long.
    Unanalysed,
}

impl FindingKind {
    /// All of them, in the order in which they are documented.
    pub const ALL: [Self; 13] = [
        Self::Delete,
        Self::Overwrite,
        Self::WriteOutside,
        Self::Network,
        Self::Shell,
        Self::Install,
        Self::ProcessControl,
        Self::Credentials,
        Self::Database,
        Self::Tool,
        Self::Obfuscation,
        Self::Unparseable,
        Self::Unanalysed,
    ];

    /// Its name in JSON and in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Overwrite => "overwrite",
            Self::WriteOutside => "write_outside",
            Self::Network => "network",
            Self::Shell => "shell",
            Self::Install => "install",
            Self::ProcessControl => "process_control",
            Self::Credentials => "credentials",
            Self::Database => "database",
            Self::Tool => "tool",
            Self::Obfuscation => "obfuscation",
            Self::Unparseable => "unparseable",
            Self::Unanalysed => "unanalysed",
        }
    }

    /// What such code does, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Delete => "deletes files",
            Self::Overwrite => "overwrites a file that was there before",
            Self::WriteOutside => "writes outside of the workspace",
            Self::Network => "uses the network",
            Self::Shell => "starts another program",
            Self::Install => "installs software",
            Self::ProcessControl => "ends or signals processes",
            Self::Credentials => "uses credentials",
            Self::Database => "changes a database",
            Self::Tool => "calls a tool of an MCP server",
            Self::Obfuscation => "runs code that cannot be read here",
            Self::Unparseable => "cannot be parsed",
            Self::Unanalysed => "is not analysed",
        }
    }
}

/// Where a path leads, as far as the code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Where {
    /// Into the working directory, or another one that code may write.
    Workspace,
    /// Into a directory for temporary files.
    Temporary,
    /// Elsewhere.
    Outside,
    /// It is computed.
    Unknown,
}

/// Something that code might do, and where it says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What.
    #[serde(rename = "finding")]
    pub kind: FindingKind,
    /// Its line in the cell, from 1.
    pub line: u32,
    /// The first character of it in that line, from 1.
    pub column: u32,
    /// The code, cut where it is long.
    pub text: String,
    /// What it does, in words.
    pub reason: String,
    /// The path that it is about, if the code says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where that leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Where>,
    /// The program that it starts, if that is what it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// Something that code names, for rules about paths and commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The path, or the program.
    pub name: String,
    /// Its line in the cell, from 1.
    pub line: u32,
    /// The first character of it in that line, from 1.
    pub column: u32,
    /// The code, cut where it is long.
    pub text: String,
}

/// All that was found in a cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// By line.
    pub findings: Vec<Finding>,
    /// Programs that it starts.
    pub commands: Vec<Mention>,
    /// Strings that may be paths.
    pub paths: Vec<Mention>,
}

impl Analysis {
    /// Whether this was found.
    pub fn finds(&self, kind: FindingKind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }
}
