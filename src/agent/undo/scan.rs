//! A directory's entries without file content: enough to detect changes later.
//!
//! Not followed: symbolic links, other file systems. Not entered: directories that tools can recreate or keep for
//! themselves (`.git`, `node_modules`, virtual environments, caches), and the session's own files. Breadth first, so
//! that the deepest entries are left out if there are too many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::confined_dir::ConfinedDir;
use crate::kernel::folder::path_of;

/// Entries scanned regardless of the time limit: a busy machine pauses now and then.
const FEW: usize = 1000;
/// Directories that belong to a tool.
const TOOLS: [&str; 4] = [".git", ".hg", ".svn", "node_modules"];
/// Directories that a tool can recreate.
const CACHES: [&str; 5] = [
    "__pycache__",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
];
/// Marker file of a virtual environment.
const ENVIRONMENT: &str = "pyvenv.cfg";
/// Marker file of a cache directory (<https://bford.info/cachedir/>).
const CACHE: &str = "CACHEDIR.TAG";

/// The entries at one moment; paths are relative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) entries: BTreeMap<PathBuf, DirEntry>,
    /// Directories not scanned, because there were too many entries or they are unreadable.
    pub(super) unseen: Vec<PathBuf>,
    /// Directories of tools that are not caches: repositories, environments, packages.
    pub(super) tools: BTreeSet<PathBuf>,
}

/// Bounds of a scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum entries.
    pub(super) entries: usize,
    /// Deadline.
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

/// Metadata that changes when a file's content does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, i64),
    /// Change time: changes even if a file is given an older modification time.
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
    /// Scans `root` within `bounds`, except `skip` (absolute paths).
    pub(super) fn of(root: &Path, skip: &dyn Fn(&Path) -> bool, bounds: Bounds) -> Self {
        let most = bounds.entries;
        let is_late =
            |seen: usize| seen >= FEW && bounds.until.is_some_and(|until| Instant::now() >= until);
        let mut scan = Self::default();
        let beneath = ConfinedDir::open(root);
        let device = std::fs::metadata(root).map(|found| found.dev());
        let mut dirs = VecDeque::from([PathBuf::new()]);
        while let Some(dir) = dirs.pop_front() {
            // A link may have replaced a directory since it was seen.
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
            // A directory is scanned completely or not at all, unless it alone exceeds the bounds.
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
                // Check the clock less often than files.
                let seen = scan.entries.len();
                if seen >= 2 * most || seen.is_multiple_of(256) && is_late(seen) {
                    scan.unseen.push(dir);
                    break;
                }
            }
        }
        scan
    }

    /// Whether an entry at `path` would be in the scan.
    pub(super) fn sees(&self, path: &Path) -> bool {
        !self.unseen.iter().any(|dir| path.starts_with(dir))
    }
}

/// A tool's directory.
enum Tool {
    /// Its content can be recreated.
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
