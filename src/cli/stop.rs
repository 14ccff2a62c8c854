//! What a signal asks the waiting code to do.

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Ctrl-C: stop the current activity.
    Interrupt,
    /// SIGTERM or SIGHUP: end cleanly.
    End,
}
