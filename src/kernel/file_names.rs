//! Names of the files and directories that kernels are reached by.

use std::path::Path;

/// How the directories begin that hold sockets.
pub(super) const PREFIX: &str = "sponde-";
/// The file in there that says whose it is.
pub(super) const OWNER: &str = "owner";

/// Whether a file is named as Jupyter names connection files.
pub(super) fn is_connection_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("kernel-"))
        && path
            .extension()
            .is_some_and(|extension| extension == "json")
}
