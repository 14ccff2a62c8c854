//! Kernels that somebody else has started: found by their connection file, never ended by us.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::KernelError;
use super::file_names::is_connection_file;
use super::files::KernelFiles;
use super::host::Host;
use crate::jupyter::connection::{ConnectionInfo, Endpoint, Socket};
use crate::jupyter::message::Channel;

/// Which running kernel to use.
#[derive(Debug, Clone)]
pub struct AttachOptions {
    /// Its name, for people; the kernelspec's, where the connection file says so.
    pub name: String,
    /// Its connection file; it is not removed.
    pub connection_file: PathBuf,
    /// Where short-lived directories for our own sockets may be made.
    pub socket_root: PathBuf,
    /// Name of the person, for message headers.
    pub username: String,
    /// How long the kernel may take until it answers; one that is busy answers late.
    pub ready_timeout: Duration,
}

/// Why a running kernel was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// No connection file at all.
    #[error("there is no running kernel in `{}`", .dir.display())]
    None {
        /// The Jupyter runtime directory.
        dir: PathBuf,
    },
    /// None that matches.
    #[error("there is no connection file `{wanted}`, neither as a path nor in `{}`", .dir.display())]
    NoMatch {
        /// What was asked for.
        wanted: String,
        /// The Jupyter runtime directory.
        dir: PathBuf,
    },
}

/// The connection file that `wanted` means, as `jupyter console --existing` reads it: a path, a file name in the
/// runtime directory, or a part of one; the newest where several fit or nothing is named.
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

/// Reads the connection file and makes room for our own sockets.
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
    // A kernel that runs listens already; files of those that have ended stay behind everywhere.
    listens(&info.endpoint(Socket::Channel(Channel::Shell))).map_err(|error| {
        failed(format!(
            "no kernel listens there any more ({error}): it has ended, and the file can be removed"
        ))
    })?;
    let files = KernelFiles::beside(info, path.clone(), &options.socket_root)
        .map_err(|error| error.of(&options.name))?;
    Ok((files, Host::Attached))
}

/// Whether anybody accepts a connection, which a kernel's io thread does also while a cell runs.
fn listens(endpoint: &Endpoint) -> std::io::Result<()> {
    match endpoint {
        Endpoint::Ipc(path) => std::os::unix::net::UnixStream::connect(path).map(drop),
        Endpoint::Tcp(host, port) => std::net::TcpStream::connect((host.as_str(), *port)).map(drop),
    }
}
