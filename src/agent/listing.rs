//! Lists a directory that a kernel's code can change. Paths cannot leave it: they contain no `..`, and links are not
//! followed ([`folder`]).

use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::query::{EntryKind, FileEntry};
use crate::kernel::folder;

/// Maximum entries of a listing.
const ENTRIES: usize = 10_000;

/// The entries of a directory, sorted by name; at most 10,000.
///
/// # Errors
/// Errors of reading it.
pub fn entries(dir: &Path) -> io::Result<Vec<FileEntry>> {
    let mut entries = Vec::new();
    for entry in folder::list(dir)?.take(ENTRIES) {
        let entry = entry?;
        // An entry removed in the meantime is skipped.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        // A name that is not Unicode cannot be requested.
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => EntryKind::Directory,
            kind if kind.is_file() => EntryKind::File,
            kind if kind.is_symlink() => EntryKind::Link,
            _ => EntryKind::Other,
        };
        entries.push(FileEntry {
            name,
            kind,
            bytes: metadata.len(),
            modified: metadata.modified().ok().and_then(iso),
        });
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// `path` as a relative path; `None` if it could leave the directory.
pub fn relative(path: &str) -> Option<PathBuf> {
    let path = Path::new(path.trim_matches('/'));
    let is_down = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
    let text = path.to_str().unwrap_or_default();
    (path.components().all(is_down) && !text.contains('\0')).then(|| {
        let steps = path.components();
        steps
            .filter(|it| matches!(it, Component::Normal(_)))
            .collect()
    })
}

/// A time in ISO 8601.
pub fn iso(time: SystemTime) -> Option<String> {
    let time = jiff::Timestamp::try_from(time).ok()?;
    Some(time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_only_lead_down() {
        for (path, expected) in [
            ("", Some("")),
            ("/", Some("")),
            ("a", Some("a")),
            ("/a/b/", Some("a/b")),
            ("./a/./b", Some("a/b")),
            ("a..b/..c", Some("a..b/..c")),
            ("..", None),
            ("a/../b", None),
            ("a/..", None),
            ("a\0b", None),
        ] {
            let found = relative(path);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{path}");
        }
    }
}
