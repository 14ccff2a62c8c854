//! The decision about a cell, by whom and why, as the session records it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Action, Approval};
use crate::risk::Finding;

/// What was decided about a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ruling {
    /// What happens.
    pub action: Action,
    /// Who says so.
    #[serde(flatten)]
    pub by: RuledBy,
    /// Why, in words.
    pub reason: String,
    /// What was found in the code that this is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "ruled_by", rename_all = "snake_case")]
pub enum RuledBy {
    /// The policy.
    Policy {
        /// Which.
        approval: Approval,
    },
    /// A rule of the configuration.
    Rule {
        /// Its place there, from 1.
        number: usize,
        /// What it says.
        rule: String,
    },
    /// A person said `always` or `never` to such code earlier in the session.
    Remembered,
    /// A person who was asked.
    Person {
        /// Their client.
        client: String,
    },
}

impl Ruling {
    /// Whether it has a finding that `before` lacks.
    pub fn adds_to(&self, before: &Self) -> bool {
        let is_known = |finding: &Finding| {
            before.findings.iter().any(|known| {
                known.kind == finding.kind
                    && known.path == finding.path
                    && known.command == finding.command
            })
        };
        !self.findings.iter().all(is_known)
    }

    /// What the model is told about forbidden code.
    pub fn words_for_model(&self) -> String {
        let mut words = String::from(match self.by {
            RuledBy::Remembered => "the user forbade such code in this session",
            RuledBy::Policy { .. } | RuledBy::Rule { .. } | RuledBy::Person { .. } => {
                "a rule of the user forbids this code"
            }
        });
        for (at, finding) in self.findings.iter().enumerate() {
            words.push_str(if at == 0 { ": " } else { "; " });
            words.push_str(&finding.words());
        }
        words.push_str(". It did not run and will not run. Use another approach, or explain why this code is needed.");
        words
    }
}

impl Finding {
    /// One line: `line 3: deletes files (shutil.rmtree("out"))`.
    pub fn words(&self) -> String {
        format!("line {}: {} ({})", self.line, self.reason, self.text)
    }
}
