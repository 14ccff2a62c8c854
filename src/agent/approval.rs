//! Decides whether a cell may run, needs approval first, or is forbidden; and whether a turn may continue.
//!
//! The requirement is what code might do ([`crate::risk`]), the [`Policy`] is what a person wants, and a [`Ruling`] is
//! the decision for a cell. All of it is pure.

mod glob;
mod policy;
mod rules;
mod ruling;

use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::risk::{Analysis, Finding, FindingKind, Memory, Site, Where, analyse};
pub use policy::{Ground, Policy};
pub use rules::{Action, Rule, Settings};
pub use ruling::{RuledBy, Ruling};

/// What the person wants to be asked about; from the most to the least.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Approval {
    /// Ask before each cell that the model wrote.
    #[default]
    #[serde(alias = "ask")]
    Always,
    /// Ask before a cell that might do what the sandbox does not stop.
    OnRisk,
    /// Never ask: run it.
    Never,
}

impl Approval {
    /// The name in configuration, commands and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::OnRisk => "on-risk",
            Self::Never => "never",
        }
    }
}

impl FromStr for Approval {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "always" | "ask" => Ok(Self::Always),
            "on-risk" => Ok(Self::OnRisk),
            "never" => Ok(Self::Never),
            _ => Err("it has to be `always`, `on-risk` or `never`"),
        }
    }
}

/// Why code may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grounds {
    /// A person was asked, and said so.
    Decided,
    /// Nobody had to be asked.
    Policy,
    /// It is a person's own code.
    Own,
    /// A person wanted the code of a resumed session to run again.
    Replay,
    /// It ran before and runs again, because what came after it is taken back.
    Undo,
}

/// What to do at a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// Ask the person whether to continue.
    Ask,
    /// End the turn.
    End,
}

impl AtLimit {
    /// `Ask` if a person is present, otherwise `End`.
    pub fn with_person(is_there: bool) -> Self {
        if is_there { Self::Ask } else { Self::End }
    }
}
