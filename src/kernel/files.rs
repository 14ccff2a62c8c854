//! The files of a running kernel: its connection file and a private directory for sockets. They are removed with it.
//!
//! If we are killed they stay behind, so an `owner` file in the directory names the owning process; see
//! [`super::reap`].

use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags};

use super::KernelError;
use super::file_names::{OWNER, PREFIX};
use super::reap::{self, Owner, Running};
use super::remove::remove_tree;
use super::sandbox::{Confinement, Gate, Network};
use crate::jupyter::connection::{ConnectionInfo, Transport};

/// The longest path a unix socket may have (`sun_path`, less the final NUL).
const MAX_SOCKET_PATH: usize = 107;
/// Subdirectory for the kernel's own sockets.
const SHARED: &str = "k";
/// Subdirectory for the network gate of a confined kernel.
const GATE: &str = "n";
/// Subdirectory for the gVisor bundle.
const BUNDLE: &str = "v";
/// The longest path below the directory.
const LONGEST: &str = "/k/w9999/k-5";

/// The files of one connection to a kernel.
#[derive(Debug)]
pub(super) struct KernelFiles {
    /// How we reach the kernel.
    pub(super) info: ConnectionInfo,
    pub(super) connection_file: PathBuf,
    /// Connection file that a confined kernel reads.
    own_file: Option<PathBuf>,
    /// The ports of a kernel that supports only TCP.
    ports: Option<[u16; 5]>,
    dir: Arc<PrivateDir>,
    /// Where our guards listen: apart from the kernel's own sockets, and out of reach of a confined kernel.
    guards: PathBuf,
    /// Whether the connection file is ours to remove.
    ours: bool,
    /// Whether the files stay, because the kernel keeps running.
    kept: bool,
}

/// A directory (0700) with the sockets of our guards and, in a subdirectory, those of a kernel that we started.
///
/// A confined kernel sees only that subdirectory. Its copies share the directory, which is removed with the last of
/// them.
#[derive(Debug)]
pub(super) struct PrivateDir {
    path: PathBuf,
    kept: AtomicBool,
    /// Number of kernels made from copies.
    woken: AtomicU32,
    /// Network access for a confined kernel and its copies.
    gate: OnceLock<Gate>,
}

impl PrivateDir {
    fn of(path: PathBuf, kept: bool) -> Arc<Self> {
        Arc::new(Self {
            path,
            kept: AtomicBool::new(kept),
            woken: AtomicU32::new(0),
            gate: OnceLock::new(),
        })
    }

    /// The directory that a confined kernel shares with us.
    pub(super) fn shared(&self) -> PathBuf {
        self.path.join(SHARED)
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        // Contains no user data; what cannot be removed is reaped later.
        if !*self.kept.get_mut() {
            let _ = remove_tree(&self.path);
        }
    }
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

    /// Converts it for callers outside this module.
    pub(super) fn of(self, kernel: &str) -> KernelError {
        KernelError::Prepare {
            kernel: kernel.to_owned(),
            reason: format!("`{}`: {}", self.path.display(), self.error),
        }
    }
}

impl KernelFiles {
    /// For a kernel that we start: a connection file (0600) in `runtime_dir`. It names unix sockets in a new directory
    /// (0700) below `socket_root`, or loopback ports for a kernel that supports only TCP.
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
        let mut ports = None;
        let info = match transport {
            Transport::Ipc => {
                let prefix = socket_dir.join(SHARED).join("k");
                ConnectionInfo::ipc(words(&prefix), key, kernel.to_owned())
            }
            Transport::Tcp => {
                let free = free_ports().map_err(FilesError::at(Path::new("127.0.0.1")))?;
                ports = Some(free);
                ConnectionInfo::tcp(free, key, kernel.to_owned())
            }
        };
        let files = Self {
            info,
            connection_file,
            own_file: None,
            ports,
            guards: socket_dir.join("g"),
            dir: PrivateDir::of(socket_dir, false),
            ours: true,
            kept: false,
        };
        files.publish(runtime_dir)?;
        Ok(files)
    }

    /// For a kernel made from a copy, in a directory that the copy sees as well. The kernel may have put anything
    /// there, such as symbolic links, so none are followed.
    pub(super) fn within(
        dir: &Arc<PrivateDir>,
        kernel: &str,
        runtime_dir: &Path,
    ) -> Result<Self, FilesError> {
        let number = dir.woken.fetch_add(1, Ordering::Relaxed);
        let place = dir.shared().join(format!("w{number}"));
        let guards = dir.path.join(format!("g{number}"));
        for new in [&place, &guards] {
            private_dir(new).map_err(FilesError::at(new))?;
        }
        let key = uuid::Uuid::new_v4().to_string();
        let info = ConnectionInfo::ipc(words(&place.join("k")), key, kernel.to_owned());
        let mut files = Self {
            info,
            connection_file: runtime_dir.join(format!("kernel-{}.json", uuid::Uuid::new_v4())),
            own_file: None,
            ports: None,
            dir: Arc::clone(dir),
            guards,
            ours: true,
            kept: false,
        };
        files.publish(runtime_dir)?;
        files.write_own(&place)?;
        Ok(files)
    }

    /// Prepares a confined kernel: writes a connection file into the shared directory. If the kernel listens on ports
    /// that we cannot reach, they are `bridged` to sockets there.
    pub(super) fn confine(&mut self, bridged: bool) -> Result<(), FilesError> {
        let place = self.dir.shared();
        self.write_own(&place)?;
        if bridged && self.ports.is_some() {
            let (key, kernel) = (self.info.key.clone(), self.info.kernel_name.clone());
            self.info = ConnectionInfo::ipc(words(&place.join("k")), key, kernel);
            let text = serde_json::to_vec_pretty(&self.info).map_err(std::io::Error::other);
            text.and_then(|text| std::fs::write(&self.connection_file, text))
                .map_err(FilesError::at(&self.connection_file))?;
        }
        Ok(())
    }

    /// Opens the network gate for the kernel and its copies, if the confinement allows hosts by name.
    pub(super) async fn open_gate(&self, confinement: &Confinement) -> Result<(), FilesError> {
        if !matches!(confinement.network, Network::Allow(_)) {
            return Ok(());
        }
        let dir = self.dir.path.join(GATE);
        let gate = Gate::open(&dir, confinement).await;
        // Cannot be set already: a directory gets its gate with its first kernel.
        let _ = self.dir.gate.set(gate.map_err(FilesError::at(&dir))?);
        Ok(())
    }

    /// The network gate, if the confinement allows hosts by name.
    pub(super) fn gate(&self) -> Option<&Gate> {
        self.dir.gate.get()
    }

    fn write_own(&mut self, place: &Path) -> Result<(), FilesError> {
        let path = place.join("connection.json");
        let write = || -> std::io::Result<()> {
            let text = serde_json::to_vec_pretty(&self.info).map_err(std::io::Error::other)?;
            let private = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let dir = rustix::fs::open(place, private, Mode::empty())?;
            let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&dir, "connection.json", new, Mode::RUSR | Mode::WUSR)?;
            std::fs::File::from(file).write_all(&text)
        };
        write().map_err(FilesError::at(&path))?;
        self.own_file = Some(path);
        Ok(())
    }

    fn publish(&self, runtime_dir: &Path) -> Result<(), FilesError> {
        std::fs::create_dir_all(runtime_dir).map_err(FilesError::at(runtime_dir))?;
        serde_json::to_vec_pretty(&self.info)
            .map_err(std::io::Error::other)
            .and_then(|text| write_private(&self.connection_file, &text))
            .map_err(FilesError::at(&self.connection_file))
    }

    /// The connection file that the kernel reads.
    pub(super) fn kernel_file(&self) -> &Path {
        self.own_file.as_ref().unwrap_or(&self.connection_file)
    }

    /// The ports of a kernel that supports only TCP.
    pub(super) fn ports(&self) -> Option<[u16; 5]> {
        self.ports
    }

    /// The directory that a confined kernel shares with us.
    pub(super) fn shared(&self) -> PathBuf {
        self.dir.shared()
    }

    /// The gVisor bundle and its state; the kernel does not see it.
    pub(super) fn bundle(&self) -> PathBuf {
        self.dir.path.join(BUNDLE)
    }

    /// For a confined kernel: the directory where its copies can be reached.
    pub(super) fn shared_dir(&self) -> Option<&Arc<PrivateDir>> {
        self.own_file.as_ref().map(|_| &self.dir)
    }

    /// For a running kernel of somebody else: only a directory for our guards.
    pub(super) fn beside(
        info: ConnectionInfo,
        connection_file: PathBuf,
        socket_root: &Path,
    ) -> Result<Self, FilesError> {
        let socket_dir = socket_dir(socket_root, Path::new(""))?;
        Ok(Self {
            info,
            connection_file,
            own_file: None,
            ports: None,
            guards: socket_dir.join("g"),
            dir: PrivateDir::of(socket_dir, false),
            ours: false,
            kept: false,
        })
    }

    /// For a kernel that an earlier process kept: its files, its process and those around it; or the reason why there
    /// are none.
    pub(super) fn adopt(
        connection_file: &Path,
        socket_root: &Path,
    ) -> Result<(Self, Running, Vec<Running>), String> {
        let (socket_dir, process, around) = reap::kept_at(connection_file, socket_root)?;
        let text = std::fs::read(connection_file).map_err(|error| error.to_string())?;
        let info = ConnectionInfo::parse(&text).map_err(|error| error.to_string())?;
        let files = Self {
            info,
            connection_file: connection_file.to_owned(),
            own_file: None,
            ports: None,
            guards: socket_dir.join("g"),
            dir: PrivateDir::of(socket_dir, true),
            ours: true,
            kept: true,
        };
        // The guards of the previous process listened there.
        let guards = files.guard_dir();
        remove_tree(&guards)
            .and_then(|()| private_dir(&guards))
            .map_err(|error| format!("`{}`: {error}", guards.display()))?;
        Ok((files, process, around))
    }

    /// Sets whether the files stay when this is dropped.
    pub(super) fn keep(&mut self, keep: bool) {
        self.kept = keep;
        self.dir.kept.store(keep, Ordering::Relaxed);
    }

    /// Where a kept kernel writes its stderr.
    pub(super) fn log(&self) -> PathBuf {
        self.dir.path.join("log")
    }

    /// Where our guards listen.
    pub(super) fn guard_dir(&self) -> PathBuf {
        self.guards.clone()
    }

    /// Records the kernel's process, and those `around` it, so that they can be found after our exit. Errors are
    /// ignored: only the record is lost.
    pub(super) fn started(&self, pid: Option<u32>, around: Vec<u32>) {
        if let Some(owner) = Owner::current(&self.connection_file, pid, self.kept) {
            let owner = owner.with(around.into_iter());
            let _ = std::fs::write(self.dir.path.join(OWNER), owner.to_json());
        }
    }
}

impl Drop for KernelFiles {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if self.ours {
            let _ = std::fs::remove_file(&self.connection_file);
        }
        let _ = remove_tree(&self.guards);
    }
}

/// A private directory (0700) for one socket of ours, removed on drop.
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

    /// Records processes so that they can be found after our exit. Errors are ignored: only the record is lost.
    pub(super) fn note_copies(&self, pids: impl Iterator<Item = u32>) {
        if let Some(owner) = Owner::of_copies(pids) {
            let _ = std::fs::write(self.0.join(OWNER), owner.to_json());
        }
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = remove_tree(&self.0);
    }
}

/// Ports that were free a moment ago. If another program takes one first, the kernel fails to start.
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
    if dir.as_os_str().len() + LONGEST.len() > MAX_SOCKET_PATH {
        let error = std::io::Error::other("path is too long for unix sockets");
        return Err(FilesError { path: dir, error });
    }
    private_dir(&dir).map_err(FilesError::at(&dir))?;
    // Written first: a directory without an owner file is never reaped.
    let owner = Owner::current(connection_file, None, false);
    owner
        .map_or(Ok(()), |owner| {
            write_private(&dir.join(OWNER), owner.to_json().as_bytes())
        })
        .and_then(|()| private_dir(&dir.join("g")))
        .and_then(|()| private_dir(&dir.join(SHARED)))
        .map_err(FilesError::at(&dir))?;
    Ok(dir)
}

fn private_dir(path: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

fn words(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn write_private(path: &Path, text: &[u8]) -> std::io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(text)
}
