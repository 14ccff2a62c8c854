//! The server's state for programs that run scripts.

use crate::app::SessionSettings;
use crate::app::containers::{ContainerNames, Containers};
use crate::app::executor::Executor;
use crate::app::registry::Registry;

/// Maximum containers at a time: one per upload, and one per run that left files.
const CONTAINERS: usize = 10_000;

/// The state of this API.
pub(in crate::server) struct CodeApiState {
    /// The containers, which OpenAI's clients cannot see.
    pub(in crate::server) containers: Containers,
    /// The containers of conversations, by the program's name for them.
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
