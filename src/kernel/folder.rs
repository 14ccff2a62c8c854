//! Accesses files in directories that code in a kernel can change, without following symbolic links that it may have
//! placed.
//!
//! A path that was resolved before the code ran has no link in it. If it has one later, we must not follow it.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};

/// The open directory of a file: later changes to its path do not matter.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    name: std::ffi::OsString,
}

impl Folder {
    /// Opens the directory of `path`, which is absolute and has no link in it except perhaps as its last part.
    ///
    /// # Errors
    /// If a link is in the way, or the directory does not exist.
    pub fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().map(OsStr::to_owned);
        let (Some(name), Some(dir)) = (name, path.parent()) else {
            let message = "not a file name";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let is_here = dir.as_os_str().is_empty();
        let dir = if is_here { Path::new(".") } else { dir };
        Ok(Self {
            fd: open(dir)?,
            name,
        })
    }

    /// A path to the file that leads through the open directory.
    pub fn file(&self) -> PathBuf {
        self.beside(&self.name)
    }

    /// The same for another file in the directory.
    pub fn beside(&self, name: impl AsRef<OsStr>) -> PathBuf {
        path_of(&self.fd).join(name.as_ref())
    }
}

/// A path to an open directory, valid while it is open.
pub fn path_of(dir: &impl AsFd) -> PathBuf {
    // Our own entries in /proc are always accessible to us (proc(5)).
    Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string())
}

/// Creates a directory with these permissions unless it exists. On success it exists and is not a link.
///
/// # Errors
/// The operating system's error, or that a link or a file is in the way.
pub fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    let folder = Folder::of(path)?;
    let path = folder.file();
    match DirBuilder::new().mode(mode).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) if std::fs::symlink_metadata(&path)?.is_dir() => Ok(()),
        Ok(()) | Err(_) => Err(io::Error::other("the folder is a link or a file")),
    }
}

/// The same including its parents.
///
/// # Errors
/// As [`make_dir`].
pub fn make_dirs(path: &Path, mode: u32) -> io::Result<()> {
    match (make_dir(path, mode), path.parent()) {
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
            make_dirs(above, mode)?;
            make_dir(path, mode)
        }
        (result, _) => result,
    }
}

/// Removes a file, or a link in its place.
///
/// # Errors
/// The operating system's error, or that a link is on the way.
pub fn remove_file(path: &Path) -> io::Result<()> {
    std::fs::remove_file(Folder::of(path)?.file())
}

/// Removes an empty directory.
///
/// # Errors
/// The operating system's error, or that a link is on the way.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    std::fs::remove_dir(Folder::of(path)?.file())
}

/// Lists a directory that is not a link.
///
/// # Errors
/// The operating system's error, or that it is a link, or one is on the way.
pub fn list(dir: &Path) -> io::Result<std::fs::ReadDir> {
    std::fs::read_dir(path_of(&open(dir)?))
}

/// Opens a regular file for reading; does not follow a link and does not block on a pipe.
///
/// # Errors
/// The operating system's error, or that it is not a regular file.
pub fn open_file(path: &Path) -> io::Result<File> {
    let folder = Folder::of(path)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::RDONLY;
    let name = Path::new(&folder.name);
    let file = match rustix::fs::openat(&folder.fd, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err(io::Error::other("it is a link now")),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a plain file"))
    }
}

/// `path` with its links resolved now; for a file that does not exist, those of its directory.
pub fn resolved(path: &Path) -> PathBuf {
    let there = std::fs::canonicalize(path).ok();
    let new = || {
        let name = path.file_name()?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = std::fs::canonicalize(dir.unwrap_or(Path::new("."))).ok()?;
        Some(dir.join(name))
    };
    there.or_else(new).unwrap_or_else(|| path.to_owned())
}

const FLAGS: OFlags = OFlags::DIRECTORY
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

#[cfg(target_os = "linux")]
/// Opens a directory without following a link, on the way or at the end.
///
/// # Errors
/// The operating system's error, or that there is a link.
pub fn open(dir: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;
    match openat2(CWD, dir, FLAGS, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(fd) => Ok(fd),
        Err(Errno::LOOP) => Err(io::Error::other(format!(
            "`{}` contains a symbolic link that did not exist before",
            dir.display()
        ))),
        // Linux before 5.6, or a seccomp filter.
        Err(Errno::NOSYS | Errno::PERM) => Ok(rustix::fs::open(dir, FLAGS, Mode::empty())?),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
/// Opens a directory.
///
/// # Errors
/// The operating system's error.
pub fn open(dir: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, dir, FLAGS, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let (work, outside) = (root.join("work"), root.join("outside"));
        std::fs::create_dir_all(work.join("sub")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let path = work.join("sub/a.ipynb");
        let folder = Folder::of(&path).unwrap();
        std::fs::write(folder.file(), "one").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        // Code replaces the directory with a link.
        std::fs::rename(work.join("sub"), work.join("old")).unwrap();
        std::os::unix::fs::symlink(&outside, work.join("sub")).unwrap();
        let error = Folder::of(&path).unwrap_err().to_string();
        assert!(
            error.contains("a symbolic link that did not exist before"),
            "{error}"
        );
        // The open directory is still the old one.
        std::fs::write(folder.file(), "two").unwrap();
        assert_eq!(
            std::fs::read_to_string(work.join("old/a.ipynb")).unwrap(),
            "two"
        );
        assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
        assert_eq!(resolved(&path), outside.join("a.ipynb"));
    }

    #[test]
    fn nothing_is_made_removed_or_listed_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(root.path()).unwrap();
        let outside = root.join("outside");
        make_dirs(&outside.join("empty/er"), 0o700).unwrap();
        std::fs::write(outside.join("file"), "theirs").unwrap();
        let link = root.join("link");
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(make_dir(&link, 0o700).is_err());
        assert!(make_dirs(&link.join("new/er"), 0o700).is_err());
        assert!(remove_file(&link.join("file")).is_err());
        assert!(remove_dir(&link.join("empty/er")).is_err());
        assert!(list(&link).is_err());
        assert_eq!(list(&outside).unwrap().count(), 2);
        assert_eq!(list(&outside.join("empty")).unwrap().count(), 1);
        // The link itself may be removed.
        remove_file(&link).unwrap();
        remove_dir(&outside.join("empty/er")).unwrap();
        assert!(outside.join("file").exists());
    }
}
