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

/// One server.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct ToolServer {
    /// How it is reached.
    pub reached: Reached,
    /// How long a call may take, in seconds; 60 if left out.
    pub seconds: Option<u64>,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq)]
pub enum Reached {
    /// It is a program that is started, and speaks over its pipes.
    Program {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables of its environment, besides the usual ones.
        env: BTreeMap<String, Variable>,
    },
    /// It has an address, and speaks over HTTP.
    Address {
        /// `https://..`.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, Variable>,
    },
}

/// A server as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, Variable>>,
    url: Option<String>,
    headers: Option<BTreeMap<String, Variable>>,
    seconds: Option<u64>,
}

impl TryFrom<Written> for ToolServer {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let reached = match written {
            Written {
                command: Some(command),
                url: None,
                headers: None,
                args,
                env,
                ..
            } => Reached::Program {
                command,
                args: args.unwrap_or_default(),
                env: env.unwrap_or_default(),
            },
            Written {
                command: None,
                args: None,
                env: None,
                url: Some(url),
                headers,
                ..
            } => Reached::at(url, headers.unwrap_or_default())?,
            _ => {
                return Err(
                    "an MCP server has a `command` with `args` and `env`, or a `url` with `headers`"
                        .to_owned(),
                );
            }
        };
        Ok(Self {
            reached,
            seconds: written.seconds,
        })
    }
}

impl Reached {
    /// At `url`.
    ///
    /// # Errors
    /// It is no address of the web, in words.
    pub fn at(url: String, headers: BTreeMap<String, Variable>) -> Result<Self, String> {
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(
                "the `url` of an MCP server begins with `https://` or `http://`".to_owned(),
            );
        }
        Ok(Self::Address { url, headers })
    }

    /// The variables of its environment, or its headers.
    pub fn variables(&self) -> &BTreeMap<String, Variable> {
        match self {
            Self::Program { env, .. } => env,
            Self::Address { headers, .. } => headers,
        }
    }
}

/// Where the value of a variable or a header comes from.
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
    /// What goes before its value: `Bearer `.
    #[serde(default)]
    pub prefix: String,
}

/// `{ command = [..] }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromCommand {
    /// The program.
    pub command: KeyCommand,
    /// What goes before what it prints: `Bearer `.
    #[serde(default)]
    pub prefix: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ToolServer, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_server_is_a_program_or_an_address() {
        let program = parsed("command = 'npx'\nargs = ['x']\nseconds = 5").unwrap();
        let expected = Reached::Program {
            command: "npx".to_owned(),
            args: vec!["x".to_owned()],
            env: BTreeMap::new(),
        };
        assert_eq!((program.reached, program.seconds), (expected, Some(5)));
        let text = "url = 'https://example.org/mcp'\nheaders = { Authorization = { env = 'T', prefix = 'Bearer ' } }";
        let header = Variable::FromEnv(FromEnv {
            env: "T".to_owned(),
            prefix: "Bearer ".to_owned(),
        });
        assert_eq!(
            parsed(text).unwrap().reached.variables(),
            &BTreeMap::from([("Authorization".to_owned(), header)])
        );
        for (text, words) in [
            ("url = 'ftp://x'", "begins with `https://`"),
            ("command = 'x'\nurl = 'https://x'", "or a `url`"),
            ("url = 'https://x'\nargs = []", "or a `url`"),
            ("seconds = 1", "or a `url`"),
            ("comand = 'x'", "unknown field `comand`"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
