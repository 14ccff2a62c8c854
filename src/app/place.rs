//! The place and time of a session: its directory, the date and time, the directory of its pictures.

use std::path::{Path, PathBuf};

use super::Context;
use crate::error::Failure;

/// The directory in which the kernel works.
///
/// # Errors
/// It no longer exists, or cannot be read.
pub fn current_dir(context: &Context) -> Result<PathBuf, Failure> {
    let here = context.paths.environment.cwd().map(Path::to_owned);
    here.ok_or_else(|| Failure::usage("the current directory cannot be used: is it still there?"))
}

/// The date in the format of session ids.
pub fn today() -> String {
    jiff::Zoned::now().strftime("%Y%m%d").to_string()
}

/// The time in the format of journals.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// The directory for a notebook's plots.
pub fn pictures_dir(notebook: &Path) -> PathBuf {
    let stem = notebook
        .file_stem()
        .map_or_else(|| "notebook".into(), |stem| stem.to_string_lossy());
    notebook.with_file_name(format!("{stem}_files"))
}
