//! The question to a person whether a project's file may be used.

use crate::agent::project::{FILE, Project, SERVERS};

/// Asks the person to allow a file now, and as long as its content is unchanged. Answered with
/// [`super::project::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustQuestion {
    /// The purpose of the file.
    pub purpose: Purpose,
    /// The file and its content, which must be shown before anyone answers.
    pub project: Project,
}

/// The purpose of a project's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Instructions to the model.
    Instructions,
    /// MCP servers whose tools code can call.
    Servers,
}

impl Purpose {
    /// All purposes, in the order of the questions.
    pub const ALL: [Self; 2] = [Self::Instructions, Self::Servers];

    /// The name of the file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Instructions => FILE,
            Self::Servers => SERVERS,
        }
    }

    /// A description of its content.
    pub(super) fn content(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Servers => "MCP servers",
        }
    }

    /// How to allow its use.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Instructions => "--trust-project follows them",
            Self::Servers => "`sponde` in a terminal asks",
        }
    }

    /// A description of its use.
    pub(super) fn used(self) -> &'static str {
        match self {
            Self::Instructions => "followed",
            Self::Servers => "used",
        }
    }
}
