//! Removes directories that code has written into.
//!
//! `std::fs::remove_dir_all` recurses for each level, and code can create enough levels to overflow the stack and crash
//! the process. Here deeper directories are first moved up, so that only two are open at a time at any depth.

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Most passes; each level of depth may take one. More are needed only if another process keeps writing.
const PASSES: usize = 1_000_000;
/// Name prefix of directories that were moved up.
const MOVED: &str = ".removed-";

/// Removes `path`, including all contents of a directory. Links are removed, not followed.
///
/// # Errors
/// The first error; `NotFound` if `path` does not exist.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    if !std::fs::symlink_metadata(path)?.is_dir() {
        return std::fs::remove_file(path);
    }
    let top = open(CWD, path)?;
    let mut moved = 0_u64;
    for _ in 0..PASSES {
        if !pass(&top, &mut moved)? {
            return std::fs::remove_dir(path);
        }
    }
    Err(io::Error::other("another program writes to it"))
}

/// Removes all files of `top` and its subdirectories, after moving the directories inside those up into `top`. Returns
/// whether `top` had any entries.
fn pass(top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    let mut had_any = false;
    for name in names(top)? {
        had_any = true;
        if is_removed(top, &name)? {
            continue;
        }
        let dir = open(top, &*name)?;
        for inner in names(&dir)? {
            if !is_removed(&dir, &inner)? {
                move_up(&dir, &inner, top, moved)?;
            }
        }
        match unlinkat(top, &*name, AtFlags::REMOVEDIR) {
            // The next pass handles what was written meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(had_any)
}

fn names(dir: &OwnedFd) -> io::Result<Vec<std::ffi::CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Removes `name` from `dir`. Returns false if it is a directory.
fn is_removed(dir: &OwnedFd, name: &std::ffi::CStr) -> io::Result<bool> {
    let removed = || match unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(error) => Err(error),
    };
    match removed() {
        // For a directory Linux returns the first error, other systems the second.
        Err(Errno::ISDIR | Errno::PERM) => match openat(dir, name, FLAGS, Mode::empty()) {
            Ok(_) | Err(Errno::ACCESS) => Ok(false),
            Err(_) => Err(Errno::PERM.into()),
        },
        Err(Errno::ACCESS) => {
            fchmod(dir, Mode::RWXU)?;
            Ok(removed().or_else(|error| match error {
                Errno::ISDIR | Errno::PERM => Ok(false),
                other => Err(other),
            })?)
        }
        other => Ok(other?),
    }
}

fn move_up(
    from: &OwnedFd,
    name: &std::ffi::CStr,
    top: &OwnedFd,
    moved: &mut u64,
) -> io::Result<()> {
    let mut may_again = true;
    loop {
        *moved += 1;
        match renameat(from, name, top, format!("{MOVED}{moved}")) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // The name is already in use.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => {}
            // Moving it changes its `..`, so it must be writable too.
            Err(Errno::ACCESS) if may_again => {
                may_again = false;
                fchmod(from, Mode::RWXU)?;
                permit(from, name)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

fn open(dir: impl rustix::fd::AsFd, name: impl rustix::path::Arg + Copy) -> io::Result<OwnedFd> {
    match openat(&dir, name, FLAGS, Mode::empty()) {
        Err(Errno::ACCESS) => {
            permit(&dir, name)?;
            Ok(openat(&dir, name, FLAGS, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Restores our access to a directory whose permissions code may have removed; never follows a link.
#[cfg(target_os = "linux")]
fn permit(dir: impl rustix::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(dir, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(rustix::fs::chmod(path, Mode::RWXU)?)
}

/// The same on systems where a directory cannot be opened without access rights.
#[cfg(not(target_os = "linux"))]
fn permit(dir: impl rustix::fd::AsFd, name: impl rustix::path::Arg) -> io::Result<()> {
    Ok(rustix::fs::chmodat(
        dir,
        name,
        Mode::RWXU,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn depth_links_and_missing_rights_are_no_hindrance() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        std::fs::create_dir_all(tree.join("a/b")).unwrap();
        std::fs::create_dir_all(outside.join("kept")).unwrap();
        for file in ["x", "a/y", "a/b/z", ".removed-1", ".removed-2"] {
            std::fs::write(tree.join(file), "").unwrap();
        }
        std::os::unix::fs::symlink(&outside, tree.join("a/link")).unwrap();
        // Far deeper than the longest path and the call stack allow.
        let mut deepest = open(CWD, &*tree).unwrap();
        for _ in 0..20_000 {
            rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
            deepest = open(&deepest, "d").unwrap();
        }
        for shut in ["a/b", "a"] {
            let none = std::fs::Permissions::from_mode(0o0);
            std::fs::set_permissions(tree.join(shut), none).unwrap();
        }
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("kept").exists());
        std::os::unix::fs::symlink(&outside, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(outside.join("kept").exists());
        let gone = remove_tree(&tree).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }
}
