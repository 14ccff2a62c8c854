//! What the server keeps for programs that run scripts.

use crate::app::SessionSettings;
use crate::app::containers::{ContainerNames, Containers};
use crate::app::executor::Executor;
use crate::app::registry::Registry;

/// Containers at a time: one an upload, and one a run that left files.
const CONTAINERS: usize = 10_000;

/// The server's part of it.
pub(in crate::server) struct CodeApiState {
    /// The containers, which OpenAI's clients do not see.
    pub(in crate::server) containers: Containers,
    /// Those of conversations, by what the program calls them.
    pub(super) conversations: ContainerNames,
}

impl CodeApiState {
    pub(in crate::server) fn new(registry: &Registry, settings: &SessionSettings) -> Self {
        let root = registry.context().paths.data.join("scripts");
        let mut settings = settings.clone();
        settings.sandbox.at_mnt_data = true;
        let executor = Executor::new(registry.clone(), settings, root.clone());
        Self {
            containers: Containers::new(executor, &root, CONTAINERS),
            conversations: ContainerNames::default(),
        }
    }
}
