//! Whether the instructions of a project may be followed: the question to a person.

use crate::agent::project::Project;

/// A question to the person: may the model follow these instructions, now and whenever the file says just this?
/// Answered by [`super::project::decide`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustQuestion {
    /// The file and what it says, which must be shown before anybody answers.
    pub project: Project,
}
