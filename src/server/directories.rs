//! Resolves paths that clients send: none leads out of the server's directory.

use std::path::{Path, PathBuf};

use super::problem::Problem;

/// The directory of a session: `named` is relative to `root`, or absolute and below it.
pub(super) fn of_session(root: &Path, named: Option<&str>) -> Result<PathBuf, Problem> {
    let Some(named) = named else {
        return Ok(root.to_owned());
    };
    let path = below(root, root, named)?;
    if path.is_dir() {
        Ok(path)
    } else {
        Err(Problem::bad_request(format!(
            "`{named}` is not a directory"
        )))
    }
}

/// Resolves `named` relative to `from`, without links. The parent of a missing path must exist.
pub(super) fn below(root: &Path, from: &Path, named: &str) -> Result<PathBuf, Problem> {
    let outside = || Problem::forbidden(format!("`{named}` is not in the server's directory"));
    if named.contains('\0') {
        return Err(outside());
    }
    let path = from.join(named);
    let resolved = match path.canonicalize() {
        Ok(path) => path,
        Err(_) => match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => {
                // A dangling link would be followed by a write.
                let is_link = path.symlink_metadata().is_ok();
                let parent = parent.canonicalize().ok().filter(|_| !is_link);
                parent.ok_or_else(outside)?.join(name)
            }
            _ => return Err(outside()),
        },
    };
    if resolved.starts_with(root) {
        Ok(resolved)
    } else {
        Err(outside())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let root = dir.join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::create_dir(dir.join("root2")).unwrap();
        std::os::unix::fs::symlink("..", root.join("up")).unwrap();
        std::os::unix::fs::symlink("../none", root.join("dangling")).unwrap();
        let of = |named: &str| of_session(&root, Some(named)).ok();
        assert_eq!(of_session(&root, None).ok(), Some(root.clone()));
        assert_eq!(of("sub"), Some(root.join("sub")));
        assert_eq!(of("sub/../sub/"), Some(root.join("sub")));
        assert_eq!(of(root.to_str().unwrap()), Some(root.clone()));
        for bad in ["..", "/", "../root2", "up", "up/root2", "none", "a\0b"] {
            assert_eq!(of(bad), None, "{bad}");
        }
        let below = |named: &str| below(&root, &root.join("sub"), named).ok();
        assert_eq!(below("new.ipynb"), Some(root.join("sub/new.ipynb")));
        assert_eq!(below("../new.ipynb"), Some(root.join("new.ipynb")));
        for bad in ["../../new", "../up/new", "../dangling", "no/such", ".."] {
            let is_root = bad == "..";
            assert_eq!(below(bad).is_some(), is_root, "{bad}");
        }
    }
}
