//! A cell's changes to the workspace files: two scans, before and after, that read no file content.
//!
//! A scan is bounded in entries and time; if it ends early, the result is marked incomplete. Links are not followed,
//! and the session's own files are excluded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::scan::{Bounds, DirEntry, Scan};
use super::workspace::belongs_to;
use crate::session::changes::{ChangedFile, FilesChanged, runs_later};

/// Maximum entries of a scan.
const ENTRIES: usize = 20_000;
/// Time limit of a scan.
const TIME: Duration = Duration::from_millis(100);
/// Maximum files listed for one cell.
const NAMED: usize = 60;

/// The directory to watch.
#[derive(Debug, Clone)]
pub(in crate::agent) struct Watched {
    root: PathBuf,
    own: Vec<PathBuf>,
}

/// The files at one moment.
#[derive(Debug)]
pub(in crate::agent) struct Look(Scan);

impl Watched {
    /// Watches `root`; `own` are the session's files and directories in it.
    pub(in crate::agent) fn new(root: PathBuf, own: Vec<PathBuf>) -> Self {
        Self { root, own }
    }

    /// Scans the files. Blocks.
    pub(in crate::agent) fn look(&self) -> Look {
        let is_own = |path: &Path| self.own.iter().any(|own| belongs_to(path, own));
        let bounds = Bounds {
            entries: ENTRIES,
            until: Some(Instant::now() + TIME),
        };
        Look(Scan::of(&self.root, &is_own, bounds))
    }
}

impl Look {
    /// The differences from this scan to `after`.
    pub(in crate::agent) fn changes(&self, after: &Self) -> FilesChanged {
        let (Self(before), Self(after)) = (self, after);
        let is_seen = |path: &&PathBuf| before.sees(path) && after.sees(path);
        let mut created = BTreeMap::new();
        let mut changed = Vec::new();
        for (path, found) in after.entries.iter().filter(|(path, _)| is_seen(path)) {
            match before.entries.get(path) {
                None => {
                    created.insert(path.as_path(), found);
                }
                Some(old) if old != found => changed.push(named(path, found)),
                Some(_) => {}
            }
        }
        let deleted: BTreeSet<&Path> = before
            .entries
            .keys()
            .filter(|path| is_seen(path) && !after.entries.contains_key(*path))
            .map(PathBuf::as_path)
            .collect();
        let mut new = folded(&created);
        for tool in after.tools.difference(&before.tools).filter(is_seen) {
            let path = format!("{}/", tool.display());
            // A virtual environment can have any name.
            let runs = runs_later(&path).or_else(|| runs_later(".venv"));
            new.push(ChangedFile {
                path,
                runs: runs.map(str::to_owned),
                ..ChangedFile::default()
            });
        }
        let gone = deleted
            .iter()
            .filter(|path| !is_below(path, |above| deleted.contains(above)));
        let gone = gone.map(|path| match before.entries.get(*path) {
            Some(DirEntry::Dir { .. }) => format!("{}/", path.display()),
            _ => path.display().to_string(),
        });
        let mut deleted: Vec<String> = gone.collect();
        let gone = before.tools.difference(&after.tools).filter(is_seen);
        deleted.extend(gone.map(|path| format!("{}/", path.display())));
        bounded(FilesChanged {
            created: new,
            changed,
            deleted,
            more: 0,
            incomplete: !before.unseen.is_empty() || !after.unseen.is_empty(),
        })
    }
}

/// Collapses new directories into one entry each, except for files that run later.
fn folded(created: &BTreeMap<&Path, &DirEntry>) -> Vec<ChangedFile> {
    let is_dir = |path: &Path| matches!(created.get(path), Some(DirEntry::Dir { .. }));
    let mut folded: BTreeMap<PathBuf, ChangedFile> = BTreeMap::new();
    for (path, found) in created {
        let above = path.ancestors().filter(|above| is_dir(above)).last();
        let Some(above) = above else {
            folded.insert((*path).to_owned(), named(path, found));
            continue;
        };
        let dir = folded
            .entry(above.to_owned())
            .or_insert_with(|| ChangedFile {
                bytes: Some(0),
                files: Some(0),
                ..named(above, &DirEntry::Dir { mode: 0 })
            });
        if let DirEntry::File { stamp, .. } = found {
            dir.bytes = dir.bytes.map(|bytes| bytes.saturating_add(stamp.size));
        }
        if !matches!(found, DirEntry::Dir { .. }) {
            dir.files = dir.files.map(|files| files + 1);
            let file = named(path, found);
            // The directory's entry already says so.
            if file.runs.is_some() && dir.runs.is_none() {
                folded.insert((*path).to_owned(), file);
            }
        }
    }
    folded.into_values().collect()
}

fn named(path: &Path, found: &DirEntry) -> ChangedFile {
    let shown = path.display();
    let (path, bytes) = match found {
        DirEntry::Dir { .. } => (format!("{shown}/"), None),
        DirEntry::File { stamp, .. } => (shown.to_string(), Some(stamp.size)),
        DirEntry::Link { .. } => (shown.to_string(), None),
    };
    pointed_out(ChangedFile {
        path,
        bytes,
        ..ChangedFile::default()
    })
}

fn pointed_out(file: ChangedFile) -> ChangedFile {
    ChangedFile {
        runs: runs_later(&file.path).map(str::to_owned),
        ..file
    }
}

/// Whether `is_it` holds for a directory above `path`.
fn is_below(path: &Path, is_it: impl Fn(&Path) -> bool) -> bool {
    path.ancestors().skip(1).any(is_it)
}

/// Lists files that run later first, and counts those over the maximum.
fn bounded(mut all: FilesChanged) -> FilesChanged {
    let mut left = NAMED;
    for files in [&mut all.created, &mut all.changed] {
        files.sort_by_key(|file| file.runs.is_none());
        all.more += files.len().saturating_sub(left);
        files.truncate(left);
        left -= files.len();
    }
    all.more += all.deleted.len().saturating_sub(left);
    all.deleted.truncate(left);
    all
}

#[cfg(test)]
mod tests;
