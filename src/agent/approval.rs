//! May a cell run, or must somebody be asked first? And may a turn go on?

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the person wants to be asked about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Ask before each cell that the model wrote.
    #[default]
    Ask,
    /// Never ask: run it.
    Never,
}

/// What a cell needs before it may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    Run,
    /// A person's word.
    Ask,
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

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtLimit {
    /// The person is asked whether to go on.
    Ask,
    /// The turn ends.
    End,
}

impl AtLimit {
    /// Whoever is there is asked.
    pub fn with_person(is_there: bool) -> Self {
        if is_there { Self::Ask } else { Self::End }
    }
}

impl Approval {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Never => "never",
        }
    }

    /// What a cell of the model needs.
    pub fn requirement(self) -> Requirement {
        match self {
            Self::Ask => Requirement::Ask,
            Self::Never => Requirement::Run,
        }
    }
}
