//! Rules of the configuration: what is allowed, asked about or forbidden, overriding the policy.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Approval;
use super::glob::matches;
use crate::risk::FindingKind;

/// What happens with a cell.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It runs.
    Allow,
    /// A person is asked.
    Ask,
    /// It never runs.
    Forbid,
}

/// `[[approval.rules]]`: it fits what all of its keys fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rule {
    /// What happens then.
    pub action: Action,
    /// What was found in the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingKind>,
    /// The cell's language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// A pattern of paths: absolute ones, in the home directory (`~/`), or else in the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// A pattern of names of programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// What a rule is matched against.
pub(super) struct Subject<'a> {
    pub(super) finding: Option<FindingKind>,
    /// All forms of the path: absolute, and relative to the working and home directories.
    pub(super) paths: &'a [String],
    pub(super) command: Option<&'a str>,
}

impl Rule {
    /// Whether the rule is about whole cells.
    pub(super) fn is_general(&self) -> bool {
        self.finding.is_none() && self.path.is_none() && self.command.is_none()
    }

    pub(super) fn fits_language(&self, language: &str) -> bool {
        let wanted = self.language.as_deref();
        wanted.is_none_or(|wanted| wanted.eq_ignore_ascii_case(language))
    }

    pub(super) fn fits(&self, subject: &Subject<'_>) -> bool {
        let fits_path = |pattern: &String| subject.paths.iter().any(|path| matches(pattern, path));
        let fits_command =
            |pattern: &String| subject.command.is_some_and(|it| matches(pattern, it));
        self.finding
            .is_none_or(|kind| Some(kind) == subject.finding)
            && self.path.as_ref().is_none_or(fits_path)
            && self.command.as_ref().is_none_or(fits_command)
    }
}

/// Formats the rule in one line, as in the configuration.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Forbid => "forbid",
        };
        write!(f, "{action}")?;
        if let Some(kind) = self.finding {
            write!(f, " finding {}", kind.name())?;
        }
        let keys = [
            ("language", &self.language),
            ("path", &self.path),
            ("command", &self.command),
        ];
        for (key, value) in keys {
            if let Some(value) = value {
                write!(f, " {key} {value}")?;
            }
        }
        Ok(())
    }
}

/// `approval = "on-risk"`, or `[approval]` with `policy` and `rules`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Written")]
pub struct Settings {
    /// When to ask; `None` is the default for the sandbox.
    pub policy: Option<Approval>,
    /// Rules in order: the first match decides, but a match that forbids always wins.
    pub rules: Vec<Rule>,
}

/// The two forms of the setting.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`approval` has to be `always`, `on-risk` or `never`, or a table with `policy` and `rules` (docs/approvals.md)"
)]
enum Written {
    Policy(Approval),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    policy: Option<Approval>,
    #[serde(default)]
    rules: Vec<Rule>,
}

impl From<Written> for Settings {
    fn from(written: Written) -> Self {
        match written {
            Written::Policy(policy) => Self {
                policy: Some(policy),
                rules: Vec::new(),
            },
            Written::Table(Table { policy, rules }) => Self { policy, rules },
        }
    }
}
