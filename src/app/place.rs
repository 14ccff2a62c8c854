//! Where and when a session is: its directory, the day and the time, the directory of its pictures.

use std::path::{Path, PathBuf};

use super::Context;
use crate::error::Failure;

/// The directory the kernel works in.
///
/// # Errors
/// It is gone, or cannot be read.
pub fn current_dir(context: &Context) -> Result<PathBuf, Failure> {
    let here = context.paths.environment.cwd().map(Path::to_owned);
    here.ok_or_else(|| Failure::usage("the current directory cannot be used: is it still there?"))
}

/// The day, as ids of sessions have it.
pub fn today() -> String {
    jiff::Zoned::now().strftime("%Y%m%d").to_string()
}

/// The time, as journals have it.
pub fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Where the plots of a notebook are written as files.
pub fn pictures_dir(notebook: &Path) -> PathBuf {
    let stem = notebook
        .file_stem()
        .map_or_else(|| "notebook".into(), |stem| stem.to_string_lossy());
    notebook.with_file_name(format!("{stem}_files"))
}
