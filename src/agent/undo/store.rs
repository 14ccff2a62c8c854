//! Content-addressed file copies: equal content is stored once, however many files and moments refer to it.

use crate::kernel::remove_tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Bytes per read.
const BLOCK: usize = 256 << 10;

/// SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hash([u8; 32]);

/// The directory with the copies. Removed on drop.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    kept: BTreeMap<Hash, u64>,
}

impl Store {
    /// An empty store at `dir`, which is created with the first copy.
    pub(super) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            kept: BTreeMap::new(),
        }
    }

    /// Bytes of all copies.
    pub(super) fn bytes(&self) -> u64 {
        self.kept.values().sum()
    }

    /// Copies `file` from its current position.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn keep(&mut self, file: &mut File) -> io::Result<Hash> {
        make_private_dir(&self.dir)?;
        let temporary = self.dir.join("new");
        // A leftover of a failed copy.
        let _ = std::fs::remove_file(&temporary);
        let mut copy = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        let (hash, bytes) = hash(file, |block| copy.write_all(block))?;
        if self.kept.contains_key(&hash) {
            std::fs::remove_file(&temporary)?;
        } else {
            std::fs::rename(&temporary, self.path(&hash))?;
            self.kept.insert(hash, bytes);
        }
        Ok(hash)
    }

    /// Opens the copy with this content.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn open(&self, hash: &Hash) -> io::Result<File> {
        File::open(self.path(hash))
    }

    /// Removes all other copies.
    pub(super) fn retain(&mut self, wanted: &BTreeSet<Hash>) {
        let gone: Vec<Hash> = self
            .kept
            .keys()
            .filter(|it| !wanted.contains(it))
            .copied()
            .collect();
        for hash in gone {
            let _ = std::fs::remove_file(self.path(&hash));
            self.kept.remove(&hash);
        }
    }

    fn path(&self, hash: &Hash) -> PathBuf {
        let mut name = String::with_capacity(64);
        for byte in hash.0 {
            let _ = write!(name, "{byte:02x}");
        }
        self.dir.join(name)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = remove_tree(&self.dir);
    }
}

/// The hash of `file` from its current position.
///
/// # Errors
/// I/O errors.
pub(super) fn hash_of(file: &mut File) -> io::Result<Hash> {
    Ok(hash(file, |_| Ok(()))?.0)
}

fn hash(file: &mut File, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<(Hash, u64)> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; BLOCK];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        let block = buffer.get(..read).unwrap_or_default();
        if block.is_empty() {
            return Ok((Hash(hasher.finalize().into()), bytes));
        }
        hasher.update(block);
        each(block)?;
        bytes += read as u64;
    }
}

/// Creates a directory that only this user can access, and its ancestors.
///
/// # Errors
/// I/O errors.
pub(in crate::agent) fn make_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}
