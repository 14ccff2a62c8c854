//! Names of kernels' files and directories.

use std::path::Path;

/// Prefix of socket directories.
pub(super) const PREFIX: &str = "sponde-";
/// The file in such a directory that names its owner.
pub(super) const OWNER: &str = "owner";

/// Whether a file is named like a Jupyter connection file.
pub(super) fn is_connection_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("kernel-"))
        && path
            .extension()
            .is_some_and(|extension| extension == "json")
}
