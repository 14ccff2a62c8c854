//! Attachments to a question that are not files yet: stored in the workspace, where code can read them.

use std::io;
use std::path::{Path, PathBuf};

use super::files;

/// The directory for attachments, in the workspace.
const PLACE: &str = ".sponde/attachments";
/// Maximum characters of a name.
const NAME: usize = 80;
/// Maximum files with the same name.
const MOST: usize = 10_000;

/// Writes `bytes` as a new file of the workspace `directory`, hidden from Git, and returns its path.
///
/// # Errors
/// The operating system's error. Links are not followed.
pub fn keep(bytes: &[u8], name: &str, directory: &Path) -> io::Result<PathBuf> {
    let place = directory.join(PLACE);
    let ignore = directory.join(".sponde/.gitignore");
    if std::fs::symlink_metadata(&ignore).is_err() {
        files::write(&ignore, b"*\n")?;
    }
    let name = plain(name);
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, format!(".{ending}")),
        _ => (name.as_str(), String::new()),
    };
    for number in 1..=MOST {
        let file = match number {
            1 => format!("{stem}{ending}"),
            number => format!("{stem}-{number}{ending}"),
        };
        let path = place.join(file);
        if std::fs::symlink_metadata(&path).is_ok() {
            // The same picture in the next question reuses the file.
            if files::read(&path, bytes.len() as u64).is_ok_and(|it| it == bytes) {
                return Ok(path);
            }
            continue;
        }
        return files::write(&path, bytes).map(|_| path);
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A plain file name, not a path.
fn plain(name: &str) -> String {
    let fits = |c: &char| c.is_alphanumeric() || " ._-+()".contains(*c);
    let plain: String = name.chars().filter(fits).take(NAME).collect();
    match plain.trim_matches(['.', ' ']) {
        "" => "attachment".to_owned(),
        plain => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_stay_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let kept = |bytes: &[u8], name: &str| {
            let path = keep(bytes, name, &root).unwrap();
            path.strip_prefix(root.join(PLACE))
                .unwrap()
                .display()
                .to_string()
        };
        assert_eq!(kept(b"1", "a.png"), "a.png");
        assert_eq!(kept(b"2", "a.png"), "a-2.png");
        assert_eq!(kept(b"1", "a.png"), "a.png");
        assert_eq!(kept(b"1", "../../etc/passwd"), "etcpasswd");
        assert_eq!(kept(b"1", "/"), "attachment");
        assert_eq!(
            std::fs::read(root.join(".sponde/.gitignore")).unwrap(),
            b"*\n"
        );
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(&root, other.path().join(".sponde")).unwrap();
        assert!(keep(b"x", "a.png", &other.path().canonicalize().unwrap()).is_err());
    }
}
