//! What a front end shows when something could not be done: what happened, a hint, and the exit code.

use std::fmt;
use std::process::ExitCode;

/// How `sponde` ends (README, "Exit codes").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// The turn or a cell failed.
    Failed,
    /// The command line or an input file is wrong.
    Usage,
    /// Code needed approval and did not get it.
    Approval,
    /// The kernel could not start, or died.
    Kernel,
    /// The model could not be asked.
    Provider,
    /// Ctrl-C.
    Interrupted,
    /// As the script that was run has ended itself.
    Script(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Approval => 3,
            Exit::Kernel => 4,
            Exit::Provider => 5,
            Exit::Interrupted => 130,
            Exit::Script(status) => status,
        })
    }
}

/// An error as a person sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// What was tried and what happened; lower case, no full stop.
    pub message: String,
    /// More of it, for example what a kernel wrote.
    pub details: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            details: None,
            hint: None,
        }
    }

    /// Something wrong with what was typed or with a file that was named.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
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
