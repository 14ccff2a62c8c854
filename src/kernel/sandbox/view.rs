//! The paths that a confined kernel sees.

use std::path::PathBuf;

/// The paths that one kernel sees. Each exists, and a longer path stands above a shorter one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    /// Trees to read.
    pub(super) readable: Vec<PathBuf>,
    /// Trees to write.
    pub(super) writable: Vec<PathBuf>,
    /// Inside of `writable`: read-only.
    pub(super) protected: Vec<PathBuf>,
    /// Inside of `writable`: cannot be moved away, so that what is protected or hidden below stays where it is.
    pub(super) pinned: Vec<PathBuf>,
    /// Inside of trees: empty.
    pub(super) hidden: Vec<PathBuf>,
    /// Files of the home directory that save time and tell nothing, with where they are in the kernel's own home.
    pub(super) seeds: Vec<(PathBuf, PathBuf)>,
    /// Variables that say where libraries of the person are.
    pub(super) env: Vec<(String, String)>,
}
