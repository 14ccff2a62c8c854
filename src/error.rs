//! Errors as a front end shows them: a kind, a message, and a hint.

use std::fmt;

/// The kind of failure. Front ends map it to an exit status or a server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The turn or a cell failed.
    Failed,
    /// The request, or an input file, is wrong.
    Usage,
    /// Code needed approval and did not get it.
    Approval,
    /// The kernel could not start, or died.
    Kernel,
    /// The model could not be reached or refused.
    Provider,
    /// The user stopped it.
    Interrupted,
    /// The reader of our output has closed it: not a failure to a user.
    OutputClosed,
    /// A script that was run ended with this status.
    Script(u8),
}

/// An error as shown to a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// What was tried and what happened; lower case, no full stop.
    pub message: String,
    /// Further details, for example what a kernel wrote.
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

    /// An error in the command line or in a file that was named.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds details; empty text is ignored.
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
