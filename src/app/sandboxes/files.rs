//! A sandbox's files for its program: only below `/home/user` and `/tmp`. No link is followed, including one that code
//! puts there meanwhile.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::machine::{Machine, Place};
use crate::app::files::Writing;
use crate::kernel::folder::{self, Folder};
use crate::kernel::remove_tree;

/// Maximum entries of a listing.
const ENTRIES: usize = 10_000;
/// Maximum depth of a listing.
const DEPTH: u32 = 64;
/// Maximum bytes of the metadata that a program attaches to a file.
const METADATA: usize = 4096;
/// The prefix of the extended attributes that hold it.
const ATTRIBUTE: &str = "user.e2b.";

/// The files of a sandbox.
#[derive(Clone)]
pub struct Files {
    machine: Arc<Machine>,
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a pipe, or a dangling link.
    Other,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its path, as programs write it.
    pub path: String,
    /// Its type.
    pub kind: EntryType,
    /// Bytes.
    pub size: u64,
    /// Permissions.
    pub mode: u32,
    /// Its inode number.
    pub inode: u64,
    /// Time of the last change.
    pub modified: SystemTime,
    /// The target, if it is a link.
    pub target: Option<String>,
    /// Metadata that its program attached.
    pub metadata: BTreeMap<String, String>,
}

/// Why a file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is not in the sandbox.
    #[error("`{0}` is not in the sandbox's files: they are below /home/user and /tmp")]
    Outside(String),
    /// It does not exist.
    #[error("path not found: {0}")]
    NotFound(String),
    /// It already exists.
    #[error("directory already exists: {0}")]
    Exists(String),
    /// It has the wrong type.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused.
    #[error("`{path}`: {error}")]
    Io {
        /// The path.
        path: String,
        /// The I/O error.
        error: io::Error,
    },
}

/// A file that is being written.
pub struct Upload {
    writing: Writing,
    place: Place,
    metadata: BTreeMap<String, String>,
    files: Files,
}

impl Files {
    pub(super) fn new(machine: Arc<Machine>) -> Self {
        Self { machine }
    }

    /// The entry at `path`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn stat(&self, path: &str) -> Result<Entry, FileError> {
        let place = self.place(path)?;
        let at = at(&place)?;
        let found = std::fs::symlink_metadata(&at.path);
        let found = found.map_err(|error| failed(&place, error))?;
        Ok(self.entry(&place, &at.path, &found))
    }

    /// The entries of the directory `path`, down to `depth`, by name.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn list(&self, path: &str, depth: u32) -> Result<Vec<Entry>, FileError> {
        let place = self.place(path)?;
        let at = at(&place)?;
        let found = std::fs::symlink_metadata(&at.path);
        if !found.map_err(|error| failed(&place, error))?.is_dir() {
            return Err(FileError::Invalid(format!(
                "path is not a directory: {}",
                place.shown()
            )));
        }
        let mut entries = Vec::new();
        self.list_into(&place, depth.min(DEPTH), &mut entries)?;
        Ok(entries)
    }

    fn list_into(
        &self,
        place: &Place,
        depth: u32,
        entries: &mut Vec<Entry>,
    ) -> Result<(), FileError> {
        let open = folder::open(&place.path()).map_err(|error| failed(place, error))?;
        let dir = folder::path_of(&open);
        let found = std::fs::read_dir(&dir).map_err(|error| failed(place, error))?;
        let mut names: Vec<String> = found
            .flatten()
            .take(ENTRIES)
            // A name that is not valid Unicode cannot be requested.
            .filter_map(|it| it.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            if entries.len() >= ENTRIES {
                return Ok(());
            }
            let (inner, at) = (place.join(&name), dir.join(&name));
            // Skips an entry that was removed meanwhile.
            let Ok(metadata) = std::fs::symlink_metadata(&at) else {
                continue;
            };
            entries.push(self.entry(&inner, &at, &metadata));
            if metadata.is_dir() && depth > 1 {
                // Skips an entry that became a link meanwhile.
                let _ = self.list_into(&inner, depth - 1, entries);
            }
        }
        Ok(())
    }

    /// Creates a directory and its parents.
    ///
    /// # Errors
    /// [`FileError::Exists`], and others.
    pub fn make_dir(&self, path: &str) -> Result<Entry, FileError> {
        let place = self.place(path)?;
        match at(&place).map(|at| std::fs::symlink_metadata(&at.path)) {
            Ok(Ok(found)) if found.is_dir() => return Err(FileError::Exists(place.shown())),
            Ok(Ok(_)) => {
                return Err(FileError::Invalid(format!(
                    "path already exists but it is not a directory: {}",
                    place.shown()
                )));
            }
            Ok(Err(_)) | Err(_) => {}
        }
        folder::make_dirs(&place.path(), 0o755).map_err(|error| failed(&place, error))?;
        self.stat(path)
    }

    /// Moves a file or directory, replacing an existing target.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn rename(&self, from: &str, to: &str) -> Result<Entry, FileError> {
        let (source, place) = (self.changed(from)?, self.changed(to)?);
        let above = place.path();
        if let Some(dir) = above.parent().filter(|it| folder::open(it).is_err()) {
            folder::make_dirs(dir, 0o755).map_err(|error| failed(&place, error))?;
        }
        let old = Folder::of(&source.path()).map_err(|error| failed(&source, error))?;
        let new = Folder::of(&place.path()).map_err(|error| failed(&place, error))?;
        std::fs::rename(old.file(), new.file()).map_err(|error| failed(&source, error))?;
        self.stat(to)
    }

    /// Removes a file, or a directory with all its content. A missing one is no error.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        let place = self.changed(path)?;
        let at = match Folder::of(&place.path()) {
            Ok(folder) => folder,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(&place, error)),
        };
        let file = at.file();
        let removed = match std::fs::symlink_metadata(&file) {
            Ok(found) if found.is_dir() => remove_tree(&file),
            Ok(_) => std::fs::remove_file(&file),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&place, error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Opens a file for reading. Also returns its size in bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        let place = self.place(path)?;
        let found = self.stat(path)?;
        if found.kind == EntryType::Directory {
            return Err(FileError::Invalid(format!(
                "path '{}' is a directory",
                place.shown()
            )));
        }
        // A link may lead to another file of the sandbox.
        let place = match found.target {
            Some(target) => self.place(&target)?,
            None => place,
        };
        let file = folder::open_file(&place.path()).map_err(|error| failed(&place, error))?;
        let length = file
            .metadata()
            .map_err(|error| failed(&place, error))?
            .len();
        Ok((file, length))
    }

    /// Begins to write a file, and creates its parent directories.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn upload(
        &self,
        path: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<Upload, FileError> {
        let is_plain = |text: &str| text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        let length = |(name, value): (&String, &String)| name.len() + value.len() + ATTRIBUTE.len();
        if !metadata
            .iter()
            .all(|(name, value)| is_plain(name) && is_plain(value))
            || metadata.iter().map(length).sum::<usize>() > METADATA
        {
            return Err(FileError::Invalid(format!(
                "metadata is printable ASCII, and has at most {METADATA} bytes"
            )));
        }
        let place = self.changed(path)?;
        let writing = Writing::begin(&place.path()).map_err(|error| failed(&place, error))?;
        Ok(Upload {
            writing,
            place,
            metadata,
            files: self.clone(),
        })
    }

    fn place(&self, path: &str) -> Result<Place, FileError> {
        let place = self.machine.place(path);
        place.ok_or_else(|| FileError::Outside(path.to_owned()))
    }

    /// The place of a path that may be changed.
    fn changed(&self, path: &str) -> Result<Place, FileError> {
        let place = self.place(path)?;
        if place.is_root() {
            return Err(FileError::Invalid(format!(
                "`{}` is a directory that stays",
                place.shown()
            )));
        }
        Ok(place)
    }

    fn entry(&self, place: &Place, at: &Path, found: &Metadata) -> Entry {
        let shown = place.shown();
        let target = found.is_symlink().then(|| target(place, at)).flatten();
        // A link within the sandbox is described by its target.
        let behind = target.as_deref().and_then(|it| self.machine.place(it));
        let behind = behind.and_then(|it| {
            let at = self::at(&it).ok()?;
            std::fs::symlink_metadata(&at.path).ok()
        });
        let kind = match behind.as_ref().unwrap_or(found).file_type() {
            kind if kind.is_dir() => EntryType::Directory,
            kind if kind.is_file() => EntryType::File,
            _ => EntryType::Other,
        };
        Entry {
            name: shown.rsplit('/').next().unwrap_or_default().to_owned(),
            path: shown,
            kind,
            size: found.size(),
            mode: found.permissions().mode(),
            inode: found.ino(),
            modified: found.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            target,
            metadata: if kind == EntryType::File && !found.is_symlink() {
                attributes(at)
            } else {
                BTreeMap::new()
            },
        }
    }
}

impl Upload {
    /// Appends bytes.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn write(self, piece: &[u8]) -> Result<Self, FileError> {
        let place = self.place;
        let writing = self.writing.write(piece);
        Ok(Self {
            writing: writing.map_err(|error| failed(&place, error))?,
            place,
            ..self
        })
    }

    /// Moves the file to its final name.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn end(self) -> Result<Entry, FileError> {
        let place = self.place;
        self.writing.end().map_err(|error| failed(&place, error))?;
        if !self.metadata.is_empty() {
            let file = folder::open_file(&place.path()).map_err(|error| failed(&place, error))?;
            set_attributes(&file, &self.metadata).map_err(|error| failed(&place, error))?;
        }
        self.files.stat(&place.shown())
    }
}

/// A path through the open directory that contains it; valid while this is held.
struct At {
    path: PathBuf,
    _folder: Option<Folder>,
}

fn at(place: &Place) -> Result<At, FileError> {
    // Code cannot replace the sandbox's directories themselves.
    if place.is_root() {
        return Ok(At {
            path: place.path(),
            _folder: None,
        });
    }
    let folder = Folder::of(&place.path()).map_err(|error| failed(place, error))?;
    Ok(At {
        path: folder.file(),
        _folder: Some(folder),
    })
}

/// The target of a link, if it can be read.
fn target(place: &Place, at: &Path) -> Option<String> {
    let target = std::fs::read_link(at).ok()?;
    let target = target.to_str()?;
    if target.starts_with('/') {
        return Some(target.to_owned());
    }
    let shown = place.shown();
    let (dir, _) = shown.rsplit_once('/')?;
    let mut parts: Vec<&str> = dir.split('/').collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The metadata that a program attached to a file, from its extended attributes.
pub(super) fn attributes(at: &Path) -> BTreeMap<String, String> {
    let mut names = vec![0_u8; 16 << 10];
    let Ok(length) = rustix::fs::llistxattr(at, names.as_mut_slice()) else {
        return BTreeMap::new();
    };
    let names = names.get(..length).unwrap_or_default();
    let names = names.split(|byte| *byte == 0);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    names
        .filter_map(|name| {
            let own = name.strip_prefix(ATTRIBUTE)?;
            let mut value = vec![0_u8; METADATA];
            let length = rustix::fs::lgetxattr(at, name, value.as_mut_slice()).ok()?;
            value.truncate(length);
            Some((own.to_owned(), String::from_utf8(value).ok()?))
        })
        .collect()
}

pub(super) fn set_attributes(file: &File, all: &BTreeMap<String, String>) -> io::Result<()> {
    for (name, value) in all {
        let name = format!("{ATTRIBUTE}{name}");
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::fsetxattr(file, name.as_str(), value.as_bytes(), flags)?;
    }
    Ok(())
}

fn failed(place: &Place, error: io::Error) -> FileError {
    let path = place.shown();
    match error.kind() {
        io::ErrorKind::NotFound => FileError::NotFound(path),
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            FileError::Invalid(format!("`{path}`: {error}"))
        }
        _ => FileError::Io { path, error },
    }
}
