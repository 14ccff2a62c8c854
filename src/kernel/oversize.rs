//! Files for what is too large to pass through us: the content of a message, as the kernel sent it.
//!
//! It is written while it comes and never collected. A file that could not be written whole is removed. What is in it
//! was not verified by its signature.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::folder::Folder;

/// Names that are tried when one is taken.
const NAMES: u32 = 1000;

/// A folder for such files, shared by all lives of a kernel. It is made when the first one comes.
#[derive(Debug, Clone)]
pub struct Oversize {
    dir: PathBuf,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    left: AtomicU64,
    next: AtomicU32,
}

impl PartialEq for Oversize {
    fn eq(&self, other: &Self) -> bool {
        self.dir == other.dir
    }
}

impl Oversize {
    /// Files in `dir`, whose parent exists, with `bytes` together at most.
    pub fn new(dir: PathBuf, bytes: u64) -> Self {
        let state = State {
            left: AtomicU64::new(bytes),
            next: AtomicU32::new(1),
        };
        Self {
            dir,
            state: Arc::new(state),
        }
    }

    /// Begins a file of `length` bytes; `None` if there is no room or it cannot be made.
    pub(super) fn begin(&self, length: u64) -> Option<Oversized> {
        let left = &self.state.left;
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(length)
        })
        .ok()?;
        match self.open() {
            Ok((file, path)) => Some(Oversized { file, path }),
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "no file for a large output");
                left.fetch_add(length, Ordering::Relaxed);
                None
            }
        }
    }

    fn open(&self) -> io::Result<(File, PathBuf)> {
        match fs::create_dir(&self.dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            // Code in the kernel may have put a link there.
            Ok(()) | Err(_) if fs::symlink_metadata(&self.dir)?.is_dir() => {}
            Ok(()) | Err(_) => return Err(io::Error::other("the folder is a link or a file")),
        }
        for _ in 0..NAMES {
            let number = self.state.next.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("large-{number}.json"));
            let folder = Folder::of(&path)?;
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).open(folder.file()) {
                Ok(file) => return Ok((file, path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Oversized {
    file: File,
    path: PathBuf,
}

impl Oversized {
    /// Writes more; `None` if that failed, and the file is gone.
    pub(super) fn write(mut self, bytes: &[u8]) -> Option<Self> {
        match self.file.write_all(bytes) {
            Ok(()) => Some(self),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "could not write a large output");
                let _ = fs::remove_file(&self.path);
                None
            }
        }
    }

    /// It is whole.
    pub(super) fn end(self) -> PathBuf {
        self.path
    }
}

/// What is said in the place of an output.
pub(super) fn too_large(bytes: u64, file: Option<&Path>) -> String {
    let size = bytes / 1_000_000;
    let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    // Beside the notebook: a path of the person's home does not belong there.
    match file.and_then(|file| Some((name(file.parent()?)?, name(file)?))) {
        Some((folder, file)) => format!(
            "an output of {size} MB was too large; it is in `{folder}/{file}`, as the kernel's message"
        ),
        None => {
            format!("an output of {size} MB was too large and is not kept; print less at a time")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_together_and_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a.outputs");
        let oversize = Oversize::new(place.clone(), 10);
        let write = |bytes: &[u8]| {
            let file = oversize.begin(bytes.len() as u64)?;
            Some(file.write(bytes)?.end())
        };
        assert_eq!(write(b"1234567"), Some(place.join("large-1.json")));
        assert_eq!(write(b"12345"), None);
        fs::write(place.join("large-2.json"), "mine").unwrap();
        assert_eq!(write(b"123"), Some(place.join("large-3.json")));
        assert_eq!(fs::read(place.join("large-1.json")).unwrap(), b"1234567");
        assert_eq!(fs::read(place.join("large-2.json")).unwrap(), b"mine");
    }
}
