//! The files of a sandbox for its program: below `/home/user` and `/tmp`, and nowhere else. No link is followed, also none that
//! code puts there meanwhile.

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

/// Entries of a listing.
const ENTRIES: usize = 10_000;
/// How deep a listing goes.
const DEPTH: u32 = 64;
/// Bytes of what a program remembers of a file.
const METADATA: usize = 4096;
/// How the names of extended attributes begin that have it.
const ATTRIBUTE: &str = "user.e2b.";

/// The files of a sandbox.
#[derive(Clone)]
pub struct Files {
    machine: Arc<Machine>,
}

/// What something in a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryType {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// Something else: a pipe, or a link that leads nowhere.
    Other,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Where it is, for programs.
    pub path: String,
    /// What it is.
    pub kind: EntryType,
    /// Bytes.
    pub size: u64,
    /// Permissions.
    pub mode: u32,
    /// Its number on its disk.
    pub inode: u64,
    /// When it was changed last.
    pub modified: SystemTime,
    /// Where it leads, if it is a link.
    pub target: Option<String>,
    /// What its program remembers of it.
    pub metadata: BTreeMap<String, String>,
}

/// Why something could not be done with files.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is no path of the sandbox's.
    #[error("`{0}` is not in the sandbox's files: they are below /home/user and /tmp")]
    Outside(String),
    /// It is not there.
    #[error("path not found: {0}")]
    NotFound(String),
    /// It is there already.
    #[error("directory already exists: {0}")]
    Exists(String),
    /// It is something else than is needed.
    #[error("{0}")]
    Invalid(String),
    /// The operating system says no.
    #[error("`{path}`: {error}")]
    Io {
        /// Which.
        path: String,
        /// Why.
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

    /// What is at `path`.
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

    /// What is in the directory `path`, down to `depth`, by name.
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
            // A name that is no Unicode cannot be asked for.
            .filter_map(|it| it.file_name().into_string().ok())
            .collect();
        names.sort();
        for name in names {
            if entries.len() >= ENTRIES {
                return Ok(());
            }
            let (inner, at) = (place.join(&name), dir.join(&name));
            // One that goes meanwhile is not there.
            let Ok(metadata) = std::fs::symlink_metadata(&at) else {
                continue;
            };
            entries.push(self.entry(&inner, &at, &metadata));
            if metadata.is_dir() && depth > 1 {
                // So is one that becomes a link.
                let _ = self.list_into(&inner, depth - 1, entries);
            }
        }
        Ok(())
    }

    /// Makes a directory, and those above it.
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

    /// Moves a file or directory; what is in its way goes.
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

    /// Removes a file, or a directory with all that is in it. What is not there is no error.
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

    /// Opens a file to read it. Says how many bytes it has.
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

    /// Begins to write a file, with the directories above it.
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

    /// One that may be changed.
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
        // Of a link within the sandbox what it leads to counts.
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
    /// With more bytes.
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

    /// Puts it in its place.
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

/// A path that leads through the open directory it is in, as long as this is held.
struct At {
    path: PathBuf,
    _folder: Option<Folder>,
}

fn at(place: &Place) -> Result<At, FileError> {
    // Code cannot put anything in the place of the sandbox's directories themselves.
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

/// Where a link leads, if that is plain to see.
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

/// What a program remembers of a file, which is its extended attributes.
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
