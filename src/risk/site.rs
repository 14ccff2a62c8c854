//! Where code runs: which paths are the workspace's, and which are not.

use std::path::{Component, Path, PathBuf};

use super::finding::Where;

/// In a path: a part of it is computed.
pub(super) const UNKNOWN: char = '\0';
/// In a path: a part of it is made up by the system, as names of temporary files are.
pub(super) const MADE_UP: char = '\u{1}';

/// Directories for temporary files, which confined code has for itself.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// Files that take what is written and keep nothing.
const SINKS: [&str; 5] = [
    "/dev/null",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/tty",
    "/dev/fd",
];

/// Where a cell runs.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The working directory.
    pub cwd: &'a Path,
    /// Other directories that code may write.
    pub writable: &'a [PathBuf],
    /// The person's home directory.
    pub home: Option<&'a Path>,
    /// Whether this file was there before the session.
    pub is_old: &'a dyn Fn(&Path) -> bool,
}

impl Site<'_> {
    /// The absolute path that `path` means, without dots; `None` if it is computed.
    pub fn absolute(&self, path: &str) -> Option<PathBuf> {
        if path.contains(UNKNOWN) || path.is_empty() {
            return None;
        }
        let path = path.strip_prefix("file://").unwrap_or(path);
        let path = match path.strip_prefix('~') {
            Some("") => self.home(),
            Some(rest) if rest.starts_with('/') => self.home().join(rest.trim_start_matches('/')),
            // Another user's.
            Some(_) => PathBuf::from("/home").join(path),
            None => self.cwd.join(path),
        };
        Some(without_dots(&path))
    }

    fn home(&self) -> PathBuf {
        self.home.unwrap_or(Path::new("/nobody")).to_owned()
    }

    /// Where `path` leads.
    pub(super) fn place(&self, path: &str) -> Where {
        let Some(path) = self.absolute(path) else {
            return Where::Unknown;
        };
        let writable = self.writable.iter().map(PathBuf::as_path);
        let mut own = std::iter::once(self.cwd).chain(writable);
        if own.any(|dir| path.starts_with(dir)) {
            Where::Workspace
        } else if TEMPORARY.iter().any(|dir| path.starts_with(dir)) {
            Where::Temporary
        } else {
            Where::Outside
        }
    }

    /// Whether nothing comes of writing there.
    pub(super) fn is_sink(path: &str) -> bool {
        let mut sinks = SINKS.iter();
        sinks.any(|sink| Path::new(path).starts_with(sink))
    }
}

fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// `path` behind `base`, as programs join them.
pub(super) fn join(base: &str, path: &str) -> String {
    if path.starts_with(['/', '~']) || base.is_empty() {
        path.to_owned()
    } else if path.is_empty() {
        base.to_owned()
    } else {
        format!("{}/{path}", base.trim_end_matches('/'))
    }
}
