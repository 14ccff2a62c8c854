//! Rules for servers' messages over any transport: maximum length, answers to servers' requests, and reasons for a
//! missing result.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::rpc::{RpcError, Unanswered};

/// Maximum bytes of a server's message.
pub(super) const LONGEST: usize = 16 << 20;

/// The answer to a server's request.
pub(super) fn asked_back(method: &str) -> Result<Value, RpcError> {
    match method {
        "ping" => Ok(Value::Object(Map::new())),
        other => Err(RpcError::no_method(other)),
    }
}

/// Why a server gave no result, completing a sentence about it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum NoResult {
    #[error("did not answer within {} s and was given up", .0.as_secs())]
    Late(Duration),
    /// The reason as text, or empty.
    #[error("has ended{}", because(.0))]
    Gone(String),
    #[error("could not be reached: {0}")]
    Unreachable(String),
    #[error("answered with an error: {0}")]
    Refused(String),
    #[error("has too many calls at a time")]
    TooMany,
}

fn because(why: &str) -> String {
    if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    }
}

impl NoResult {
    /// Why a request got no answer within `limit`; `why`: the reason for the server's end, if it ended.
    pub(super) fn of(
        unanswered: Unanswered,
        limit: Duration,
        why: impl FnOnce() -> String,
    ) -> Self {
        match unanswered {
            Unanswered::Late => Self::Late(limit),
            Unanswered::Gone => Self::Gone(why()),
            Unanswered::Refused(words) => Self::Refused(words),
            Unanswered::TooMany => Self::TooMany,
        }
    }
}
