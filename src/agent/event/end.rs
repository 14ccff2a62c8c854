//! How turns end.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// The model was done, or the person's own cell ran well.
    Done,
    /// The model has written a plan, and nobody let it carry that out.
    Planned,
    /// The person's own cell failed.
    CellFailed,
    /// The person stopped it.
    Interrupted,
    /// The model used all its steps.
    StepLimit {
        /// How many it had.
        steps: u32,
    },
    /// The model ran the same failing code for the third time.
    Repeating,
    /// The next request would cost more than is left of a budget.
    Budget {
        /// How much, in words.
        message: String,
    },
    /// Code was not allowed to run and nobody was there to ask.
    Declined,
    /// The model could not be asked.
    ModelFailed {
        /// What happened.
        message: String,
        /// The environment variable that holds the key, if the key was the problem.
        #[serde(skip_serializing_if = "Option::is_none")]
        key_variable: Option<String>,
    },
    /// There is no kernel.
    KernelFailed {
        /// What happened.
        message: String,
    },
}
