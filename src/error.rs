//! What a front end shows when something could not be done: what kind of thing, what happened, and a hint.

use std::fmt;

/// What kind of thing went wrong. What a program ends with, or a server answers, is a matter of the front end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The turn or a cell failed.
    Failed,
    /// What was asked for, or an input file, is wrong.
    Usage,
    /// Code needed approval and did not get it.
    Approval,
    /// The kernel could not start, or died.
    Kernel,
    /// The model could not be asked.
    Provider,
    /// A person stopped it.
    Interrupted,
    /// Nobody reads the output any more, who has seen enough: no failure for a person.
    OutputClosed,
    /// A script that was run ended with this status.
    Script(u8),
}

/// An error as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What was tried and what happened; lower case, no full stop.
    pub message: String,
    /// More of it, for example what a kernel wrote.
    pub details: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            details: None,
            hint: None,
        }
    }

    /// Something wrong with what was typed or with a file that was named.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// With what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With more of what happened.
    #[must_use]
    pub fn details(mut self, details: Option<&str>) -> Self {
        self.details = details.filter(|text| !text.is_empty()).map(str::to_owned);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
