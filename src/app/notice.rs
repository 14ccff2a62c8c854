//! Messages for a person during preparation, as values that a front end shows.

use std::fmt;
use std::sync::Arc;

/// A message for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Progress information.
    Info(String),
    /// Something differs from what the person may expect.
    Warning(String),
    /// Another program began a step.
    StepBegan {
        /// A description of the step.
        what: String,
    },
    /// The latest line of that program.
    StepOutput {
        /// Same as in [`Notice::StepBegan`].
        what: String,
        /// Unfiltered output of another program.
        line: String,
    },
    /// The step has ended; if it failed, there is also an error.
    StepEnded {
        /// Same as in [`Notice::StepBegan`].
        what: String,
        /// Whether it worked.
        done: bool,
    },
}

/// A receiver of notices; clones share it.
#[derive(Clone)]
pub struct Notify(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notify {
    /// Passes each notice to `show`, which must not block for long.
    pub fn new(show: impl Fn(Notice) + Send + Sync + 'static) -> Self {
        Self(Arc::new(show))
    }

    /// Drops all notices.
    pub fn nobody() -> Self {
        Self::new(|_| {})
    }

    pub(super) fn send(&self, notice: Notice) {
        (self.0)(notice);
    }

    pub(super) fn info(&self, text: impl Into<String>) {
        self.send(Notice::Info(text.into()));
    }

    pub(super) fn warning(&self, text: impl Into<String>) {
        self.send(Notice::Warning(text.into()));
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notify")
    }
}
