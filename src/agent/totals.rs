//! Session totals for front ends.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::llm::types::Cost;
use crate::session::transcript::Spent;

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Requests to the model.
    pub requests: u32,
    /// Tokens sent, cached ones included.
    pub input_tokens: u64,
    /// Of these, those that the provider had in its cache.
    pub cached_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// US dollars, as far as prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// From questions to the ends of their turns, without the time that a person took to answer.
    pub seconds: f64,
}

impl From<Spent> for Totals {
    fn from(spent: Spent) -> Self {
        let Spent {
            requests,
            usage,
            milliseconds,
        } = spent;
        Self {
            requests,
            input_tokens: usage.input,
            cached_tokens: usage.cached,
            output_tokens: usage.output,
            cost_usd: usage.cost.map(Cost::in_dollars),
            seconds: Duration::from_millis(milliseconds).as_secs_f64(),
        }
    }
}
