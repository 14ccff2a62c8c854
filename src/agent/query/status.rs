//! A session's current settings and its usage so far.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::approval::Approval;
use crate::agent::totals::Totals;

/// How a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStatus {
    /// `provider/name` of the model, if there is one.
    pub model: Option<String>,
    /// What the model reads.
    pub context: ContextUse,
    /// What was spent so far.
    pub spent: Totals,
    /// When a person is asked before code of the model runs.
    pub approval: Approval,
    /// What code may do, in words.
    pub sandbox: String,
    /// Where the kernels work.
    pub directory: String,
    /// Where the notebook is kept.
    pub notebook: String,
}

/// How much of a model's context window is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextUse {
    /// Tokens of the conversation as the model would get it now, as estimated.
    pub tokens: u64,
    /// Tokens of the window, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
}
