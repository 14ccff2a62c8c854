//! Events that ask a person.

use super::EventKind;

impl EventKind {
    /// Whether the turn waits for a person's answer to it.
    pub(in crate::agent) fn asks_person(&self) -> bool {
        matches!(
            self,
            Self::ApprovalRequested { .. }
                | Self::ContinueRequested { .. }
                | Self::InputRequested { .. }
        )
    }
}
