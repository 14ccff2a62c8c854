//! The files of a program's sessions: read and written within the permissions of the sessions' code.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::agent::project;
use crate::app::files;
use crate::app::files::FileEntry;
use crate::kernel::folder;
use crate::kernel::{Level, LevelChoice};

/// Maximum bytes of a file that is read or written whole.
const LARGEST: u64 = 64 << 20;
/// Maximum bytes of text per read.
const TEXT: usize = 100_000;

/// A directory as programs see it.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: PathBuf,
    may_write: bool,
}

/// The kind of a file, from its name and beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// UTF-8 text.
    Text,
    /// A picture of this type.
    Image(&'static str),
    /// Anything else.
    Binary,
}

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is outside the workspace.
    #[error("`{0}` is not in the workspace")]
    Outside(String),
    /// Code may not change it either.
    #[error("`{0}` is read-only, as for code")]
    Protected(String),
    /// The sandbox is read-only.
    #[error("files cannot be written: the sandbox is read-only")]
    ReadOnly,
    /// The operating system refused.
    #[error("`{path}` could not be {what}: {error}")]
    Io {
        /// The path.
        path: String,
        /// `read`, `listed`, `written`.
        what: &'static str,
        /// The I/O error.
        error: io::Error,
    },
}

impl FileError {
    /// A hint for the person.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Outside(_) => Some("give a path relative to the workspace, without `..`"),
            Self::Protected(_) => None,
            Self::ReadOnly => Some("start with `--sandbox workspace` if files may change"),
            Self::Io { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => Some("`list_files` says what is there"),
                io::ErrorKind::FileTooLarge => {
                    Some("read it with code, which can take a part of it")
                }
                _ => None,
            },
        }
    }
}

impl Workspace {
    /// The directory `root`, with the permissions of `level`.
    pub fn new(root: &Path, level: Option<LevelChoice>) -> Self {
        Self {
            root: root.to_owned(),
            may_write: level.is_none_or(|choice| choice.level != Level::ReadOnly),
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Lists the directory `path`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn list(&self, path: &str) -> Result<Vec<FileEntry>, FileError> {
        let place = self.place(path)?;
        files::entries(&place).map_err(|error| failed(path, "listed", error))
    }

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let place = self.place(path)?;
        files::read(&place, LARGEST).map_err(|error| failed(path, "read", error))
    }

    /// Writes a file atomically, and creates its parent directories. Returns its size in bytes.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<u64, FileError> {
        if !self.may_write {
            return Err(FileError::ReadOnly);
        }
        let place = self.place(path)?;
        let inside = place.strip_prefix(&self.root).unwrap_or(&place);
        // The sandbox also denies this to code, because a repository's own files can run programs of the person.
        let is_git = |it: Component<'_>| it.as_os_str() == ".git";
        let is_trusted = [project::FILE, project::SERVERS]
            .map(Path::new)
            .contains(&inside);
        if inside.components().any(is_git) || is_trusted {
            return Err(FileError::Protected(path.to_owned()));
        }
        if inside.as_os_str().is_empty() {
            return Err(failed(path, "written", io::ErrorKind::IsADirectory.into()));
        }
        files::write(&place, bytes).map_err(|error| failed(path, "written", error))
    }

    /// Whether `path` is a readable regular file.
    ///
    /// # Errors
    /// [`FileError::Outside`].
    pub fn has(&self, path: &str) -> Result<bool, FileError> {
        let file = folder::open_file(&self.place(path)?);
        let metadata = file.and_then(|file| file.metadata());
        Ok(metadata.is_ok_and(|it| it.is_file()))
    }

    /// The full path of `path`, which is relative, or absolute within the workspace.
    ///
    /// # Errors
    /// [`FileError::Outside`].
    pub fn place(&self, path: &str) -> Result<PathBuf, FileError> {
        let inside = Path::new(path).strip_prefix(&self.root).ok();
        let inside = match inside {
            Some(inside) => inside.to_str(),
            None if path.starts_with('/') && path != "/" => None,
            None => Some(path),
        };
        let relative = inside.and_then(files::relative);
        let relative = relative.ok_or_else(|| FileError::Outside(path.to_owned()))?;
        // Without a trailing slash.
        Ok(self
            .root
            .components()
            .chain(relative.components())
            .collect())
    }
}

impl FileKind {
    /// The kind of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            Self::Image("image/png")
        } else if bytes.starts_with(b"\xff\xd8\xff") {
            Self::Image("image/jpeg")
        } else if bytes.starts_with(b"GIF8") {
            Self::Image("image/gif")
        } else if bytes.get(8..12) == Some(b"WEBP") && bytes.starts_with(b"RIFF") {
            Self::Image("image/webp")
        } else if std::str::from_utf8(bytes).is_ok() && !bytes.contains(&0) {
            Self::Text
        } else {
            Self::Binary
        }
    }
}

/// Lines of a text from line `first` on, counted from 1; also the number of the last line returned, and the total.
pub fn lines_of(text: &str, first: usize, most: usize) -> (String, usize, usize) {
    let total = text.lines().count();
    let skipped = first.max(1) - 1;
    let mut shown = String::new();
    let mut last = skipped;
    for line in text.split_inclusive('\n').skip(skipped).take(most) {
        if shown.len() + line.len() > TEXT {
            break;
        }
        shown.push_str(line);
        last += 1;
    }
    if shown.is_empty() && skipped < total {
        // A single line that is too long: returns its beginning.
        let line = text.lines().nth(skipped).unwrap_or_default();
        shown = line.chars().take(TEXT / 4).collect();
        shown.push('…');
        last += 1;
    }
    (shown, last, total)
}

fn failed(path: &str, what: &'static str, error: io::Error) -> FileError {
    FileError::Io {
        path: path.to_owned(),
        what,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_code_may_not_change_programs_may_not_either() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let workspace = Workspace::new(&root, None);
        assert_eq!(workspace.write("a/b.txt", b"x").unwrap(), 1);
        let absolute = root.join("a/b.txt");
        assert_eq!(workspace.read(absolute.to_str().unwrap()).unwrap(), b"x");
        assert_eq!(workspace.list("/").unwrap().len(), 1);
        for path in ["", ".", "/"] {
            assert_eq!(workspace.place(path).unwrap().as_os_str(), root.as_os_str());
        }
        assert!(workspace.has("a/b.txt").unwrap());
        assert!(!workspace.has("a").unwrap());
        for (path, message) in [
            ("../x", "`../x` is not in the workspace"),
            ("/etc/passwd", "`/etc/passwd` is not in the workspace"),
            (
                ".git/hooks/pre-commit",
                "`.git/hooks/pre-commit` is read-only, as for code",
            ),
            ("a/.git/config", "`a/.git/config` is read-only, as for code"),
            ("SPONDE.md", "`SPONDE.md` is read-only, as for code"),
            (".mcp.json", "`.mcp.json` is read-only, as for code"),
        ] {
            assert_eq!(workspace.write(path, b"").unwrap_err().to_string(), message);
        }
        let level = LevelChoice::from(Level::ReadOnly);
        let workspace = Workspace::new(&root, Some(level));
        assert!(matches!(
            workspace.write("c", b""),
            Err(FileError::ReadOnly)
        ));
        assert_eq!(workspace.read("a/b.txt").unwrap(), b"x");
    }

    #[test]
    fn lines_are_counted_from_one() {
        let text = "a\nb\nc\n";
        assert_eq!(lines_of(text, 1, 9), (text.to_owned(), 3, 3));
        assert_eq!(lines_of(text, 2, 1), ("b\n".to_owned(), 2, 3));
        assert_eq!(lines_of(text, 9, 1), (String::new(), 8, 3));
        let long = "x".repeat(TEXT + 1);
        let (shown, last, total) = lines_of(&long, 1, 9);
        assert_eq!((shown.chars().count(), last, total), (TEXT / 4 + 1, 1, 1));
    }

    #[test]
    fn a_file_is_what_it_begins_with() {
        assert_eq!(FileKind::of(b"a,b\n1,2\n"), FileKind::Text);
        assert_eq!(
            FileKind::of(b"\x89PNG\r\n\x1a\nrest"),
            FileKind::Image("image/png")
        );
        assert_eq!(FileKind::of(b"PAR1\0\xff"), FileKind::Binary);
    }
}
