//! Kernels that somebody else started: found by their connection file, never ended by us.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::KernelError;
use super::file_names::is_connection_file;
use super::files::KernelFiles;
use super::host::Host;
use crate::jupyter::connection::{ConnectionInfo, Endpoint, Socket};
use crate::jupyter::message::Channel;

/// How to reach a running kernel.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// Its name for people: the kernelspec's, if the connection file has it.
    pub name: String,
    /// Its connection file, which is not removed.
    pub connection_file: PathBuf,
    /// Where short-lived directories for our own sockets go.
    pub socket_root: PathBuf,
    /// User name for message headers.
    pub username: String,
    /// How long the kernel may take to answer; a busy one answers late.
    pub ready_timeout: Duration,
}

/// Why a running kernel was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no connection file at all.
    #[error("there is no running kernel in `{}`", .dir.display())]
    None {
        /// The Jupyter runtime directory.
        dir: PathBuf,
    },
    /// No connection file matches.
    #[error("there is no connection file `{wanted}`, neither as a path nor in `{}`", .dir.display())]
    NoMatch {
        /// The requested name.
        wanted: String,
        /// The Jupyter runtime directory.
        dir: PathBuf,
    },
}

/// Finds the connection file for `wanted`, as `jupyter console --existing` does: a path, a file name in the runtime
/// directory, or part of one. Returns the newest if several match or `wanted` is `None`.
///
/// # Errors
/// [`FindError`].
pub fn find_connection_file(
    wanted: Option<&str>,
    runtime_dir: &Path,
) -> Result<PathBuf, FindError> {
    if let Some(path) = wanted.map(Path::new)
        && path.is_file()
    {
        return Ok(path.to_owned());
    }
    let mut files: Vec<(SystemTime, PathBuf)> = std::fs::read_dir(runtime_dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let fits = wanted.map_or_else(
                || is_connection_file(&entry.path()),
                |wanted| name.contains(wanted),
            );
            let written = entry.metadata().ok()?.modified().ok()?;
            (fits && entry.path().is_file()).then(|| (written, entry.path()))
        })
        .collect();
    files.sort();
    match (files.pop(), wanted) {
        (Some((_, newest)), _) => Ok(newest),
        (None, None) => Err(FindError::None {
            dir: runtime_dir.to_owned(),
        }),
        (None, Some(wanted)) => Err(FindError::NoMatch {
            wanted: wanted.to_owned(),
            dir: runtime_dir.to_owned(),
        }),
    }
}

/// Reads the connection file and creates a directory for our own sockets.
///
/// # Errors
/// [`KernelError::Prepare`].
pub(super) fn attach(options: &AttachOptions) -> Result<(KernelFiles, Host), KernelError> {
    let path = &options.connection_file;
    let failed = |reason: String| KernelError::Prepare {
        kernel: options.name.clone(),
        reason: format!("`{}`: {reason}", path.display()),
    };
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let info = ConnectionInfo::parse(&text).map_err(|error| failed(error.to_string()))?;
    // A running kernel is listening; files of kernels that have ended are often left behind.
    listens(&info.endpoint(Socket::Channel(Channel::Shell))).map_err(|error| {
        failed(format!(
            "no kernel listens there any more ({error}): it has ended, and the file can be removed"
        ))
    })?;
    let files = KernelFiles::beside(info, path.clone(), &options.socket_root)
        .map_err(|error| error.of(&options.name))?;
    Ok((files, Host::Attached))
}

/// Whether the endpoint accepts a connection. A kernel's I/O thread does so even while a cell runs.
fn listens(endpoint: &Endpoint) -> std::io::Result<()> {
    match endpoint {
        Endpoint::Ipc(path) => std::os::unix::net::UnixStream::connect(path).map(drop),
        Endpoint::Tcp(host, port) => std::net::TcpStream::connect((host.as_str(), *port)).map(drop),
    }
}
