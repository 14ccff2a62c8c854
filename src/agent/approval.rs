//! May a cell run, or must somebody be asked first?

use serde::{Deserialize, Serialize};

/// What the person wants to be asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// Ask before each cell that the model wrote.
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

impl Approval {
    /// What a cell of the model needs.
    pub fn requirement(self) -> Requirement {
        match self {
            Self::Ask => Requirement::Ask,
            Self::Never => Requirement::Run,
        }
    }
}
