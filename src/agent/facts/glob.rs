//! Paths by patterns: `*` and `?` in a name, `**` for any directories. Bounded, sorted, and never through links to directories.

use std::path::{Component, Path, PathBuf};

/// Files that a pattern may stand for.
const MOST: usize = 1_000;
/// Entries of directories that are looked at.
const LOOKED_AT: usize = 50_000;
/// How deep `**` goes.
const DEEPEST: usize = 8;

/// Whether a path is rather a pattern.
pub fn is_pattern(path: &Path) -> bool {
    path.as_os_str()
        .to_str()
        .is_some_and(|text| text.contains(['*', '?']))
}

/// The files that `pattern` stands for, relative to `cwd` where it is.
pub fn expand(pattern: &Path, cwd: &Path) -> Vec<PathBuf> {
    let (mut base, mut parts) = (PathBuf::new(), Vec::new());
    for component in pattern.components() {
        let is_plain = parts.is_empty() && !is_pattern(Path::new(component.as_os_str()));
        match component {
            Component::CurDir => {}
            _ if is_plain => base.push(component),
            _ => parts.push(component.as_os_str().to_string_lossy().into_owned()),
        }
    }
    let mut walk = Walk {
        cwd,
        found: Vec::new(),
        left: LOOKED_AT,
    };
    walk.look(&base, &parts, 0);
    walk.found.sort();
    walk.found.dedup();
    walk.found
}

struct Walk<'a> {
    cwd: &'a Path,
    found: Vec<PathBuf>,
    left: usize,
}

impl Walk<'_> {
    fn look(&mut self, dir: &Path, parts: &[String], depth: usize) {
        let Some((first, rest)) = parts.split_first() else {
            return;
        };
        if first == "**" {
            self.look(dir, rest, depth);
        }
        let Ok(entries) = std::fs::read_dir(self.cwd.join(dir)) else {
            return;
        };
        for entry in entries.flatten() {
            if self.left == 0 || self.found.len() >= MOST {
                return;
            }
            self.left -= 1;
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else {
                continue;
            };
            let name = name.to_string_lossy().into_owned();
            let is_hidden = name.starts_with('.') && !first.starts_with('.');
            if is_hidden || first != "**" && !matches(first, &name) {
                continue;
            }
            let path = dir.join(&name);
            if first == "**" {
                if kind.is_dir() && depth < DEEPEST {
                    self.look(&path, parts, depth + 1);
                }
            } else if rest.is_empty() {
                if !kind.is_dir() {
                    self.found.push(path);
                }
            } else if kind.is_dir() {
                self.look(&path, rest, depth);
            }
        }
    }
}

/// Whether a name fits a pattern: in time that grows with the product of their lengths, whatever they are.
fn matches(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    // Which beginnings of the name fit what was read of the pattern.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for wanted in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        for at in 0..=name.len() {
            let before = at.checked_sub(1);
            let char_before = before.and_then(|it| name.get(it));
            let fit = |it: Option<usize>, of: &[bool]| {
                it.and_then(|it| of.get(it)).copied().unwrap_or(false)
            };
            let is_fit = if wanted == '*' {
                fit(Some(at), &fits) || fit(before, &next)
            } else {
                fit(before, &fits) && char_before.is_some_and(|c| wanted == '?' || wanted == *c)
            };
            if let Some(slot) = next.get_mut(at) {
                *slot = is_fit;
            }
        }
        fits = next;
    }
    fits.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, fits) in [
            ("*.csv", "a.csv", true),
            ("*.csv", "a.csv.gz", false),
            ("a?c*", "abcd", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "a", false),
            ("é*", "été", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        let began = std::time::Instant::now();
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
        assert!(began.elapsed().as_secs() < 2);
    }

    #[test]
    fn files_are_found_by_patterns() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir_all(root.join("2024/q1/deep")).unwrap();
        std::fs::create_dir_all(root.join(".hidden")).unwrap();
        for name in [
            "a.csv",
            "b.csv",
            "c.txt",
            "2024/d.csv",
            "2024/q1/e.csv",
            "2024/q1/deep/f.csv",
            ".hidden/g.csv",
        ] {
            std::fs::write(root.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("2024/loop")).unwrap();
        let found = |pattern: &str| {
            let all = expand(Path::new(pattern), root);
            all.iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("*.csv"), ["a.csv", "b.csv"]);
        assert_eq!(found("./*/*.csv"), ["2024/d.csv"]);
        assert_eq!(found("2024/q?/*"), ["2024/q1/e.csv"]);
        assert_eq!(
            found("**/*.csv"),
            [
                "2024/d.csv",
                "2024/q1/deep/f.csv",
                "2024/q1/e.csv",
                "a.csv",
                "b.csv"
            ]
        );
        assert_eq!(found("*.parquet"), Vec::<String>::new());
        let absolute = root.join("*.txt").display().to_string();
        assert_eq!(found(&absolute), [root.join("c.txt").display().to_string()]);
    }
}
