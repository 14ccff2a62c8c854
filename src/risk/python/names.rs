//! What imported names refer to, across the cells of a session.

use std::collections::BTreeMap;

/// Maximum names remembered.
const MOST: usize = 2000;

/// Imported names and what they refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    aliases: BTreeMap<String, String>,
}

impl Names {
    /// The full dotted name that `name` refers to.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.aliases.get(name).map(String::as_str)
    }

    /// Binds `name` to `full`.
    pub(super) fn set(&mut self, name: &str, full: String) {
        if self.aliases.len() < MOST || self.aliases.contains_key(name) {
            self.aliases.insert(name.to_owned(), full);
        }
    }

    /// Adds the names of `other`.
    pub(super) fn take(&mut self, other: Self) {
        for (name, full) in other.aliases {
            self.set(&name, full);
        }
    }
}
