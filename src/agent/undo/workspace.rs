//! The workspace files at certain moments, and restoring them.
//!
//! Before code runs, files changed since the last moment are copied (judged by size, times and inode, or by content
//! where those are inconclusive). Undo concerns only changes made while turns ran: a person's changes between or after
//! them stay. Everything it removes or replaces is kept in a folder beside the notebook. Changed files that were too
//! large to copy are listed.

mod apply;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::confined_dir::ConfinedDir;
use super::scan::{Bounds, DirEntry, Scan, Stamp};
use super::store::{Hash, Store, hash_of};

/// File system clocks tick in steps: a file changed less than this before a scan may have changed again after it with
/// the same times.
const STEP: Duration = Duration::from_millis(50);

/// Limits on copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum bytes of all copies; 0 disables copies.
    pub bytes: u64,
    /// Maximum files and directories scanned.
    pub entries: usize,
    /// How long copying may delay the first cell.
    pub time: Duration,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self {
            bytes: 512 << 20,
            entries: 20_000,
            time: Duration::from_secs(5),
        }
    }
}

/// The files of a session's working directory.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    /// The session's own files, excluded from the workspace.
    own: Vec<PathBuf>,
    limits: FileLimits,
    store: Store,
    last: Arc<Moment>,
}

/// The workspace at one moment.
#[derive(Debug, Default)]
pub struct Moment {
    scan: Scan,
    copies: BTreeMap<PathBuf, Copy>,
}

/// What is known of a file's content.
#[derive(Debug, Clone, Copy)]
struct Copy {
    hash: Option<Hash>,
    /// Whether an equal stamp implies equal content.
    settled: bool,
}

/// A turn's start and, once it has ended, its end.
pub type Span = (Arc<Moment>, Option<Arc<Seen>>);

/// A later scan of the workspace, with only as much content as needed to detect changes.
#[derive(Debug)]
pub struct Seen {
    scan: Scan,
    /// The preceding moment.
    last: Arc<Moment>,
    /// Hashes of files whose stamps are inconclusive.
    hashes: BTreeMap<PathBuf, Hash>,
}

/// The changes needed to undo turns. Paths are relative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePlan {
    /// The target state of each path; `None` removes it.
    targets: BTreeMap<PathBuf, Option<Target>>,
    /// Changed files without a copy, and why.
    pub lost: BTreeMap<PathBuf, &'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Dir {
        mode: u32,
    },
    File {
        hash: Option<Hash>,
        stamp: Stamp,
        mode: u32,
    },
    Link {
        target: PathBuf,
    },
}

/// The result of an undo.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesUndone {
    /// Files whose content, permissions or place were restored.
    pub restored: Vec<PathBuf>,
    /// Files the turns had created, now removed.
    pub removed: Vec<PathBuf>,
    /// Changes that could not be undone, and why.
    pub failed: BTreeMap<PathBuf, String>,
    /// Where replaced and removed files are kept.
    pub kept_in: Option<PathBuf>,
}

impl Workspace {
    /// The workspace below `root`. Copies are kept in the directory `store`, which lives as long as this. `own` are
    /// files and directories of the session, which also owns names that start with theirs and a dot or underscore.
    pub fn new(root: PathBuf, store: PathBuf, own: Vec<PathBuf>, limits: FileLimits) -> Self {
        Self {
            root,
            own,
            limits,
            store: Store::new(store),
            last: Arc::default(),
        }
    }

    /// Records all files, and copies content that has no copy yet.
    pub fn take(&mut self) -> Arc<Moment> {
        let (begun, now) = (Instant::now(), SystemTime::now());
        let scan = self.scan();
        let mut moment = Moment::default();
        let mut new = Vec::new();
        for (path, found) in &scan.entries {
            let DirEntry::File { stamp, .. } = found else {
                continue;
            };
            match self.last.known(path, stamp) {
                Some(copy) if copy.hash.is_some() => {
                    moment.copies.insert(path.clone(), copy);
                }
                Some(_) | None => new.push((stamp.size, path.clone(), *stamp)),
            }
        }
        // Small files first: there are more of them, and they tend to be written by hand.
        new.sort_by_key(|(size, ..)| *size);
        for (size, path, stamp) in new {
            let room = self.limits.bytes.saturating_sub(self.store.bytes());
            let hash = if size <= room && begun.elapsed() < self.limits.time {
                self.copy(&path, &stamp)
            } else {
                None
            };
            let settled = is_settled(&stamp, now);
            moment.copies.insert(path, Copy { hash, settled });
        }
        moment.scan = scan;
        self.last = Arc::new(moment);
        Arc::clone(&self.last)
    }

    /// Records all files without copying.
    pub fn look(&self) -> Arc<Seen> {
        let scan = self.scan();
        let mut hashes = BTreeMap::new();
        let unsettled = self.last.copies.iter().filter(|(_, copy)| !copy.settled);
        for (path, _) in unsettled {
            let is_same = self.last.scan.entries.get(path) == scan.entries.get(path);
            let file = ConfinedDir::open(&self.root).and_then(|beneath| beneath.read(path));
            if is_same && let Some(hash) = file.ok().and_then(|mut file| hash_of(&mut file).ok()) {
                hashes.insert(path.clone(), hash);
            }
        }
        Arc::new(Seen {
            scan,
            last: Arc::clone(&self.last),
            hashes,
        })
    }

    /// Drops copies that none of these moments needs.
    pub fn retain(&mut self, moments: &[Arc<Moment>]) {
        let last = Arc::clone(&self.last);
        let wanted: BTreeSet<Hash> = moments
            .iter()
            .chain([&last])
            .flat_map(|moment| moment.copies.values().filter_map(|copy| copy.hash))
            .collect();
        self.store.retain(&wanted);
    }

    /// Bytes of all copies.
    pub fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    /// Plans how to undo the changes made in `turns`, oldest first.
    pub fn plan(&self, turns: &[Span]) -> FilePlan {
        let now = self.look();
        let beneath = ConfinedDir::open(&self.root);
        let mut plan = FilePlan::default();
        for (moment, end) in turns {
            let end = end.as_ref().unwrap_or(&now);
            for path in moment.changed_until(end) {
                plan.targets
                    .entry(path.clone())
                    .or_insert_with(|| moment.target(&path));
            }
        }
        // Paths already in their target state need no change.
        let is_needed = |path: &PathBuf, target: &Option<Target>| {
            let there = now.scan.entries.get(path);
            match (there, target) {
                (None, None) => false,
                (Some(DirEntry::Dir { mode }), Some(Target::Dir { mode: wanted })) => {
                    mode != wanted
                }
                (Some(DirEntry::Link { target: is }), Some(Target::Link { target: wanted })) => {
                    is != wanted
                }
                (
                    Some(DirEntry::File {
                        stamp: is,
                        mode: is_mode,
                    }),
                    Some(Target::File {
                        hash: Some(hash),
                        stamp,
                        mode,
                    }),
                ) if is.size == stamp.size && is_mode == mode => {
                    let read = beneath.as_ref().ok().and_then(|it| it.read(path).ok());
                    let current = read.and_then(|mut file| hash_of(&mut file).ok());
                    current != Some(*hash)
                }
                _ => true,
            }
        };
        plan.targets.retain(|path, target| is_needed(path, target));
        let is_lost =
            |target: &Option<Target>| matches!(target, Some(Target::File { hash: None, .. }));
        let lost: Vec<PathBuf> = plan
            .targets
            .iter()
            .filter(|(_, target)| is_lost(target))
            .map(|(path, _)| path.clone())
            .collect();
        for path in lost {
            plan.targets.remove(&path);
            plan.lost.insert(path, "no copy was kept: it was too large");
        }
        plan
    }

    fn scan(&self) -> Scan {
        if self.limits.bytes == 0 {
            return Scan::default();
        }
        let is_own = |path: &Path| self.own.iter().any(|own| belongs_to(path, own));
        let bounds = Bounds {
            entries: self.limits.entries,
            until: None,
        };
        Scan::of(&self.root, &is_own, bounds)
    }

    /// Copies a file; `None` if it is unreadable or changes in the meantime.
    fn copy(&mut self, path: &Path, stamp: &Stamp) -> Option<Hash> {
        let mut file = ConfinedDir::open(&self.root).ok()?.read(path).ok()?;
        let is_same = |file: &std::fs::File| {
            file.metadata()
                .is_ok_and(|metadata| metadata.is_file() && Stamp::of(&metadata) == *stamp)
        };
        if !is_same(&file) {
            return None;
        }
        let hash = self.store.keep(&mut file).ok()?;
        is_same(&file).then_some(hash)
    }
}

/// Whether `path` is `own`, or a file named after it.
pub(super) fn belongs_to(path: &Path, own: &Path) -> bool {
    if path == own {
        return true;
    }
    let (Some(name), Some(stem)) = (
        path.file_name().and_then(|name| name.to_str()),
        own.file_stem().and_then(|stem| stem.to_str()),
    ) else {
        return false;
    };
    own.extension().is_some()
        && path.parent() == own.parent()
        && name
            .strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with(['.', '_']))
}

fn is_settled(stamp: &Stamp, now: SystemTime) -> bool {
    let Ok(now) = now.duration_since(UNIX_EPOCH) else {
        return false;
    };
    let (seconds, nanoseconds) = stamp.changed;
    match (u64::try_from(seconds), u32::try_from(nanoseconds)) {
        (Ok(seconds), Ok(nanoseconds)) => Duration::new(seconds, nanoseconds) + STEP < now,
        _ => true,
    }
}

impl Moment {
    /// The known content of a file with this stamp.
    fn known(&self, path: &Path, stamp: &Stamp) -> Option<Copy> {
        let Some(DirEntry::File { stamp: before, .. }) = self.scan.entries.get(path) else {
            return None;
        };
        self.copies
            .get(path)
            .filter(|copy| copy.settled && before == stamp)
            .copied()
    }

    /// The paths that differ at `end`.
    fn changed_until(&self, end: &Seen) -> Vec<PathBuf> {
        let (here, there) = (&self.scan, &end.scan);
        let paths: BTreeSet<&PathBuf> = here.entries.keys().chain(there.entries.keys()).collect();
        let is_changed = |path: &PathBuf| {
            if here.entries.get(path) != there.entries.get(path) {
                return true;
            }
            // Compare content if the times are inconclusive.
            self.copies
                .get(path)
                .filter(|copy| !copy.settled)
                .and_then(|copy| copy.hash)
                .is_some_and(|hash| end.hash(path).is_none_or(|now| now != hash))
        };
        paths
            .into_iter()
            .filter(|path| here.sees(path) && there.sees(path) && is_changed(path))
            .cloned()
            .collect()
    }

    fn target(&self, path: &Path) -> Option<Target> {
        Some(match self.scan.entries.get(path)? {
            DirEntry::Dir { mode } => Target::Dir { mode: *mode },
            DirEntry::Link { target } => Target::Link {
                target: target.clone(),
            },
            DirEntry::File { stamp, mode } => Target::File {
                hash: self.copies.get(path).and_then(|copy| copy.hash),
                stamp: *stamp,
                mode: *mode,
            },
        })
    }
}

impl Seen {
    /// The content of a file that has not changed since the preceding moment.
    fn hash(&self, path: &Path) -> Option<Hash> {
        let known = || self.last.copies.get(path).and_then(|copy| copy.hash);
        self.hashes.get(path).copied().or_else(known)
    }
}

impl FilePlan {
    /// Number of paths that change.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

#[cfg(test)]
mod tests;
