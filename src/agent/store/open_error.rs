//! Why a session cannot be opened.

use std::io;
use std::path::PathBuf;

use crate::session::journal::VERSION;

/// Why a session cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("session `{id}` is open in another process{}", .pid.map(|pid| format!(" ({pid})")).unwrap_or_default())]
    Taken {
        /// Its id.
        id: String,
        /// That process's id, if known.
        pid: Option<u32>,
    },
    /// It has no journal.
    #[error("there is no journal `{}`", .0.display())]
    NoJournal(PathBuf),
    /// It was written by a later version of Sponde.
    #[error(
        "session `{id}` was written by a newer sponde (journal version {version}, this one knows {VERSION})"
    )]
    Newer {
        /// Its id.
        id: String,
        /// The version of its journal.
        version: u32,
    },
    /// Its files cannot be read or written.
    #[error("could not open `{}`: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}
