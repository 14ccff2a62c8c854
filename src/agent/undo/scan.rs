//! What is in a directory, without reading a byte of it: enough to see later what has changed.
//!
//! Never followed: symbolic links, other file systems. Not looked into: what tools keep for themselves and can make again
//! (`.git`, `node_modules`, virtual environments, caches), and the session's own files. Breadth first, so that where
//! there is too much the deepest is left out.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::confined_dir::ConfinedDir;
use crate::kernel::folder::path_of;

/// Entries that are looked at however long that takes: a busy machine stops now and then.
const FEW: usize = 1000;
/// Directories that belong to a tool.
const TOOLS: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];
/// Directories that a tool makes again.
const CACHES: [&str; 5] = [
    "__pycache__",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];
/// A directory with this in it is a virtual environment.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// A directory with this in it says that it is a cache (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";

/// What there was at one moment; paths are relative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) entries: BTreeMap<PathBuf, DirEntry>,
    /// Directories that were not looked into, because there is too much or they cannot be read.
    pub(super) unseen: Vec<PathBuf>,
    /// Directories that are a tool's and no cache: repositories, environments, packages.
    pub(super) tools: BTreeSet<PathBuf>,
}

/// How far a look goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Entries that it sees.
    pub(super) entries: usize,
    /// When it ends, whatever is left.
    pub(super) until: Option<Instant>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DirEntry {
    /// A directory, and its permissions.
    Dir { mode: u32 },
    /// A file.
    File { stamp: Stamp, mode: u32 },
    /// A symbolic link.
    Link { target: PathBuf },
}

/// What changes when the content of a file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, i64),
    /// Also when the file was given an older time.
    pub(super) changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &std::fs::Metadata) -> Self {
        Self {
            size: metadata.len(),
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// The permission bits.
pub(super) fn mode_of(metadata: &std::fs::Metadata) -> u32 {
    metadata.mode() & 0o7777
}

impl Scan {
    /// Looks through `root`, but for `skip` (absolute), as far as `bounds` say.
    pub(super) fn of(root: &Path, skip: &dyn Fn(&Path) -> bool, bounds: Bounds) -> Self {
        let most = bounds.entries;
        let is_late =
            |seen: usize| seen >= FEW && bounds.until.is_some_and(|until| Instant::now() >= until);
        let mut scan = Self::default();
        let beneath = ConfinedDir::open(root);
        let device = std::fs::metadata(root).map(|found| found.dev());
        let mut dirs = VecDeque::from([PathBuf::new()]);
        while let Some(dir) = dirs.pop_front() {
            // A link may have taken the place of a directory since it was seen.
            let opened = beneath.as_ref().ok().and_then(|it| it.dir(&dir).ok());
            let read = opened.and_then(|it| Some((std::fs::read_dir(path_of(&it)).ok()?, it)));
            let Some((entries, opened)) = read else {
                scan.unseen.push(dir);
                continue;
            };
            if scan.entries.len() >= most || is_late(scan.entries.len()) {
                scan.unseen.push(dir);
                continue;
            }
            // One directory is seen whole or not at all, but for one that alone is too much.
            for entry in entries.flatten() {
                let path = dir.join(entry.file_name());
                let (Ok(metadata), full) = (entry.metadata(), root.join(&path)) else {
                    continue;
                };
                if skip(&full) || device.as_ref().is_ok_and(|it| *it != metadata.dev()) {
                    continue;
                }
                let kind = metadata.file_type();
                let mode = mode_of(&metadata);
                if kind.is_dir() {
                    match tool_of(&path_of(&opened).join(entry.file_name())) {
                        Some(Tool::Cache) => continue,
                        Some(Tool::Other) => {
                            scan.tools.insert(path);
                            continue;
                        }
                        None => {}
                    }
                    scan.entries.insert(path.clone(), DirEntry::Dir { mode });
                    dirs.push_back(path);
                } else if kind.is_symlink() {
                    if let Ok(target) = std::fs::read_link(path_of(&opened).join(entry.file_name()))
                    {
                        scan.entries.insert(path, DirEntry::Link { target });
                    }
                } else if kind.is_file() {
                    let stamp = Stamp::of(&metadata);
                    scan.entries.insert(path, DirEntry::File { stamp, mode });
                }
                // A clock is looked at less often than a file.
                let seen = scan.entries.len();
                if seen >= 2 * most || seen.is_multiple_of(256) && is_late(seen) {
                    scan.unseen.push(dir);
                    break;
                }
            }
        }
        scan
    }

    /// Whether something at `path` would have been seen.
    pub(super) fn sees(&self, path: &Path) -> bool {
        !self.unseen.iter().any(|dir| path.starts_with(dir))
    }
}

/// A directory that is a tool's.
enum Tool {
    /// What is in it can be made again, and is.
    Cache,
    Other,
}

fn tool_of(dir: &Path) -> Option<Tool> {
    let has = |mark: &str| std::fs::symlink_metadata(dir.join(mark)).is_ok();
    let name = dir.file_name().and_then(|name| name.to_str());
    if name.is_some_and(|name| TOOLS.contains(&name)) || has(ENVIRONMENT) {
        return Some(Tool::Other);
    }
    let is_cache = name.is_some_and(|name| CACHES.contains(&name)) || has(CACHE);
    is_cache.then_some(Tool::Cache)
}
