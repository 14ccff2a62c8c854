//! The cost of the session and of each turn. A turn is identified by the cell of its question.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Cell, CellKind, Transcript};
use crate::llm::types::{Cost, Native, Usage};

/// What a turn or a session has cost so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Spent {
    /// Requests to the model.
    pub requests: u32,
    /// Their tokens.
    pub usage: Usage,
    /// From the question to the end of its turn, in milliseconds, all turns together.
    pub milliseconds: u64,
}

impl Spent {
    /// The cost as notebook metadata.
    pub(in crate::session) fn to_json(self) -> Value {
        let Self {
            requests,
            usage,
            milliseconds,
        } = self;
        let mut account = json!({
            "requests": requests,
            "input_tokens": usage.input,
            "cached_tokens": usage.cached,
            "output_tokens": usage.output,
        });
        if let Some(cost) = usage.cost {
            account["cost_usd"] = cost.in_dollars().into();
        }
        if milliseconds > 0 {
            account["seconds"] = Duration::from_millis(milliseconds).as_secs_f64().into();
        }
        account
    }

    /// Reads the cost from metadata; missing values are zero.
    pub(in crate::session) fn from_json(account: &Value) -> Self {
        let count = |key: &str| account.get(key).and_then(Value::as_u64).unwrap_or(0);
        let number = |key: &str| account.get(key).and_then(Value::as_f64);
        let seconds = number("seconds").and_then(|it| Duration::try_from_secs_f64(it).ok());
        Self {
            requests: u32::try_from(count("requests")).unwrap_or(u32::MAX),
            usage: Usage {
                input: count("input_tokens"),
                cached: count("cached_tokens"),
                output: count("output_tokens"),
                cost: number("cost_usd").map(Cost::dollars),
                ..Usage::default()
            },
            milliseconds: seconds
                .and_then(|it| u64::try_from(it.as_millis()).ok())
                .unwrap_or(0),
        }
    }
}

/// All accounts of a session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Accounts {
    /// Of all turns.
    session: Spent,
    /// By the cell of the question.
    turns: BTreeMap<String, Spent>,
}

impl Accounts {
    /// The total of all turns.
    pub fn session(&self) -> Spent {
        self.session
    }

    /// Reads the metadata of a notebook and of its cells: the costs, and the data that providers need back.
    pub(in crate::session) fn read(
        file: &Map<String, Value>,
        cells: &[(Cell, Value)],
    ) -> (Self, BTreeMap<u32, Native>) {
        let mut accounts = Self::default();
        if let Some(account) = file.get("usage") {
            accounts.session = Spent::from_json(account);
        }
        let mut natives = BTreeMap::new();
        for (cell, ours) in cells {
            if let Some(account) = ours.get("usage") {
                let account = Spent::from_json(account);
                accounts.turns.insert(cell.id.clone(), account);
            }
            if let (Some(step), Some(reply)) = (cell.step(), ours.get("reply")) {
                natives.insert(step, Native::new(reply.clone()));
            }
        }
        (accounts, natives)
    }
}

impl Transcript {
    /// The data that the provider needs back with reply `step`, besides its text and calls.
    pub fn native(&self, step: u32) -> Option<&Native> {
        self.natives.get(&step)
    }

    /// The cost of all turns so far.
    pub fn spent(&self) -> Spent {
        self.accounts.session
    }

    /// The cost so far of the turn that this question started.
    pub fn spent_on(&self, question: &str) -> Spent {
        let account = self.accounts.turns.get(question);
        account.copied().unwrap_or_default()
    }

    /// The cost so far of the latest turn.
    pub fn spent_lately(&self) -> Spent {
        self.question()
            .map(|question| self.spent_on(question))
            .unwrap_or_default()
    }

    pub(super) fn keep(&mut self, step: u32, native: Native) {
        // The notebook stores it in the first cell of the reply.
        let mut cells = self.cells().iter();
        if let Some(at) = cells.position(|cell| cell.step() == Some(step)) {
            self.cells.touch(at);
        }
        self.natives.insert(step, native);
    }

    pub(super) fn spend(&mut self, usage: Usage) {
        self.account(|spent| {
            spent.requests += 1;
            spent.usage += usage;
        });
    }

    pub(super) fn end_turn(&mut self, milliseconds: u64) {
        self.account(|spent| spent.milliseconds += milliseconds);
    }

    /// Changes the costs of the session and of the latest question.
    fn account(&mut self, change: impl Fn(&mut Spent)) {
        change(&mut self.accounts.session);
        if let Some(question) = self.question().map(str::to_owned) {
            // The notebook stores it in the cell of the question.
            if let Some(at) = self.cells.position(&question) {
                self.cells.touch(at);
            }
            change(self.accounts.turns.entry(question).or_default());
        }
    }

    /// The latest question.
    fn question(&self) -> Option<&str> {
        let is_question = |cell: &&Cell| cell.kind == CellKind::User;
        let latest = self.cells().iter().rfind(is_question);
        latest.map(|cell| cell.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_comes_back_from_the_metadata() {
        let spent = Spent {
            requests: 3,
            usage: Usage {
                input: 1000,
                cached: 600,
                output: 50,
                cost: Some(Cost::dollars(0.0123)),
                ..Usage::default()
            },
            milliseconds: 12_345,
        };
        assert_eq!(Spent::from_json(&spent.to_json()), spent);
        assert_eq!(Spent::from_json(&Value::Null), Spent::default());
    }
}
