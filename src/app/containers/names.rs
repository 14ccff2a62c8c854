//! Maps a program's own names to containers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many names are remembered.
const MOST: usize = 1000;

/// The latest names and their containers.
#[derive(Debug, Default)]
pub struct ContainerNames(Mutex<VecDeque<(String, String)>>);

impl ContainerNames {
    /// The container with this name.
    pub fn container(&self, name: &str) -> Option<String> {
        let names = self.lock();
        let found = names.iter().find(|(known, _)| known == name);
        found.map(|(_, container)| container.clone())
    }

    /// Assigns `name` to `container`.
    pub fn keep(&self, name: &str, container: &str) {
        let mut names = self.lock();
        names.retain(|(known, _)| known != name);
        if names.len() >= MOST {
            names.pop_front();
        }
        names.push_back((name.to_owned(), container.to_owned()));
    }

    /// Consistent after every change.
    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
