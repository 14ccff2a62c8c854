//! The files of a running kernel: connection file, and a private directory for sockets. They go with it.
//!
//! When we are killed they stay behind, so the directory has an `owner` file that says whose they are; see
//! [`super::reap`].

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::KernelError;
use super::reap::{self, Owner, Running};
use crate::jupyter::connection::{ConnectionInfo, Transport};

/// The longest path a unix socket may have (`sun_path`, less the final NUL).
const MAX_SOCKET_PATH: usize = 107;
/// How the directories begin that hold sockets.
pub(super) const PREFIX: &str = "sponde-";
/// The file in there that says whose it is.
pub(super) const OWNER: &str = "owner";

/// The files of one connection to a kernel.
#[derive(Debug)]
pub(super) struct KernelFiles {
    pub(super) info: ConnectionInfo,
    pub(super) connection_file: PathBuf,
    /// 0700; holds the sockets of our guards, and those of the kernel if it is ours.
    socket_dir: PathBuf,
    /// Whether the connection file is ours to remove.
    ours: bool,
    /// Whether the files stay, because the kernel does.
    kept: bool,
}

/// A file or directory could not be made.
#[derive(Debug)]
pub(super) struct FilesError {
    path: PathBuf,
    error: std::io::Error,
}

impl FilesError {
    fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, error }
    }

    fn into_io(self) -> std::io::Error {
        std::io::Error::new(
            self.error.kind(),
            format!("`{}`: {}", self.path.display(), self.error),
        )
    }

    /// The same for the floors above.
    pub(super) fn of(self, kernel: &str) -> KernelError {
        KernelError::Prepare {
            kernel: kernel.to_owned(),
            reason: format!("`{}`: {}", self.path.display(), self.error),
        }
    }
}

impl KernelFiles {
    /// For a kernel that we start: a connection file (0600) in `runtime_dir`, over sockets in a directory of its own
    /// (0700) below `socket_root`, or over ports on loopback for a kernel that knows no other.
    pub(super) fn make(
        kernel: &str,
        transport: Transport,
        runtime_dir: &Path,
        socket_root: &Path,
    ) -> Result<Self, FilesError> {
        let id = uuid::Uuid::new_v4();
        let connection_file = runtime_dir.join(format!("kernel-{id}.json"));
        let socket_dir = socket_dir(socket_root, &connection_file)?;
        let key = uuid::Uuid::new_v4().to_string();
        let info = match transport {
            Transport::Ipc => {
                let prefix = socket_dir.join("k").to_string_lossy().into_owned();
                ConnectionInfo::ipc(prefix, key, kernel.to_owned())
            }
            Transport::Tcp => {
                let ports = free_ports().map_err(FilesError::at(Path::new("127.0.0.1")))?;
                ConnectionInfo::tcp(ports, key, kernel.to_owned())
            }
        };
        let files = Self {
            info,
            connection_file,
            socket_dir,
            ours: true,
            kept: false,
        };
        std::fs::create_dir_all(runtime_dir).map_err(FilesError::at(runtime_dir))?;
        serde_json::to_vec_pretty(&files.info)
            .map_err(std::io::Error::other)
            .and_then(|text| write_private(&files.connection_file, &text))
            .map_err(FilesError::at(&files.connection_file))?;
        Ok(files)
    }

    /// For a kernel that is there: only a directory for our guards.
    pub(super) fn beside(
        info: ConnectionInfo,
        connection_file: PathBuf,
        socket_root: &Path,
    ) -> Result<Self, FilesError> {
        let socket_dir = socket_dir(socket_root, Path::new(""))?;
        Ok(Self {
            info,
            connection_file,
            socket_dir,
            ours: false,
            kept: false,
        })
    }

    /// Those of a kernel that an earlier process has kept, with its own process; or why there are none.
    pub(super) fn adopt(
        connection_file: &Path,
        socket_root: &Path,
    ) -> Result<(Self, Running), String> {
        let (socket_dir, process) = reap::kept_at(connection_file, socket_root)?;
        let text = std::fs::read(connection_file).map_err(|error| error.to_string())?;
        let info = ConnectionInfo::parse(&text).map_err(|error| error.to_string())?;
        let files = Self {
            info,
            connection_file: connection_file.to_owned(),
            socket_dir,
            ours: true,
            kept: true,
        };
        // Where the guards of the process before us listened.
        let guards = files.guard_dir();
        let mut private = std::fs::DirBuilder::new();
        private.mode(0o700);
        std::fs::remove_dir_all(&guards)
            .and_then(|()| private.create(&guards))
            .map_err(|error| format!("`{}`: {error}", guards.display()))?;
        Ok((files, process))
    }

    /// Whether the files stay where they are when this is dropped.
    pub(super) fn keep(&mut self, keep: bool) {
        self.kept = keep;
    }

    /// Where a kernel that is kept writes what nobody reads.
    pub(super) fn log(&self) -> PathBuf {
        self.socket_dir.join("log")
    }

    /// Where our guards listen: out of the way of the kernel's own sockets.
    pub(super) fn guard_dir(&self) -> PathBuf {
        self.socket_dir.join("g")
    }

    /// Notes the kernel's process, so that it can be found when we are gone. Failing costs only that.
    pub(super) fn started(&self, pid: Option<u32>) {
        if let Some(owner) = Owner::current(&self.connection_file, pid, self.kept) {
            let _ = std::fs::write(self.socket_dir.join(OWNER), owner.to_json());
        }
    }
}

impl Drop for KernelFiles {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // Nothing of the person's is in there; what cannot be removed is reaped later.
        if self.ours {
            let _ = std::fs::remove_file(&self.connection_file);
        }
        let _ = std::fs::remove_dir_all(&self.socket_dir);
    }
}

/// A private directory (0700) for one socket of ours, which goes with it.
#[derive(Debug)]
pub(super) struct SocketDir(PathBuf);

impl SocketDir {
    pub(super) fn make(root: &Path) -> std::io::Result<Self> {
        socket_dir(root, Path::new(""))
            .map(Self)
            .map_err(FilesError::into_io)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.0.join("s")
    }

    /// Notes processes, so that they can be found when we are gone. Failing costs only that.
    pub(super) fn note_copies(&self, pids: impl Iterator<Item = u32>) {
        if let Some(owner) = Owner::of_copies(pids) {
            let _ = std::fs::write(self.0.join(OWNER), owner.to_json());
        }
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a file is named as Jupyter names connection files.
pub(super) fn is_connection_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("kernel-"))
        && path
            .extension()
            .is_some_and(|extension| extension == "json")
}

/// Ports that nobody had a moment ago; another program can still be faster than the kernel, which then does not start.
fn free_ports() -> std::io::Result<[u16; 5]> {
    let mut held = Vec::new();
    let mut ports = [0; 5];
    for port in &mut ports {
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn socket_dir(root: &Path, connection_file: &Path) -> Result<PathBuf, FilesError> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let dir = root.join(format!("{PREFIX}{}", id.get(..12).unwrap_or(&id)));
    // The longest path in there is that of a guard.
    if dir.as_os_str().len() + "/g/control".len() > MAX_SOCKET_PATH {
        let error = std::io::Error::other("path is too long for unix sockets");
        return Err(FilesError { path: dir, error });
    }
    let mut private = std::fs::DirBuilder::new();
    private.mode(0o700);
    private.create(&dir).map_err(FilesError::at(&dir))?;
    // First of all: a directory without an owner is nobody's and never reaped.
    let owner = Owner::current(connection_file, None, false);
    owner
        .map_or(Ok(()), |owner| {
            write_private(&dir.join(OWNER), owner.to_json().as_bytes())
        })
        .and_then(|()| private.create(dir.join("g")))
        .map_err(FilesError::at(&dir))?;
    Ok(dir)
}

fn write_private(path: &Path, text: &[u8]) -> std::io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(text)
}
