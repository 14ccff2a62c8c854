//! What a person should know while something is prepared, as values that a front end shows.

use std::fmt;
use std::sync::Arc;

/// Something a person should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// What goes on.
    Info(String),
    /// Something is not as the person may expect.
    Warning(String),
    /// A step that another program does has begun.
    StepBegan {
        /// What it does, in words.
        what: String,
    },
    /// The latest line of that program.
    StepOutput {
        /// As in [`Notice::StepBegan`].
        what: String,
        /// Not filtered: it is another program's.
        line: String,
    },
    /// The step is over; a failed one is told by the error, too.
    StepEnded {
        /// As in [`Notice::StepBegan`].
        what: String,
        /// Whether it worked.
        done: bool,
    },
}

/// Takes notices; clones go to the same place.
#[derive(Clone)]
pub struct Notify(Arc<dyn Fn(Notice) + Send + Sync>);

impl Notify {
    /// Hands each notice to `show`, which must not block for long.
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
