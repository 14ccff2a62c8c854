//! Whether a file of a project may be used: the question to a person.

use crate::agent::project::{FILE, Project, SERVERS};

/// A question to the person: may this be used, now and whenever the file says just this? Answered by
/// [`super::project::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustQuestion {
    /// What the file is for.
    pub purpose: Purpose,
    /// The file and what it says, which must be shown before anybody answers.
    pub project: Project,
}

/// What a file of a project is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Instructions to the model.
    Instructions,
    /// MCP servers whose tools code can call.
    Servers,
}

impl Purpose {
    /// All of them, in the order in which a person is asked.
    pub const ALL: [Self; 2] = [Self::Instructions, Self::Servers];

    /// The name of the file.
    pub fn file(self) -> &'static str {
        match self {
            Self::Instructions => FILE,
            Self::Servers => SERVERS,
        }
    }

    /// What is in it.
    pub(super) fn content(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Servers => "MCP servers",
        }
    }

    /// How to have it used.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::Instructions => "--trust-project follows them",
            Self::Servers => "`sponde` in a terminal asks",
        }
    }

    /// What is done with that.
    pub(super) fn used(self) -> &'static str {
        match self {
            Self::Instructions => "followed",
            Self::Servers => "used",
        }
    }
}
