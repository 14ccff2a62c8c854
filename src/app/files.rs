//! Lists and writes files of a session's directory for front ends. Nothing outside the directory is reachable: paths
//! have no `..`, and no link is followed, including one that code puts there meanwhile ([`folder`]).

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

pub use crate::agent::listing::{entries, iso, relative};
pub use crate::agent::query::{EntryKind, FileEntry};
use crate::kernel::folder::{self, Folder};

/// Reads a file of at most `most` bytes. For a larger one, the error gives its size.
///
/// # Errors
/// The operating system's error, or that the file is too large.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = folder::open_file(path)?;
    let length = file.metadata()?.len();
    if length > most {
        let message = format!("it has {length} bytes, and {most} are the most");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file atomically.
///
/// # Errors
/// The operating system's error.
pub fn write(to: &Path, bytes: &[u8]) -> io::Result<u64> {
    Writing::begin(to)?.write(bytes)?.end()
}

/// A file that is being written under a temporary name; dropping it unfinished removes it.
pub struct Writing {
    file: File,
    folder: Folder,
    temporary: PathBuf,
    /// Bytes written so far.
    pub bytes: u64,
    is_done: bool,
}

impl Writing {
    /// Begins a new file next to `to`, and creates the directory of `to` if necessary.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn begin(to: &Path) -> io::Result<Self> {
        let dir = to.parent().ok_or(io::ErrorKind::InvalidInput)?;
        if folder::open(dir).is_err() {
            folder::make_dirs(dir, 0o755)?;
        }
        let folder = Folder::of(to)?;
        if std::fs::symlink_metadata(folder.file()).is_ok_and(|it| it.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let name = format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple());
        let temporary = folder.beside(name);
        let file = File::create_new(&temporary)?;
        Ok(Self {
            file,
            folder,
            temporary,
            bytes: 0,
            is_done: false,
        })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn write(mut self, piece: &[u8]) -> io::Result<Self> {
        self.file.write_all(piece)?;
        self.bytes += piece.len() as u64;
        Ok(self)
    }

    /// Moves the file to its final name; returns its size in bytes.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn end(mut self) -> io::Result<u64> {
        // An existing link of that name is replaced, not followed.
        std::fs::rename(&self.temporary, self.folder.file())?;
        self.is_done = true;
        Ok(self.bytes)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_and_read_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let path = dir.join("sub/a.txt");
        assert_eq!(write(&path, b"one").unwrap(), 3);
        assert_eq!(read(&path, 3).unwrap(), b"one");
        let error = read(&path, 2).unwrap_err().to_string();
        assert_eq!(error, "it has 3 bytes, and 2 are the most");
        drop(Writing::begin(&path).unwrap().write(b"two").unwrap());
        assert_eq!(read(&path, 3).unwrap(), b"one");
        assert_eq!(entries(&dir.join("sub")).unwrap().len(), 1);
        // A link is replaced, not followed.
        std::os::unix::fs::symlink("a.txt", dir.join("sub/link")).unwrap();
        assert!(read(&dir.join("sub/link"), 9).is_err());
        write(&dir.join("sub/link"), b"new").unwrap();
        assert_eq!(read(&path, 3).unwrap(), b"one");
    }
}
