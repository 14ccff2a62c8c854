//! What is piped into a question: kept as a file of the session, which the model is told about as about files that are
//! named.

use std::path::{Path, PathBuf};

use super::Notify;
use crate::error::Failure;

/// What came, in a file of its own until the session is there.
#[derive(Debug, Clone)]
pub struct Piped {
    path: PathBuf,
    bytes: u64,
    suffix: &'static str,
}

impl Piped {
    /// What is in the file at `path`, which goes with this. `suffix` suits its kind of data.
    pub fn new(path: PathBuf, bytes: u64, suffix: &'static str) -> Self {
        Self {
            path,
            bytes,
            suffix,
        }
    }

    /// Moves it beside the notebook, where it stays as long as the session; says where.
    ///
    /// # Errors
    /// A directory that cannot be written.
    pub(super) fn keep(&self, notebook: &Path, notify: &Notify) -> Result<PathBuf, Failure> {
        let dir = super::session::pictures_dir(notebook);
        let kept = free(&dir, self.suffix);
        std::fs::create_dir_all(&dir)
            // The notebook may be on another disk.
            .and_then(|()| std::fs::copy(&self.path, &kept).map(|_| ()))
            .map_err(|error| {
                let shown = kept.display();
                Failure::usage(format!(
                    "could not keep what was piped in as `{shown}`: {error}"
                ))
            })?;
        notify.info(format!("stdin: {} bytes in {}", self.bytes, kept.display()));
        Ok(kept)
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A name that nothing has: a notebook can go on several times.
fn free(dir: &Path, suffix: &str) -> PathBuf {
    let first = dir.join(format!("stdin.{suffix}"));
    let others = (2..).map(|number| dir.join(format!("stdin-{number}.{suffix}")));
    let mut names = std::iter::once(first.clone()).chain(others);
    names.find(|path| !path.exists()).unwrap_or(first)
}
