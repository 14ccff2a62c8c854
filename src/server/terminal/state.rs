//! The server's state for Open WebUI: sessions by chat.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

use super::super::problem::Problem;
use crate::app::SessionSettings;
use crate::app::executor::{DEFAULT, Executor};
use crate::app::registry::Registry;

/// Bytes of a name's digest.
const DIGEST: usize = 12;
/// Maximum open notebooks; opening one more closes the oldest.
const MOST: usize = 64;

/// The state of this API.
pub(in crate::server) struct TerminalState {
    pub(super) executor: Executor,
    pub(super) notebooks: Notebooks,
}

impl TerminalState {
    pub(in crate::server) fn new(
        registry: &Registry,
        settings: &SessionSettings,
        root: &Path,
    ) -> Self {
        Self {
            executor: Executor::new(registry.clone(), settings.clone(), root.to_owned()),
            notebooks: Notebooks::default(),
        }
    }
}

/// Open notebooks, the oldest first.
#[derive(Default)]
pub(super) struct Notebooks(Mutex<Vec<Arc<OpenedNotebook>>>);

/// A notebook with a kernel.
pub(super) struct OpenedNotebook {
    pub(super) id: String,
    pub(super) owner: Option<String>,
    pub(super) path: String,
    pub(super) kernel: String,
    /// Held while a cell runs.
    pub(super) running: tokio::sync::Mutex<()>,
}

impl Notebooks {
    /// Adds a notebook. Returns the one that must be closed for it.
    pub(super) fn add(&self, opened: OpenedNotebook) -> Option<Arc<OpenedNotebook>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::new(opened));
        (all.len() > MOST).then(|| all.remove(0))
    }

    /// The notebook `id`, for the user who opened it.
    pub(super) fn get(
        &self,
        id: &str,
        owner: Option<&str>,
    ) -> Result<Arc<OpenedNotebook>, Problem> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |it: &&Arc<OpenedNotebook>| it.id == id && it.owner.as_deref() == owner;
        let found = all.iter().find(is_it).cloned();
        found.ok_or_else(|| Problem::not_found("there is no such notebook session"))
    }

    pub(super) fn remove(&self, id: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|it| it.id != id);
    }
}

impl OpenedNotebook {
    /// The name of its session.
    pub(super) fn session(&self) -> String {
        format!("notebook-{}", self.id)
    }
}

/// The name of the session for a user's chat.
pub(super) fn name_of(user: Option<&str>, chat: Option<&str>) -> String {
    if user.is_none() && chat.is_none() {
        return DEFAULT.to_owned();
    }
    let mut digest = Sha256::new();
    for part in [user, chat] {
        let part = part.unwrap_or_default();
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    let mut name = "chat-".to_owned();
    for byte in digest.finalize().iter().take(DIGEST) {
        let _ = write!(name, "{byte:02x}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_and_chat_has_a_session() {
        let name = name_of(Some("a"), Some("b"));
        assert_eq!(name.len(), 5 + 2 * DIGEST);
        assert_eq!(name, name_of(Some("a"), Some("b")));
        for (user, chat) in [
            (Some("ab"), None),
            (None, Some("ab")),
            (Some("b"), Some("a")),
        ] {
            assert_ne!(name, name_of(user, chat));
        }
        assert_ne!(name_of(Some("a"), None), name_of(None, Some("a")));
        assert_eq!(name_of(None, None), DEFAULT);
    }
}
