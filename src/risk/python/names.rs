//! What names stand for, over the cells of a session.

use std::collections::BTreeMap;

/// Names that are remembered.
const MOST: usize = 2000;

/// Names that cells have imported, with what they stand for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    aliases: BTreeMap<String, String>,
}

impl Names {
    /// What `name` stands for, with all its modules.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.aliases.get(name).map(String::as_str)
    }

    /// From now on `name` stands for `full`.
    pub(super) fn set(&mut self, name: &str, full: String) {
        if self.aliases.len() < MOST || self.aliases.contains_key(name) {
            self.aliases.insert(name.to_owned(), full);
        }
    }

    /// Takes what another cell has made of them.
    pub(super) fn take(&mut self, other: Self) {
        for (name, full) in other.aliases {
            self.set(&name, full);
        }
    }
}
