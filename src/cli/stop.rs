//! What a signal asks of whatever waits.

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    /// Ctrl-C: stop what is going on.
    Interrupt,
    /// SIGTERM or SIGHUP: end in good order.
    End,
}
