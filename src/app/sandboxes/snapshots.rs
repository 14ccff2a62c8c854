//! Snapshots: a copy of a sandbox's files, from which others start. Kernels are not part of it.
//!
//! Code may change the files while they are copied, so no link is followed, and the copied amount is limited. Only we
//! can see the copy.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, FileTimes, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::files::{attributes, set_attributes};
use super::lock;
use super::machine::Dirs;
use crate::kernel::folder;

/// Maximum snapshots of a server.
const SNAPSHOTS: usize = 64;
/// Maximum bytes, number of files and directories, and depth of a snapshot.
const BYTES: u64 = 4 << 30;
const ENTRIES: usize = 100_000;
const DEPTH: usize = 64;
/// The suffix of each name.
pub(super) const TAG: &str = ":default";
/// Maximum characters of a name.
const NAME: usize = 64;

/// The description of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The id by which it is found.
    pub id: String,
    /// The program's name for it.
    pub name: Option<String>,
    /// The sandbox from which it was made.
    pub of: String,
}

/// Why a snapshot failed.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There are too many.
    #[error("the server keeps at most {SNAPSHOTS} snapshots: delete one")]
    TooMany,
    /// Its name is invalid.
    #[error("`{0}` is not a name for a snapshot: letters, digits, `-` and `_`, at most {NAME}")]
    Name(String),
    /// The sandbox has too many or too large files.
    #[error(
        "the sandbox's files are too large for a snapshot: at most {BYTES} bytes in {ENTRIES} files"
    )]
    TooLarge,
    /// A file could not be copied.
    #[error("the sandbox's files could not be copied: {0}")]
    Failed(#[from] io::Error),
}

/// The snapshots of a server.
pub(super) struct Snapshots {
    root: PathBuf,
    all: Mutex<BTreeMap<String, Arc<Snapshot>>>,
}

/// A snapshot. Its files are removed with its last user.
pub(super) struct Snapshot {
    info: SnapshotInfo,
    files: PathBuf,
}

impl Snapshots {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            all: Mutex::default(),
        }
    }

    /// Copies the files, which may take long.
    pub(super) fn copy(&self, from: &Dirs, info: SnapshotInfo) -> Result<Snapshot, SnapshotError> {
        let unique = uuid::Uuid::new_v4().simple().to_string();
        let files = self.root.join(unique);
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(&files)?;
        let files = files.canonicalize()?;
        let snapshot = Snapshot { info, files };
        let to = snapshot.dirs();
        let mut room = Room {
            bytes: BYTES,
            entries: ENTRIES,
        };
        for (from, to) in [(&from.home, &to.home), (&from.tmp, &to.tmp)] {
            private.create(to)?;
            copy(from, to, DEPTH, &mut room)?;
        }
        Ok(snapshot)
    }

    /// Stores the files of a sandbox, with a name if given; replaces an earlier snapshot of that name.
    pub(super) fn make(
        &self,
        from: &Dirs,
        of: &str,
        name: Option<String>,
    ) -> Result<SnapshotInfo, SnapshotError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let name = name.map(|it| it.strip_suffix(TAG).map_or(it.clone(), str::to_owned));
        if let Some(name) = &name
            && (name.is_empty() || name.len() > NAME || !name.chars().all(is_plain))
        {
            return Err(SnapshotError::Name(name.clone()));
        }
        let unique = || format!("s{}", uuid::Uuid::new_v4().simple());
        let id = name.clone().unwrap_or_else(unique) + TAG;
        self.check_room(&id)?;
        let of = of.to_owned();
        let info = SnapshotInfo { id, name, of };
        let made = Arc::new(self.copy(from, info.clone())?);
        let replaced = {
            // Others may have been added meanwhile.
            self.check_room(&info.id)?;
            lock(&self.all).insert(info.id.clone(), made)
        };
        drop(replaced);
        Ok(info)
    }

    fn check_room(&self, id: &str) -> Result<(), SnapshotError> {
        let all = lock(&self.all);
        if all.len() >= SNAPSHOTS && !all.contains_key(id) {
            return Err(SnapshotError::TooMany);
        }
        Ok(())
    }

    /// The snapshot that a template's name refers to.
    pub(super) fn get(&self, template: &str) -> Option<Arc<Snapshot>> {
        let all = lock(&self.all);
        let found = all.get(template);
        found
            .or_else(|| all.get(&format!("{template}{TAG}")))
            .cloned()
    }

    pub(super) fn list(&self) -> Vec<SnapshotInfo> {
        let all = lock(&self.all);
        all.values().map(|it| it.info.clone()).collect()
    }

    /// Returns `false` if there is no such snapshot.
    pub(super) fn delete(&self, id: &str) -> bool {
        let removed = {
            let mut all = lock(&self.all);
            let removed = all.remove(id);
            removed.or_else(|| all.remove(&format!("{id}{TAG}")))
        };
        removed.is_some()
    }

    pub(super) fn clear(&self) {
        drop(std::mem::take(&mut *lock(&self.all)));
        // This only removes an empty directory.
        let _ = std::fs::remove_dir(&self.root);
    }
}

impl Snapshot {
    fn dirs(&self) -> Dirs {
        Dirs {
            home: self.files.join("home"),
            tmp: self.files.join("tmp"),
        }
    }

    /// Copies its files into the directories of a new sandbox.
    pub(super) fn restore(&self, to: &Dirs) -> Result<(), SnapshotError> {
        let from = self.dirs();
        let mut room = Room {
            bytes: u64::MAX,
            entries: usize::MAX,
        };
        copy(&from.home, &to.home, DEPTH, &mut room)?;
        copy(&from.tmp, &to.tmp, DEPTH, &mut room)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        super::remove(&self.files);
    }
}

/// The remaining limits of a copy.
struct Room {
    bytes: u64,
    entries: usize,
}

/// Copies a directory's content: files, directories, and links as links. Skips sockets, pipes, devices, and entries
/// that vanish during the copy.
fn copy(from: &Path, to: &Path, depth: usize, room: &mut Room) -> Result<(), SnapshotError> {
    let depth = depth.checked_sub(1).ok_or(SnapshotError::TooLarge)?;
    for entry in folder::list(from)? {
        let name = entry?.file_name();
        room.entries = room.entries.checked_sub(1).ok_or(SnapshotError::TooLarge)?;
        let (from, to) = (from.join(&name), to.join(&name));
        match copy_entry(&from, &to, depth, room) {
            Err(SnapshotError::Failed(error)) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    Ok(())
}

fn copy_entry(from: &Path, to: &Path, depth: usize, room: &mut Room) -> Result<(), SnapshotError> {
    let at = folder::Folder::of(from)?;
    let found = std::fs::symlink_metadata(at.file())?;
    let kind = found.file_type();
    if kind.is_symlink() {
        let target = std::fs::read_link(at.file())?;
        std::os::unix::fs::symlink(target, to)?;
    } else if kind.is_dir() {
        DirBuilder::new().mode(0o700).create(to)?;
        copy(from, to, depth, room)?;
        // A directory without write permission could not be removed.
        let mode = found.mode() & 0o777 | 0o700;
        std::fs::set_permissions(to, Permissions::from_mode(mode))?;
    } else if kind.is_file() {
        let source = folder::open_file(from)?;
        let found = source.metadata()?;
        let mut target = OpenOptions::new();
        let mut target = target.write(true).create_new(true).mode(0o600).open(to)?;
        // It may grow while it is copied.
        let copied = io::copy(&mut source.take(room.bytes.saturating_add(1)), &mut target)?;
        room.bytes = room
            .bytes
            .checked_sub(copied)
            .ok_or(SnapshotError::TooLarge)?;
        set_attributes(&target, &attributes(&at.file()))?;
        target.set_permissions(Permissions::from_mode(found.mode() & 0o777))?;
        target.set_times(FileTimes::new().set_modified(found.modified()?))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_links_are_copied_as_they_are() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let dirs = |name: &str| {
            let root = root.join(name);
            let (home, tmp) = (root.join("home"), root.join("tmp"));
            std::fs::create_dir_all(&home).unwrap();
            std::fs::create_dir_all(&tmp).unwrap();
            Dirs { home, tmp }
        };
        let from = dirs("from");
        std::fs::create_dir_all(from.home.join("a/b")).unwrap();
        std::fs::write(from.home.join("a/b/run"), "one").unwrap();
        let mode = |mode| Permissions::from_mode(mode);
        std::fs::set_permissions(from.home.join("a/b/run"), mode(0o4755)).unwrap();
        std::fs::write(root.join("secret"), "ours").unwrap();
        std::os::unix::fs::symlink(root.join("secret"), from.home.join("link")).unwrap();
        std::os::unix::fs::symlink(&root, from.home.join("above")).unwrap();
        std::os::unix::net::UnixListener::bind(from.tmp.join("socket")).unwrap();

        let snapshots = Snapshots::new(root.join("snapshots"));
        let first = snapshots.make(&from, "i1", Some("x".to_owned())).unwrap();
        std::fs::write(from.home.join("a/b/run"), "two").unwrap();
        let to = dirs("to");
        snapshots.get("x").unwrap().restore(&to).unwrap();

        let copied = to.home.join("a/b/run");
        assert_eq!(std::fs::read_to_string(&copied).unwrap(), "one");
        assert_eq!(std::fs::metadata(&copied).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(
            std::fs::read_link(to.home.join("link")).unwrap(),
            root.join("secret")
        );
        assert_eq!(std::fs::read_link(to.home.join("above")).unwrap(), root);
        assert!(!to.tmp.join("socket").exists());
        assert_eq!(snapshots.list(), [first]);
        assert!(snapshots.delete("x:default") && !snapshots.delete("x"));
        snapshots.clear();
        assert!(!root.join("snapshots").exists());
    }

    #[test]
    fn a_name_is_no_path() {
        let root = tempfile::tempdir().unwrap();
        let snapshots = Snapshots::new(root.path().join("snapshots"));
        let from = Dirs {
            home: root.path().into(),
            tmp: root.path().into(),
        };
        for name in ["", "../x", "a/b", &"x".repeat(65)] {
            let first = snapshots.make(&from, "i1", Some(name.to_owned()));
            assert!(matches!(first, Err(SnapshotError::Name(_))), "{name}");
        }
    }
}
