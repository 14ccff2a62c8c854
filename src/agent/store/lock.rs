//! One writer per session: a file that is locked while a process has the session open, and contains its process id.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::OpenError;

/// How often to retry a lock that is taken.
const LOOKS: u32 = 4;
const LOOK: Duration = Duration::from_millis(10);
/// How often another process may remove the file that was just locked.
const REMOVALS: u32 = 50;

/// Held while a session is open. The system releases it when the process ends, for whatever reason.
#[derive(Debug)]
pub(in crate::agent) struct Lock {
    path: PathBuf,
    /// The lock lasts as long as this file is open.
    _file: File,
}

/// The process that has a session open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// Its process id, if it has written one.
    pub pid: Option<u32>,
}

/// Why the lock could not be taken.
#[derive(Debug)]
pub(super) enum LockError {
    /// The process that has it; `None` if it has not written its id yet.
    Taken(Option<u32>),
    /// The file could not be created.
    Io(io::Error),
}

impl Lock {
    /// Takes the lock of session `id`, whose journal is at `journal`.
    pub(in crate::agent) fn take_for(journal: &Path, id: &str) -> Result<Self, OpenError> {
        let path = journal.with_extension("lock");
        Self::take(&path).map_err(|error| match error {
            LockError::Taken(pid) => OpenError::Taken {
                id: id.to_owned(),
                pid,
            },
            LockError::Io(error) => OpenError::Io { path, error },
        })
    }

    /// Takes the lock at `path`, or returns its holder.
    pub(super) fn take(path: &Path) -> Result<Self, LockError> {
        Self::take_if(path, is_at)
    }

    /// Like [`Lock::take`]; `is_at` checks whether the opened file is the one at the path.
    fn take_if(path: &Path, is_at: impl Fn(&File, &Path) -> bool) -> Result<Self, LockError> {
        let mut tries = 0;
        let mut removals = 0;
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(path)
                .map_err(LockError::Io)?;
            match file.try_lock() {
                Ok(()) => {}
                // A process that only checks holds the lock for a moment.
                Err(TryLockError::WouldBlock) if tries < LOOKS => {
                    tries += 1;
                    std::thread::sleep(LOOK);
                    continue;
                }
                Err(TryLockError::WouldBlock) => return Err(LockError::Taken(holder(&mut file))),
                // On a file system without locks, open the session without one.
                Err(TryLockError::Error(error)) => {
                    tracing::warn!(path = %path.display(), %error, "the session is not locked");
                }
            }
            // The holder removes the file when it ends: a lock on a removed file protects nothing.
            if !is_at(&file, path) {
                removals += 1;
                if removals > REMOVALS {
                    let why = "it is removed again and again";
                    return Err(LockError::Io(io::Error::other(why)));
                }
                std::thread::sleep(LOOK);
                continue;
            }
            // The id is only for the message to others; a full disk may prevent it.
            let _ = file
                .set_len(0)
                .and_then(|()| write!(file, "{}", std::process::id()));
            return Ok(Self {
                path: path.to_owned(),
                _file: file,
            });
        }
    }

    /// The current holder of the lock at `path`.
    pub(in crate::agent) fn holder(path: &Path) -> Option<Holder> {
        let mut file = File::open(path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(Holder {
                pid: holder(&mut file),
            }),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked, so the file is ours. If it cannot be removed, the next process reuses it.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
        _ => false,
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        assert_eq!(Lock::holder(&path), None);
        let lock = Lock::take(&path).unwrap();
        let me = Some(std::process::id());
        assert!(matches!(Lock::take(&path), Err(LockError::Taken(pid)) if pid == me));
        assert_eq!(Lock::holder(&path), Some(Holder { pid: me }));
        drop(lock);
        assert!(!path.exists());
        drop(Lock::take(&path).unwrap());
        // A file left behind without a lock belongs to nobody.
        std::fs::write(&path, "1").unwrap();
        assert_eq!(Lock::holder(&path), None);
        drop(Lock::take(&path).unwrap());
    }

    #[test]
    fn a_file_that_is_never_there_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.lock");
        let looks = std::cell::Cell::new(0);
        let is_at = |_: &File, _: &Path| {
            looks.set(looks.get() + 1);
            false
        };
        assert!(matches!(Lock::take_if(&path, is_at), Err(LockError::Io(_))));
        assert_eq!(looks.get(), REMOVALS + 1);
    }
}
