//! The three ways in which a model can ask to run code.
//!
//! All three look the same from outside this floor: tool calls ([`super::coded`]). Native calls pass unchanged
//! ([`super::native`]), the others are built from the reply's text ([`super::constrained`], [`super::fenced`]).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How a model asks to run code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeMode {
    /// It calls a tool through the wire's tool calls.
    Tools,
    /// The server constrains its reply to a JSON schema: code or an answer.
    Json,
    /// It writes fenced blocks of Markdown; every block of code is run, in order.
    Fenced,
}

impl CodeMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Json, Self::Fenced];

    /// Its name in options and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Json => "json",
            Self::Fenced => "fenced",
        }
    }
}

impl fmt::Display for CodeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The name is not a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no code mode `{0}`, only tools, json and fenced")]
pub struct UnknownCodeMode(String);

impl FromStr for CodeMode {
    type Err = UnknownCodeMode;

    fn from_str(text: &str) -> Result<Self, UnknownCodeMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| UnknownCodeMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_as_it_is_written() {
        for mode in CodeMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(
                serde_json::to_value(mode).unwrap(),
                serde_json::json!(mode.name())
            );
        }
        assert_eq!(
            "Tools".parse::<CodeMode>().unwrap_err().to_string(),
            "there is no code mode `Tools`, only tools, json and fenced"
        );
    }
}
