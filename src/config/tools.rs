//! `[mcp.NAME]`: servers of the Model Context Protocol whose tools code in a kernel can call (docs/mcp.md). A key is never in this
//! file: it comes from a variable or from a program.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::llm::providers::KeyCommand;

/// Characters of a name.
const LONGEST: usize = 40;

/// Servers by the names that code imports.
pub type ToolServers = BTreeMap<ToolServerName, ToolServer>;

/// A name of Python's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolServerName(String);

impl ToolServerName {
    /// As code has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// One that is like `text`, which others chose; `None` if it has no letters.
    pub fn like(text: &str) -> Option<Self> {
        let word = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        let name: String = text.chars().map(word).collect();
        let name = name.trim_start_matches(|c: char| !c.is_ascii_lowercase());
        let name: String = name.chars().take(LONGEST).collect();
        (!name.is_empty()).then_some(Self(name))
    }
}

impl<'de> Deserialize<'de> for ToolServerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let is_word = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if name.len() > LONGEST || !is_word || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(D::Error::custom(format!(
                "an MCP server cannot be called `{name}`: a name has small letters, digits and `_`, and begins with a letter"
            )));
        }
        Ok(Self(name))
    }
}

/// One server, which is a program that is started.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolServer {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables of its environment, besides the usual ones.
    #[serde(default)]
    pub env: BTreeMap<String, Variable>,
    /// How long a call may take; 60 if left out.
    pub seconds: Option<u64>,
}

/// Where the value of a variable comes from.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Variable {
    /// It stands here, and is no secret.
    Plain(String),
    /// It is that of a variable of ours.
    FromEnv(FromEnv),
    /// A program prints it.
    FromCommand(FromCommand),
}

/// `{ env = "NAME" }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromEnv {
    /// The variable.
    pub env: String,
}

/// `{ command = [..] }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromCommand {
    /// The program.
    pub command: KeyCommand,
}
