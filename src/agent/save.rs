//! Writing a file so that it is whole at every instant: temporary file, fsync, rename.

use std::io;
use std::path::Path;

use crate::kernel::folder::Folder;

/// Replaces `path` by `bytes`; anyone who reads it sees the old content or the new, never a part. Permissions of an
/// existing file are kept; a symlink is followed.
///
/// # Errors
/// What the operating system said; the old file is then untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// The same with what `write` writes.
///
/// # Errors
/// As [`write_atomically`].
pub fn write_atomically_with(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace(&target, write)
}

/// The same where code of a kernel may have put links: none is followed. `path` is as [`resolved`] before code ran.
///
/// # Errors
/// As [`write_atomically`]; also that a link is in the way.
///
/// [`resolved`]: crate::kernel::folder::resolved
pub fn write_beside_code(
    path: &Path,
    write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    let folder = Folder::of(path)?;
    replace(&folder.file(), write)
}

fn replace(
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
    // A short name: that of the file may be as long as names can be.
    let temporary = dir.join(format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = (|| {
        let mut file = std::fs::File::create_new(&temporary)?;
        // A link is replaced, and says nothing of permissions.
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
        // The first error says what went wrong.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}

/// Without it the old name may be back after a loss of power. The new content is there either way, and a file system
/// that cannot do this is no reason to fail.
fn sync_directory(dir: &Path) {
    if let Err(error) = std::fs::File::open(dir).and_then(|dir| dir.sync_all()) {
        tracing::debug!(dir = %dir.display(), %error, "the directory is not synced");
    }
}

#[cfg(test)]
mod tests {
    use super::write_atomically;

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
}
