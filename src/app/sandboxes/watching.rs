//! Detects changes in a sandbox's directory by polling: compares names, sizes, times and permissions with the previous
//! scan. A file that came and went in between is not noticed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::files::{Entry, EntryType, FileError, Files};
use super::lock;

/// Maximum polled watches of a sandbox.
const WATCHES: usize = 32;
/// Maximum depth of a scan.
const DEPTH: u32 = 64;
/// Prefix and suffix of files that are still being written.
const UNFINISHED: (&str, &str) = (".sponde-", ".tmp");

/// The type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeType {
    /// It is new.
    Created,
    /// Its content changed.
    Written,
    /// It is gone.
    Removed,
    /// It was renamed or moved.
    Renamed,
    /// Its permissions changed.
    Permissions,
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its type.
    pub what: ChangeType,
    /// The changed path, relative to the watched directory.
    pub name: String,
    /// The current entry, if it exists.
    pub entry: Option<Entry>,
}

/// A watched directory.
pub struct Watch {
    files: Files,
    path: String,
    depth: u32,
    /// The result of the last scan.
    known: Mutex<Look>,
}

type Look = BTreeMap<String, Entry>;

impl Watch {
    /// Begins to watch; the current content counts as known.
    ///
    /// # Errors
    /// It is no directory of the sandbox.
    pub fn begin(files: &Files, path: &str, is_recursive: bool) -> Result<Self, FileError> {
        let watch = Self {
            files: files.clone(),
            path: path.to_owned(),
            depth: if is_recursive { DEPTH } else { 1 },
            known: Mutex::default(),
        };
        *lock(&watch.known) = watch.look()?;
        Ok(watch)
    }

    /// The changes since the last scan.
    ///
    /// # Errors
    /// The directory is gone.
    pub fn changes(&self) -> Result<Vec<Change>, FileError> {
        let now = self.look()?;
        let mut known = lock(&self.known);
        let changes = changes(&known, &now);
        *known = now;
        Ok(changes)
    }

    fn look(&self) -> Result<Look, FileError> {
        let above = self.files.stat(&self.path)?.path;
        let entries = self.files.list(&self.path, self.depth)?;
        let (start, end) = UNFINISHED;
        let is_whole = |it: &Entry| !(it.name.starts_with(start) && it.name.ends_with(end));
        let named = entries.into_iter().filter(is_whole).map(|entry| {
            let name = entry.path.strip_prefix(&above);
            let name = name.unwrap_or(&entry.path).trim_start_matches('/');
            (name.to_owned(), entry)
        });
        Ok(named.collect())
    }
}

fn changes(before: &Look, now: &Look) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut tell = |what, name: &str, entry: Option<&Entry>| {
        changes.push(Change {
            what,
            name: name.to_owned(),
            entry: entry.cloned(),
        });
    };
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    for (name, old) in gone {
        let is_new = |(name, entry): (&String, &Entry)| {
            entry.inode == old.inode && !before.contains_key(name)
        };
        let what = if now.iter().any(is_new) {
            ChangeType::Renamed
        } else {
            ChangeType::Removed
        };
        tell(what, name, None);
    }
    for (name, entry) in now {
        let is_file = entry.kind == EntryType::File;
        match before.get(name) {
            None => {
                tell(ChangeType::Created, name, Some(entry));
                if is_file {
                    tell(ChangeType::Permissions, name, Some(entry));
                    tell(ChangeType::Written, name, Some(entry));
                }
            }
            Some(old) => {
                if old.mode != entry.mode {
                    tell(ChangeType::Permissions, name, Some(entry));
                }
                if is_file && content(old) != content(entry) {
                    tell(ChangeType::Written, name, Some(entry));
                }
            }
        }
    }
    changes
}

/// The attributes that change with a file's content.
fn content(entry: &Entry) -> (u64, u64, SystemTime) {
    (entry.inode, entry.size, entry.modified)
}

/// The watches that programs poll.
#[derive(Default)]
pub struct Watches {
    all: Mutex<BTreeMap<String, Arc<Watch>>>,
}

impl Watches {
    /// Adds a watch. Returns its id.
    ///
    /// # Errors
    /// There are too many.
    pub fn add(&self, watch: Watch) -> Result<String, FileError> {
        let mut all = lock(&self.all);
        if all.len() >= WATCHES {
            return Err(FileError::Invalid(format!(
                "a sandbox has at most {WATCHES} watchers: stop one"
            )));
        }
        let id = uuid::Uuid::new_v4().simple().to_string();
        all.insert(id.clone(), Arc::new(watch));
        Ok(id)
    }

    /// The watch with this id.
    ///
    /// # Errors
    /// There is no such watch.
    pub fn get(&self, id: &str) -> Result<Arc<Watch>, FileError> {
        let found = lock(&self.all).get(id).cloned();
        found.ok_or_else(|| FileError::NotFound(format!("watcher {id}")))
    }

    /// Removes a watch.
    ///
    /// # Errors
    /// There is no such watch.
    pub fn remove(&self, id: &str) -> Result<(), FileError> {
        let removed = lock(&self.all).remove(id);
        removed
            .map(|_| ())
            .ok_or_else(|| FileError::NotFound(format!("watcher {id}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(all: &[(&str, EntryType, u64, u64, u32)]) -> Look {
        let entry = |name: &str, kind, inode, size, mode| Entry {
            name: name.to_owned(),
            path: format!("/home/user/{name}"),
            kind,
            size,
            mode,
            inode,
            modified: SystemTime::UNIX_EPOCH,
            target: None,
            metadata: BTreeMap::new(),
        };
        all.iter()
            .map(|&(name, kind, inode, size, mode)| {
                (name.to_owned(), entry(name, kind, inode, size, mode))
            })
            .collect()
    }

    #[test]
    fn two_looks_say_what_has_happened() {
        use ChangeType::{Created, Permissions, Removed, Renamed, Written};
        use EntryType::{Directory, File};
        let before = look(&[
            ("dir", Directory, 1, 0, 0o755),
            ("gone", File, 2, 1, 0o644),
            ("moved", File, 3, 1, 0o644),
            ("same", File, 4, 1, 0o644),
            ("written", File, 5, 1, 0o644),
            ("x", File, 6, 1, 0o644),
        ]);
        let now = look(&[
            ("dir", Directory, 1, 0, 0o755),
            ("dir/new", File, 7, 1, 0o644),
            ("dir/moved", File, 3, 1, 0o644),
            ("same", File, 4, 1, 0o644),
            ("written", File, 8, 1, 0o644),
            ("x", File, 6, 1, 0o755),
        ]);
        let found = changes(&before, &now);
        let found: Vec<_> = found.iter().map(|it| (it.what, it.name.as_str())).collect();
        assert_eq!(
            found,
            [
                (Removed, "gone"),
                (Renamed, "moved"),
                (Created, "dir/moved"),
                (Permissions, "dir/moved"),
                (Written, "dir/moved"),
                (Created, "dir/new"),
                (Permissions, "dir/new"),
                (Written, "dir/new"),
                (Written, "written"),
                (Permissions, "x"),
            ]
        );
        assert_eq!(changes(&now, &now), []);
    }
}
