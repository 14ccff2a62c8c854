//! Lists files below a directory that a person may mean, nearest first.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Maximum files returned, and entries read.
const MOST: usize = 5000;
const LOOKED_AT: usize = 50_000;
/// Maximum depth of a file.
const DEEP: usize = 8;
/// Directories that programs use for themselves.
const NOT_MEANT: [&str; 5] = [
    "node_modules",
    "target",
    "__pycache__",
    "venv",
    "site-packages",
];

/// Paths relative to `dir`, without hidden ones; links are not followed.
pub fn files(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut looked_at = 0;
    let mut waiting = VecDeque::from([(PathBuf::new(), 0)]);
    while let Some((below, depth)) = waiting.pop_front() {
        let mut here = Vec::new();
        let entries = std::fs::read_dir(dir.join(&below)).into_iter().flatten();
        for entry in entries.flatten() {
            looked_at += 1;
            if looked_at > LOOKED_AT {
                return found;
            }
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let is_meant = !name.starts_with('.') && !NOT_MEANT.contains(&name.as_str());
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if is_meant && (kind.is_file() || kind.is_dir()) {
                here.push((kind.is_dir(), name));
            }
        }
        here.sort();
        for (is_dir, name) in here {
            let path = below.join(&name);
            if is_dir && depth < DEEP {
                waiting.push_back((path, depth + 1));
            } else if !is_dir {
                found.push(path.to_string_lossy().into_owned());
                if found.len() >= MOST {
                    return found;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn near_files_come_first_and_none_of_programs() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "b.csv",
            "a/z.csv",
            "a/b/c.csv",
            ".git/x",
            "node_modules/y.js",
            ".hidden",
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("..", dir.path().join("a/up")).unwrap();
        assert_eq!(files(dir.path()), ["b.csv", "a/z.csv", "a/b/c.csv"]);
    }
}
