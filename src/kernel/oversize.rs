//! Files for outputs that are too large to pass through us: the content of a message, as the kernel sent it.
//!
//! Content is written as it arrives and never buffered. A file that could not be written completely is removed. Its
//! content was not verified by the signature.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::folder::{Folder, make_dir, remove_file};

/// How many names are tried if one is taken.
const NAMES: u32 = 1000;

/// A folder for such files, shared by all lives of a kernel. It is created with the first file.
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
    /// Files in `dir`, whose parent must exist, with at most `bytes` in total.
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

    /// Starts a file of `length` bytes; `None` if there is no room or it cannot be created.
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
        // Code in the kernel may have placed a symbolic link there.
        make_dir(&self.dir, 0o777)?;
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
    /// Writes more; on failure the file is removed and `None` returned.
    pub(super) fn write(mut self, bytes: &[u8]) -> Option<Self> {
        match self.file.write_all(bytes) {
            Ok(()) => Some(self),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "could not write a large output");
                let _ = remove_file(&self.path);
                None
            }
        }
    }

    /// Finishes the file and returns its path.
    pub(super) fn end(self) -> PathBuf {
        self.path
    }
}

/// The text that replaces an output.
pub(super) fn too_large(bytes: u64, file: Option<&Path>) -> String {
    let size = bytes / 1_000_000;
    let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
    // Relative to the notebook: it must not reveal the user's home directory.
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
    use std::fs;

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

    #[test]
    fn nothing_is_made_or_removed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (work, outside) = (dir.path().join("work"), dir.path().join("outside"));
        fs::create_dir(&outside).unwrap();
        fs::create_dir(&work).unwrap();
        let oversize = Oversize::new(work.join("a.outputs"), 100);
        let begun = oversize.begin(1).unwrap();
        // Code replaces the parent directory with a link.
        fs::rename(&work, dir.path().join("old")).unwrap();
        std::os::unix::fs::symlink(&outside, &work).unwrap();
        assert!(oversize.begin(1).is_none());
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
        // An incomplete file is removed, but not one that is elsewhere.
        let theirs = outside.join("a.outputs/large-1.json");
        fs::create_dir(outside.join("a.outputs")).unwrap();
        fs::write(&theirs, "theirs").unwrap();
        let path = begun.path.clone();
        let read_only = File::open(dir.path().join("old/a.outputs/large-1.json")).unwrap();
        let broken = Oversized {
            file: read_only,
            path,
        };
        assert!(broken.write(b"x").is_none());
        assert!(theirs.exists());
    }
}
