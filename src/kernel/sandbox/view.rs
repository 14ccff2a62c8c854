//! The paths that a confined kernel sees.

use std::path::PathBuf;

/// The paths that one kernel sees. Each exists, and a longer path overrides a shorter one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct View {
    /// Readable trees.
    pub(super) readable: Vec<PathBuf>,
    /// Writable trees.
    pub(super) writable: Vec<PathBuf>,
    /// Inside of `writable`: read-only.
    pub(super) protected: Vec<PathBuf>,
    /// Inside of `writable`: cannot be moved, so that protected or hidden paths below stay where they are.
    pub(super) pinned: Vec<PathBuf>,
    /// Inside of trees: shown empty.
    pub(super) hidden: Vec<PathBuf>,
    /// Files of the home directory that save time and reveal nothing, with their paths in the kernel's own home.
    pub(super) seeds: Vec<(PathBuf, PathBuf)>,
    /// Variables that locate the user's libraries.
    pub(super) env: Vec<(String, String)>,
}
