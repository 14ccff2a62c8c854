//! Atomic file writes: temporary file, fsync, rename.

use std::io;
use std::path::Path;

use crate::kernel::folder::Folder;

/// Replaces `path` with `bytes`; a reader sees the old or the new content, never a part. Keeps the permissions of an
/// existing file; follows a symlink.
///
/// # Errors
/// I/O errors; the old file is then untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// Like [`write_atomically`], with content that `write` produces.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_atomically_with(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace_atomically(&target, write)
}

/// Like [`write_atomically_with`], where a kernel's code may have created links: none is followed. `path` was
/// [`resolved`] before code ran.
///
/// # Errors
/// As [`write_atomically`], also if a link is in the way.
///
/// [`resolved`]: crate::kernel::folder::resolved
pub fn write_beside_code(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let folder = Folder::of(path)?;
    replace_atomically(&folder.file(), write)
}

/// Replaces the file `target`, or the link of that name: other names of the file, hard links as well, keep its content.
///
/// # Errors
/// As [`write_atomically`].
pub fn replace_atomically(
    target: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let dir = match target.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    if target.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a file name",
        ));
    }
    // A short name: the file's own may already have the maximum length.
    let temporary = dir.join(format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = (|| {
        let mut file = std::fs::File::create_new(&temporary)?;
        // A link is replaced, and its permissions are not copied.
        if let Ok(metadata) = std::fs::symlink_metadata(target)
            && metadata.is_file()
        {
            file.set_permissions(metadata.permissions())?;
        }
        let mut buffered = io::BufWriter::new(&mut file);
        write(&mut buffered)?;
        io::Write::flush(&mut buffered)?;
        drop(buffered);
        file.sync_all()?;
        std::fs::rename(&temporary, target)?;
        sync_directory(dir);
        Ok(())
    })();
    if written.is_err() {
        // The first error is the one to report.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Without this, a power failure may bring the old name back. The content is on disk either way, so a file system that
/// cannot sync a directory is not an error.
fn sync_directory(dir: &Path) {
    if let Err(error) = std::fs::File::open(dir).and_then(|dir| dir.sync_all()) {
        tracing::debug!(dir = %dir.display(), %error, "the directory is not synced");
    }
}

#[cfg(test)]
mod tests {
    use super::{replace_atomically, write_atomically};

    #[test]
    fn replaces_or_leaves_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.ipynb");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        let names: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a.ipynb"]);
        assert!(write_atomically(&dir.path().join("none/a.ipynb"), b"x").is_err());
        assert!(write_atomically(dir.path(), b"x").is_err());
    }

    #[test]
    fn another_name_of_a_replaced_file_keeps_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let [cache, hard, soft] = ["cache", "hard", "soft"].map(|name| dir.path().join(name));
        std::fs::write(&cache, "one").unwrap();
        std::fs::hard_link(&cache, &hard).unwrap();
        std::os::unix::fs::symlink(&cache, &soft).unwrap();
        for path in [hard, soft] {
            replace_atomically(&path, |file| file.write_all(b"two")).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"two");
            assert_eq!(std::fs::read(&cache).unwrap(), b"one");
        }
    }
}
