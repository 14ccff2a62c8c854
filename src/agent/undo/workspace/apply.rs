//! Carries out a plan of [`Workspace::plan`]: first moves away what is in the way, then recreates the earlier state.

use std::fs::FileTimes;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use super::{FilePlan, FilesUndone, Target, Workspace};
use crate::agent::undo::confined_dir::ConfinedDir;
use crate::agent::undo::scan::Stamp;
use crate::agent::undo::store::Hash;

impl Workspace {
    /// Carries out a plan. Replaced and removed files go to the directory `attic`, created on demand; no link is
    /// followed on the way to it.
    pub fn apply(&self, plan: &FilePlan, attic: &Path) -> FilesUndone {
        let mut done = FilesUndone::default();
        let beneath = match ConfinedDir::open(&self.root) {
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
        // Bottom up, so that directories are empty when they are removed.
        for (path, target) in plan.targets.iter().rev() {
            work.clear(path, target.as_ref());
        }
        for (path, target) in &plan.targets {
            if let Some(target) = target {
                work.make(path, target);
            }
        }
        // Permissions last, and bottom up: a read-only directory could not be filled.
        for (path, target) in plan.targets.iter().rev() {
            if let Some(Target::Dir { mode }) = target {
                let set = work.beneath.set_mode(path, *mode);
                work.note(path, set);
            }
        }
        work.done
    }
}

/// A plan being carried out.
struct Work<'a> {
    workspace: &'a Workspace,
    beneath: ConfinedDir,
    attic: &'a Path,
    done: FilesUndone,
}

impl Work<'_> {
    /// Moves away what is in the way of `target`.
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
                        "kept: it contains files that the turn did not create".to_owned()
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
        self.beneath
            .take_out(path, &ConfinedDir::make(self.attic)?)?;
        self.done.kept_in = Some(self.attic.to_owned());
        Ok(())
    }

    /// Recreates `target`.
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
