//! Input piped into a question: stored as a file of the session. The model is told about it like any other file that a
//! question names.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::Notify;
use crate::error::Failure;
use crate::kernel::folder::{Folder, make_dirs};

/// The input, in its own file until the session exists.
#[derive(Debug, Clone)]
pub struct Piped {
    path: PathBuf,
    bytes: u64,
    suffix: &'static str,
}

impl Piped {
    /// Takes over the file at `path`, which is removed with this. `suffix` matches its kind of data.
    pub fn new(path: PathBuf, bytes: u64, suffix: &'static str) -> Self {
        Self {
            path,
            bytes,
            suffix,
        }
    }

    /// Moves it next to the notebook, where it stays as long as the session; returns its path.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn keep(&self, notebook: &Path, notify: &Notify) -> Result<PathBuf, Failure> {
        let dir = super::place::pictures_dir(notebook);
        let kept = self.copy_to(&dir).map_err(|error| {
            let shown = dir.display();
            Failure::usage(format!(
                "could not keep what was piped in, in `{shown}`: {error}"
            ))
        })?;
        notify.info(format!("stdin: {} bytes in {}", self.bytes, kept.display()));
        Ok(kept)
    }

    /// Copies it under an unused name, because a notebook can be continued several times. Code that ran then may have
    /// put links there.
    fn copy_to(&self, dir: &Path) -> io::Result<PathBuf> {
        let mut from = File::open(&self.path)?;
        make_dirs(dir, 0o777)?;
        for number in 1_u32.. {
            let name = match number {
                1 => format!("stdin.{}", self.suffix),
                _ => format!("stdin-{number}.{}", self.suffix),
            };
            let path = dir.join(name);
            match File::create_new(Folder::of(&path)?.file()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                // The notebook may be on another disk.
                Ok(mut file) => return io::copy(&mut from, &mut file).map(|_| path),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_in_does_not_go_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("came"), "a,b").unwrap();
        let piped = Piped::new(path("came"), 3, "csv");
        std::fs::create_dir_all(path("n_files")).unwrap();
        // A dangling link.
        std::os::unix::fs::symlink(path("outside"), path("n_files/stdin.csv")).unwrap();
        let kept = piped.copy_to(&path("n_files")).unwrap();
        assert_eq!(kept, path("n_files/stdin-2.csv"));
        assert_eq!(std::fs::read_to_string(kept).unwrap(), "a,b");
        assert!(!path("outside").exists());
        std::os::unix::fs::symlink(path("n_files"), path("m_files")).unwrap();
        assert!(piped.copy_to(&path("m_files")).is_err());
    }
}
