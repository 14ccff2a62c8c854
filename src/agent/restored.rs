//! What there is of a session that goes on, as its events say.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a kernel has of a session that is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelMemory {
    /// Everything: it was kept.
    Alive,
    /// Nothing: it is a new one.
    Gone,
}

/// Where the variables of a resumed session come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoredBy {
    /// The kernel was kept.
    Kernel,
    /// The code ran again.
    Replay,
    /// There are none.
    Nothing,
}
