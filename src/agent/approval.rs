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
    /// What a cell of the model needs.
    pub fn requirement(self) -> Requirement {
        match self {
            Self::Ask => Requirement::Ask,
            Self::Never => Requirement::Run,
        }
    }
}
