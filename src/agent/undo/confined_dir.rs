//! File changes confined to one directory: each path component is opened from its parent directory without following
//! symbolic links, so that a link created by code leads nowhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, mkdirat, openat, renameat, symlinkat, unlinkat,
};

use crate::kernel::folder;

/// An open root directory.
#[derive(Debug)]
pub(super) struct ConfinedDir {
    root: OwnedFd,
}

/// An entry's parent directory and its name there.
struct EntryPath<'a> {
    dir: OwnedFd,
    name: &'a OsStr,
}

impl ConfinedDir {
    /// # Errors
    /// I/O errors.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = openat(CWD, root, flags, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens `root`, creating it if needed. No link is followed on the way.
    ///
    /// # Errors
    /// I/O errors, also if a link is in the way.
    pub(super) fn make(root: &Path) -> io::Result<Self> {
        folder::make_dirs(root, 0o700)?;
        let root = folder::open(root)?;
        Ok(Self { root })
    }

    /// Opens the parent directory of the relative `path`.
    fn place<'a>(&self, path: &'a Path) -> io::Result<EntryPath<'a>> {
        let name = path.file_name().ok_or_else(outside)?;
        let dir = self.dir(path.parent().unwrap_or(Path::new("")))?;
        Ok(EntryPath { dir, name })
    }

    /// Opens a directory; an empty path is the root.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn dir(&self, path: &Path) -> io::Result<OwnedFd> {
        let mut dir = self.root.try_clone()?;
        for component in path.components() {
            let Component::Normal(step) = component else {
                return Err(outside());
            };
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
            dir = openat(&dir, step, flags, Mode::empty())?;
        }
        Ok(dir)
    }

    /// Whether the entry is a directory; `None` if it does not exist.
    pub(super) fn is_dir(&self, path: &Path) -> Option<bool> {
        let EntryPath { dir, name } = self.place(path).ok()?;
        let found = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn read(&self, path: &Path) -> io::Result<File> {
        let EntryPath { dir, name } = self.place(path)?;
        // Without `NONBLOCK`, opening a named pipe would block.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK;
        let file = File::from(openat(&dir, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("not a file any more"))
        }
    }

    /// Atomically creates or replaces a file with what `write` produces.
    ///
    /// # Errors
    /// I/O errors; nothing has changed then.
    pub(super) fn write(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        let temporary = format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
        let mut file = File::from(openat(&dir, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let written = write(&mut file).and_then(|()| Ok(renameat(&dir, &temporary, &dir, name)?));
        if written.is_err() {
            // The first error is the one to report.
            let _ = unlinkat(&dir, &temporary, AtFlags::empty());
        }
        written
    }

    /// # Errors
    /// I/O errors.
    pub(super) fn make_dir(&self, path: &Path) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        Ok(mkdirat(&dir, name, Mode::RWXU)?)
    }

    /// Creates the missing directories down to `path`.
    ///
    /// # Errors
    /// I/O errors.
    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        let mut above: Vec<&Path> = path.ancestors().collect();
        // The last ancestor is the root.
        above.pop();
        for dir in above.into_iter().rev() {
            match self.make_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// # Errors
    /// I/O errors.
    pub(super) fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        Ok(symlinkat(target, &dir, name)?)
    }

    /// Sets the permissions of a file or directory.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK;
        match openat(&dir, name, flags, Mode::empty()) {
            Ok(file) => Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?),
            // We may own files that we cannot read. The race is narrow: only a link that appeared this instant would be
            // followed.
            Err(rustix::io::Errno::ACCESS) => Ok(rustix::fs::chmodat(
                &dir,
                name,
                Mode::from_raw_mode(mode),
                AtFlags::empty(),
            )?),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        Ok(unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
    }

    /// Moves a file or link to the same path below `attic`.
    ///
    /// # Errors
    /// I/O errors; the entry then stays in place.
    pub(super) fn take_out(&self, path: &Path, attic: &Self) -> io::Result<()> {
        let EntryPath { dir, name } = self.place(path)?;
        attic.make_dirs(path.parent().unwrap_or(Path::new("")))?;
        let to = attic.place(path)?.dir;
        match renameat(&dir, name, &to, name) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::XDEV) => {}
            Err(error) => return Err(error.into()),
        }
        // `attic` is on another file system.
        if let Ok(target) = rustix::fs::readlinkat(&dir, name, Vec::new()) {
            symlinkat(target, &to, name)?;
        } else {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::WRONLY;
            let mode = Mode::RUSR | Mode::WUSR;
            let mut copy = File::from(openat(&to, name, flags, mode)?);
            let copied = self
                .read(path)
                .and_then(|mut file| io::copy(&mut file, &mut copy));
            if copied.is_err() {
                let _ = unlinkat(&to, name, AtFlags::empty());
            }
            copied?;
        }
        Ok(unlinkat(&dir, name, AtFlags::empty())?)
    }
}

fn outside() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a path in the workspace")
}
