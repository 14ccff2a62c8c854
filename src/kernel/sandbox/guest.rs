//! A sandbox that looks like a separate machine: the working directory is `/home/user`, and `/tmp` is a directory that
//! several kernels and commands share. Only bubblewrap can do that; elsewhere both stay where they are.
//!
//! Nothing is mounted below the two directories: code could place a symbolic link there, which the next mount would
//! follow.

use std::path::{Path, PathBuf};

/// Working directory inside.
pub const HOME: &str = "/home/user";
/// The same directory again, where agents' harnesses look for it.
pub const WORKSPACE: &str = "/workspace";
/// Temporary files inside.
pub const TMP: &str = "/tmp";

/// The directories of such a sandbox, as seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The working directory.
    pub directory: PathBuf,
    /// Temporary files.
    pub tmp: PathBuf,
}

impl Guest {
    /// The path that code sees for `path`.
    pub(super) fn inside(&self, path: &Path) -> PathBuf {
        let moved = [(&self.directory, HOME), (&self.tmp, TMP)];
        let below = moved
            .iter()
            .find_map(|(dir, to)| Some((path.strip_prefix(dir).ok()?, to)));
        match below {
            // Joining an empty path would leave a trailing slash.
            Some((below, to)) if below.as_os_str().is_empty() => PathBuf::from(to),
            Some((below, to)) => Path::new(to).join(below),
            None => path.to_owned(),
        }
    }
}

/// Variables that keep libraries' own directories out of the working directory.
pub(super) fn variables(own: &Path) -> impl Iterator<Item = (String, String)> {
    [
        ("IPYTHONDIR", ".ipython"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
    ]
    .map(|(name, below)| {
        let path = own.join(below).to_string_lossy().into_owned();
        (name.to_owned(), path)
    })
    .into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_directories_are_elsewhere() {
        let guest = Guest {
            directory: "/data/1/home".into(),
            tmp: "/data/1/tmp".into(),
        };
        for (path, expected) in [
            ("/data/1/home", "/home/user"),
            ("/data/1/home/a/b", "/home/user/a/b"),
            ("/data/1/tmp/x", "/tmp/x"),
            ("/data/1/homes", "/data/1/homes"),
            ("/usr", "/usr"),
        ] {
            assert_eq!(guest.inside(Path::new(path)), Path::new(expected));
        }
    }
}
