//! `SPONDE.md`, a project's instructions to the model, and `.mcp.json`, its MCP servers; and whether the person trusts
//! them.
//!
//! Instructions become part of the system prompt and servers are programs that are started, so whoever can write these
//! files can steer the model or run programs. A file is used only after a person has read and accepted exactly these
//! bytes at this path. Decisions are kept in the state directory, one per line, and the last one counts; a changed file
//! needs a new decision. The text that was shown is used, not the file's later content.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Name of the instructions file.
pub const FILE: &str = "SPONDE.md";
/// Name of the MCP servers file, which other programs read too.
pub const SERVERS: &str = ".mcp.json";
/// Maximum bytes of a file: instructions are sent with every request.
pub const LARGEST: u64 = 16 << 10;
/// Maximum directories searched upwards.
const DEEPEST: usize = 32;

/// A file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// The file's path, with links resolved.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    /// SHA-256 of its bytes in hexadecimal.
    pub sha256: String,
}

/// Why an existing file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// It cannot be read as text.
    #[error("could not read `{}`: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// It is too long to send with every request.
    #[error("`{}` has more than {} kB", .path.display(), LARGEST >> 10)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

/// A person's decision about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Use it.
    Trusted,
    /// Ignore it.
    Refused,
    /// No decision yet.
    Unknown,
}

/// The file `name` for work in `dir`: in `dir` itself, or in the nearest directory above, up to the repository's root.
/// `None` if there is none, or if it is empty.
///
/// # Errors
/// [`ProjectError`].
pub fn find(dir: &Path, name: &str) -> Result<Option<Project>, ProjectError> {
    let root = dir
        .ancestors()
        .take(DEEPEST)
        .find(|dir| dir.join(".git").exists())
        // Outside a repository, directories above do not belong to the project.
        .unwrap_or(dir);
    for above in dir.ancestors().take(DEEPEST) {
        let path = above.join(name);
        // Directories and pipes do not count.
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.is_file()) {
            return read(&path).map(|project| Some(project).filter(|it| !it.text.is_empty()));
        }
        if above == root {
            break;
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Project, ProjectError> {
    let unreadable = |source| ProjectError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let path = path.canonicalize().map_err(unreadable)?;
    let mut text = String::new();
    let length = std::fs::File::open(&path)
        .and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    if length as u64 > LARGEST {
        return Err(ProjectError::TooLarge { path });
    }
    let mut sha256 = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        use std::fmt::Write as _;
        let _ = write!(sha256, "{byte:02x}");
    }
    Ok(Project {
        path,
        text: text.trim().to_owned(),
        sha256,
    })
}

/// The person's recorded decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted {
    file: PathBuf,
}

/// A line of the decisions file.
#[derive(Debug, Serialize, Deserialize)]
struct Decided {
    path: PathBuf,
    sha256: String,
    trusted: bool,
}

impl Trusted {
    /// The decisions kept in the directory `state`.
    pub fn in_dir(state: &Path) -> Self {
        Self {
            file: state.join("projects.jsonl"),
        }
    }

    /// The decision about `project` with its current content.
    pub fn of(&self, project: &Project) -> Trust {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let last = text
            .lines()
            // Skip torn lines.
            .filter_map(|line| serde_json::from_str::<Decided>(line).ok())
            .rfind(|decided| decided.path == project.path && decided.sha256 == project.sha256);
        match last {
            Some(Decided { trusted: true, .. }) => Trust::Trusted,
            Some(Decided { trusted: false, .. }) => Trust::Refused,
            None => Trust::Unknown,
        }
    }

    /// Records a decision.
    ///
    /// # Errors
    /// Errors of writing the file.
    pub fn decide(&self, project: &Project, trusted: bool) -> std::io::Result<()> {
        if let Some(dir) = self.file.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let decided = Decided {
            path: project.path.clone(),
            sha256: project.sha256.clone(),
            trusted,
        };
        let line = serde_json::to_string(&decided)? + "\n";
        // A line is a single write, so concurrent sessions do not mix theirs.
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.file)?
            .write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_those_of_the_nearest_directory_of_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let inner = top.join("repo/data/raw");
        std::fs::create_dir_all(&inner).unwrap();
        let write = |path: &str, text: &str| std::fs::write(top.join(path), text).unwrap();
        write(FILE, "above");
        let found = |dir: &Path| find(dir, FILE).unwrap().map(|project| project.text);
        // Above the directory, and not part of its project.
        assert_eq!(found(&inner), None);
        assert_eq!(found(&top).as_deref(), Some("above"));
        std::fs::create_dir(top.join("repo/.git")).unwrap();
        assert_eq!(found(&inner), None);
        write("repo/SPONDE.md", " Use euros.\n");
        assert_eq!(found(&inner).as_deref(), Some("Use euros."));
        write("repo/data/SPONDE.md", "\n");
        assert_eq!(found(&inner), None);
        std::fs::remove_file(top.join("repo/data/SPONDE.md")).unwrap();
        std::fs::create_dir(top.join("repo/data/SPONDE.md")).unwrap();
        assert_eq!(found(&inner).as_deref(), Some("Use euros."));
        std::fs::write(top.join("repo/SPONDE.md"), "x".repeat(17 << 10)).unwrap();
        assert!(matches!(
            find(&inner, FILE),
            Err(ProjectError::TooLarge { .. })
        ));
        std::fs::write(top.join("repo/SPONDE.md"), [0xff]).unwrap();
        assert!(matches!(
            find(&inner, FILE),
            Err(ProjectError::Unreadable { .. })
        ));
    }

    #[test]
    fn trust_is_for_these_bytes_at_this_place() {
        let dir = tempfile::tempdir().unwrap();
        let trusted = Trusted::in_dir(&dir.path().join("state"));
        let write = |text: &str| {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            find(dir.path(), FILE).unwrap().unwrap()
        };
        let project = write("a");
        assert_eq!(trusted.of(&project), Trust::Unknown);
        trusted.decide(&project, true).unwrap();
        assert_eq!(trusted.of(&project), Trust::Trusted);
        let changed = write("b");
        assert_eq!(trusted.of(&changed), Trust::Unknown);
        trusted.decide(&changed, false).unwrap();
        assert_eq!(trusted.of(&changed), Trust::Refused);
        trusted.decide(&changed, true).unwrap();
        assert_eq!(trusted.of(&changed), Trust::Trusted);
        let elsewhere = Project {
            path: PathBuf::from("/elsewhere/SPONDE.md"),
            ..project
        };
        assert_eq!(trusted.of(&elsewhere), Trust::Unknown);
    }
}
