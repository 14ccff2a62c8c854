//! Files of the workspace as they were at some moments, and the way back.
//!
//! Before code runs, what has changed since the last time is copied (by size, times and inode; by content where those do
//! not tell). Going back concerns only what changed while turns ran: what a person changed between them or since stays.
//! Nothing is removed or replaced without being kept in a folder beside the notebook. What is too large to be copied is
//! named, if it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::FileTimes;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::beneath::Beneath;
use super::scan::{Found, Scan, Stamp};
use super::store::{Hash, Store, hash_of, make_private_dir};

/// A file system's clock goes in steps: what changed less than this before it was looked at may have changed after as
/// well, and have the same times.
const STEP: Duration = Duration::from_millis(50);

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of all copies; 0 for no copies at all.
    pub bytes: u64,
    /// Files and directories that are looked at.
    pub entries: usize,
    /// How long copying may hold up the first cell.
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
    /// The session's own files, which are not the workspace's.
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
    /// Whether the same stamp means the same content.
    settled: bool,
}

/// A turn's beginning and, once it has come, its end.
pub type Span = (Arc<Moment>, Option<Arc<Seen>>);

/// What there was, without content.
#[derive(Debug)]
pub struct Seen(Scan);

/// What it takes to go back. Paths are relative.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePlan {
    /// What each path shall be; `None` is nothing.
    targets: BTreeMap<PathBuf, Option<Target>>,
    /// What has changed and was not kept, and why.
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

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesUndone {
    /// Files with an earlier content, permissions or place of their own again.
    pub restored: Vec<PathBuf>,
    /// What the turns had made.
    pub removed: Vec<PathBuf>,
    /// What could not be undone, and why.
    pub failed: BTreeMap<PathBuf, String>,
    /// Where replaced and removed files are now.
    pub kept_in: Option<PathBuf>,
}

impl Workspace {
    /// That below `root`. Copies go to the directory `store` while this lives. `own` are files and directories of the
    /// session; also what begins with their name and a dot or underscore is its own.
    pub fn new(root: PathBuf, store: PathBuf, own: Vec<PathBuf>, limits: FileLimits) -> Self {
        Self {
            root,
            own,
            limits,
            store: Store::new(store),
            last: Arc::default(),
        }
    }

    /// Takes note of all files, and copies what is not known yet.
    pub fn take(&mut self) -> Arc<Moment> {
        let (begun, now) = (Instant::now(), SystemTime::now());
        let scan = self.scan();
        let mut moment = Moment::default();
        let mut new = Vec::new();
        for (path, found) in &scan.entries {
            let Found::File { stamp, .. } = found else {
                continue;
            };
            match self.last.known(path, stamp) {
                Some(copy) if copy.hash.is_some() => {
                    moment.copies.insert(path.clone(), copy);
                }
                Some(_) | None => new.push((stamp.size, path.clone(), *stamp)),
            }
        }
        // The small ones first: there are more of them, and they are what was written by hand.
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

    /// Takes note of all files, without their content.
    pub fn look(&self) -> Arc<Seen> {
        Arc::new(Seen(self.scan()))
    }

    /// Forgets the copies that none of these moments needs.
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

    /// What it takes to undo what changed in `turns`, oldest first.
    pub fn plan(&self, turns: &[Span]) -> FilePlan {
        let now = Seen(self.scan());
        let beneath = Beneath::open(&self.root);
        let mut plan = FilePlan::default();
        for (moment, end) in turns {
            let end = end.as_deref().unwrap_or(&now);
            for path in moment.changed_until(&end.0) {
                plan.targets
                    .entry(path.clone())
                    .or_insert_with(|| moment.target(&path));
            }
        }
        // What is already as it was needs nothing.
        let is_needed = |path: &PathBuf, target: &Option<Target>| {
            let there = now.0.entries.get(path);
            match (there, target) {
                (None, None) => false,
                (Some(Found::Dir { mode }), Some(Target::Dir { mode: wanted })) => mode != wanted,
                (Some(Found::Link { target: is }), Some(Target::Link { target: wanted })) => {
                    is != wanted
                }
                (
                    Some(Found::File {
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

    /// Carries a plan out. What is replaced or removed goes to `attic`, a directory that is made if it is needed.
    pub fn apply(&self, plan: &FilePlan, attic: &Path) -> FilesUndone {
        let mut done = FilesUndone::default();
        let beneath = match Beneath::open(&self.root) {
            Ok(beneath) => beneath,
            Err(error) => {
                let failed = |path: &PathBuf| (path.clone(), error.to_string());
                done.failed = plan.targets.keys().map(failed).collect();
                return done;
            }
        };
        let mut work = Work {
            workspace: self,
            beneath,
            attic,
            done,
        };
        // From below, so that directories are empty when it is their turn.
        for (path, target) in plan.targets.iter().rev() {
            work.clear(path, target.as_ref());
        }
        for (path, target) in &plan.targets {
            if let Some(target) = target {
                work.make(path, target);
            }
        }
        // Last, and from below: a directory that nobody may write in could not be filled.
        for (path, target) in plan.targets.iter().rev() {
            if let Some(Target::Dir { mode }) = target {
                let set = work.beneath.set_mode(path, *mode);
                work.note(path, set);
            }
        }
        work.done
    }

    fn scan(&self) -> Scan {
        if self.limits.bytes == 0 {
            return Scan::default();
        }
        let is_own = |path: &Path| self.own.iter().any(|own| belongs_to(path, own));
        Scan::of(&self.root, &is_own, self.limits.entries)
    }

    /// `None` if it cannot be read or changes meanwhile.
    fn copy(&mut self, path: &Path, stamp: &Stamp) -> Option<Hash> {
        let mut file = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(NOFOLLOW_NONBLOCK)
            .open(self.root.join(path))
            .ok()?;
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

/// A link or a pipe may have taken the place of the file since it was looked at.
const NOFOLLOW_NONBLOCK: i32 = {
    let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK);
    flags.bits().cast_signed()
};

/// Whether `path` is `own`, or a file that is named after it.
fn belongs_to(path: &Path, own: &Path) -> bool {
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
    /// What is known of a file that had this stamp.
    fn known(&self, path: &Path, stamp: &Stamp) -> Option<Copy> {
        let Some(Found::File { stamp: before, .. }) = self.scan.entries.get(path) else {
            return None;
        };
        self.copies
            .get(path)
            .filter(|copy| copy.settled && before == stamp)
            .copied()
    }

    /// The paths at which something else is at `end`.
    fn changed_until(&self, end: &Scan) -> Vec<PathBuf> {
        let here = &self.scan;
        let paths: BTreeSet<&PathBuf> = here.entries.keys().chain(end.entries.keys()).collect();
        paths
            .into_iter()
            .filter(|path| here.sees(path) && end.sees(path))
            .filter(|path| {
                let (before, after) = (here.entries.get(*path), end.entries.get(*path));
                let unsettled = || {
                    self.copies
                        .get(*path)
                        .is_some_and(|copy| !copy.settled && copy.hash.is_some())
                };
                // Times that do not tell: the content will.
                before != after || unsettled()
            })
            .cloned()
            .collect()
    }

    fn target(&self, path: &Path) -> Option<Target> {
        Some(match self.scan.entries.get(path)? {
            Found::Dir { mode } => Target::Dir { mode: *mode },
            Found::Link { target } => Target::Link {
                target: target.clone(),
            },
            Found::File { stamp, mode } => Target::File {
                hash: self.copies.get(path).and_then(|copy| copy.hash),
                stamp: *stamp,
                mode: *mode,
            },
        })
    }
}

impl FilePlan {
    /// How many paths change.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// A plan that is being carried out.
struct Work<'a> {
    workspace: &'a Workspace,
    beneath: Beneath,
    attic: &'a Path,
    done: FilesUndone,
}

impl Work<'_> {
    /// Takes away what is in the way of `target`.
    fn clear(&mut self, path: &Path, target: Option<&Target>) {
        let Some(is_dir) = self.beneath.is_dir(path) else {
            return;
        };
        if is_dir && matches!(target, Some(Target::Dir { .. })) {
            return;
        }
        let cleared = if is_dir {
            self.beneath.remove_dir(path)
        } else {
            self.take_out(path)
        };
        match (cleared, target) {
            (Ok(()), None) => self.done.removed.push(path.to_owned()),
            (Ok(()), Some(_)) => {}
            (Err(error), _) if is_dir => {
                let words = match error.kind() {
                    io::ErrorKind::DirectoryNotEmpty => {
                        "left, for there is more in it than the turn made".to_owned()
                    }
                    _ => error.to_string(),
                };
                self.done.failed.insert(path.to_owned(), words);
            }
            (Err(error), _) => {
                self.done.failed.insert(path.to_owned(), error.to_string());
            }
        }
    }

    fn take_out(&mut self, path: &Path) -> io::Result<()> {
        let to = self.attic.join(path);
        if let Some(dir) = to.parent() {
            make_private_dir(dir)?;
        }
        self.beneath.take_out(path, &to)?;
        self.done.kept_in = Some(self.attic.to_owned());
        Ok(())
    }

    /// Makes what was there.
    fn make(&mut self, path: &Path, target: &Target) {
        if self.done.failed.contains_key(path) {
            return;
        }
        let made = match target {
            Target::Dir { .. } => match self.beneath.make_dir(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                made => made,
            },
            Target::Link { target } => self.beneath.link(path, target),
            Target::File { hash, stamp, mode } => self.write(path, hash.as_ref(), stamp, *mode),
        };
        let fine = made.is_ok();
        self.note(path, made);
        if fine {
            self.done.restored.push(path.to_owned());
        }
    }

    fn write(&self, path: &Path, hash: Option<&Hash>, stamp: &Stamp, mode: u32) -> io::Result<()> {
        let hash = hash.ok_or(io::ErrorKind::NotFound)?;
        let mut copy = self.workspace.store.open(hash)?;
        let (seconds, nanoseconds) = stamp.modified;
        let modified = u64::try_from(seconds)
            .ok()
            .zip(u32::try_from(nanoseconds).ok())
            .and_then(|(seconds, rest)| UNIX_EPOCH.checked_add(Duration::new(seconds, rest)));
        self.beneath.write(path, |file| {
            io::copy(&mut copy, file)?;
            rustix::fs::fchmod(&*file, rustix::fs::Mode::from_raw_mode(mode))?;
            match modified {
                Some(modified) => file.set_times(FileTimes::new().set_modified(modified)),
                None => Ok(()),
            }
        })
    }

    fn note(&mut self, path: &Path, result: io::Result<()>) {
        if let Err(error) = result {
            self.done.failed.insert(path.to_owned(), error.to_string());
        }
    }
}

#[cfg(test)]
mod tests;
