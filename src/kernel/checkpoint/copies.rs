//! The dormant processes: where they connect, which are expected, which exist.
//!
//! A client that connects sends the token that it got through its kernel; the operating system reports its process id.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::CheckpointId;
use crate::kernel::files::{KernelFiles, PrivateDir, SocketDir};
use crate::kernel::host::{Adopted, Host, adopt_orphans};
use crate::kernel::sandbox::Cage;
use crate::task::{self, Task};

/// How long a process that has connected may take to send its token.
const TOKEN_WITHIN: Duration = Duration::from_secs(2);
/// Most bytes of a token line.
const TOKEN_BYTES: u64 = 256;

/// A process that has connected, and its connection.
pub(super) type Arrival = (Adopted, BufReader<UnixStream>);

/// The dormant processes of a session.
#[derive(Debug)]
pub(super) struct Copies {
    socket_root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// `None` before the first checkpoint.
    door: Option<Door>,
    /// Sockets inside of sandboxes, as long as their kernels exist.
    inner: Vec<InnerDoor>,
    /// How many of those have been opened.
    opened: u32,
    expected: HashMap<String, oneshot::Sender<Arrival>>,
    dormant: BTreeMap<CheckpointId, Dormant>,
    taken: u64,
}

/// The socket that processes connect to.
#[derive(Debug)]
struct Door {
    // In drop order.
    _task: Task,
    dir: SocketDir,
}

/// The same in the directory of a confined kernel, which sees no other.
#[derive(Debug)]
struct InnerDoor {
    _task: Task,
    of: Weak<PrivateDir>,
    socket: PathBuf,
}

/// For a confined kernel: where it and its copies can be reached, and its namespaces, if it has any.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Confined {
    pub(in crate::kernel) dir: Arc<PrivateDir>,
    pub(in crate::kernel) cage: Option<Arc<Cage>>,
}

impl Confined {
    /// For the kernel with these files, if it is confined.
    pub(in crate::kernel) fn of(files: Option<&KernelFiles>, host: &Host) -> Option<Self> {
        Some(Self {
            dir: Arc::clone(files?.shared_dir()?),
            cage: host.cage().map(Arc::clone),
        })
    }
}

/// A dormant process. Dropping this ends it.
#[derive(Debug)]
struct Dormant {
    // Closing it tells the process to exit, in case we can no longer kill it.
    stream: Arc<UnixStream>,
    process: Adopted,
    confined: Option<Confined>,
}

impl Copies {
    pub(super) fn new(socket_root: &Path) -> Self {
        Self {
            socket_root: socket_root.to_owned(),
            state: Mutex::default(),
        }
    }

    /// Prepares for a process that will connect.
    pub(super) fn expect(
        self: &Arc<Self>,
        confined: Option<&Confined>,
    ) -> std::io::Result<Awaited> {
        let outer = self.open()?;
        let socket = match confined {
            Some(confined) => self.open_inner(confined)?,
            None => outer,
        };
        let token = uuid::Uuid::new_v4().to_string();
        let (sender, arrival) = oneshot::channel();
        self.lock().expected.insert(token.clone(), sender);
        Ok(Awaited {
            copies: Arc::downgrade(self),
            token,
            socket,
            arrival,
        })
    }

    /// The socket's path; starts listening on first use.
    fn open(self: &Arc<Self>) -> std::io::Result<PathBuf> {
        let mut state = self.lock();
        if let Some(door) = &state.door {
            return Ok(door.dir.socket());
        }
        // Otherwise they would become another process's children, and we could not learn how they ended.
        adopt_orphans()?;
        let dir = SocketDir::make(&self.socket_root)?;
        let listener = UnixListener::bind(dir.socket())?;
        let copies = Arc::downgrade(self);
        let socket = dir.socket();
        state.door = Some(Door {
            _task: task::spawn("checkpoints", listen(listener, copies, None)),
            dir,
        });
        Ok(socket)
    }

    /// The same in the directory of a confined kernel.
    fn open_inner(self: &Arc<Self>, confined: &Confined) -> std::io::Result<PathBuf> {
        let mut state = self.lock();
        state.inner.retain(|door| door.of.strong_count() > 0);
        let of = Arc::downgrade(&confined.dir);
        if let Some(door) = state.inner.iter().find(|door| door.of.ptr_eq(&of)) {
            return Ok(door.socket.clone());
        }
        state.opened += 1;
        let socket = confined.dir.shared().join(format!("d{}", state.opened));
        let listener = UnixListener::bind(&socket)?;
        let cage = confined.cage.as_ref().map(Arc::downgrade);
        let arrivals = listen(listener, Arc::downgrade(self), cage);
        state.inner.push(InnerDoor {
            _task: task::spawn("checkpoints of a sandbox", arrivals),
            of,
            socket: socket.clone(),
        });
        Ok(socket)
    }

    /// How the kernel of a checkpoint was confined.
    pub(super) fn confined(&self, id: CheckpointId) -> Option<Confined> {
        self.lock().dormant.get(&id)?.confined.clone()
    }

    /// Makes a process that has connected a new checkpoint.
    pub(super) fn keep(
        &self,
        process: Adopted,
        stream: BufReader<UnixStream>,
        confined: Option<Confined>,
    ) -> CheckpointId {
        let mut state = self.lock();
        state.taken += 1;
        let id = CheckpointId(state.taken);
        let stream = Arc::new(stream.into_inner());
        let dormant = Dormant {
            stream,
            process,
            confined,
        };
        state.dormant.insert(id, dormant);
        state.note_owner();
        id
    }

    pub(super) fn forget(&self, id: CheckpointId) {
        let mut state = self.lock();
        // Dropped after the lock is released.
        let gone = state.dormant.remove(&id);
        state.note_owner();
        drop(state);
        drop(gone);
    }

    pub(super) fn list(&self) -> Vec<CheckpointId> {
        self.processes().into_iter().map(|(id, _)| id).collect()
    }

    /// The living ones, with their process ids.
    pub(super) fn processes(&self) -> Vec<(CheckpointId, u32)> {
        let state = self.lock();
        let all = state.dormant.iter();
        all.filter(|(_, dormant)| dormant.process.is_alive())
            .map(|(id, dormant)| (*id, dormant.process.id()))
            .collect()
    }

    /// Tells the process of a checkpoint to fork a kernel that connects with `token`.
    pub(super) async fn order(
        &self,
        id: CheckpointId,
        token: &str,
        connection_file: &Path,
    ) -> Result<(), String> {
        let stream = self
            .lock()
            .dormant
            .get(&id)
            .map(|dormant| Arc::clone(&dormant.stream))
            .ok_or("the checkpoint is no longer there")?;
        let mut order = json!({ "token": token, "connection_file": connection_file }).to_string();
        order.push('\n');
        let gone = |error| format!("its process is gone: {error}");
        let mut rest = order.as_bytes();
        while !rest.is_empty() {
            stream.writable().await.map_err(gone)?;
            match stream.try_write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(gone(error)),
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records the processes so that they can be found after our exit.
    fn note_owner(&self) {
        if let Some(door) = &self.door {
            let ids = self.dormant.values().map(|dormant| dormant.process.id());
            door.dir.note_copies(ids);
        }
    }
}

/// A process that is expected to connect. Dropping this cancels that: if the process comes later, it is disconnected
/// and exits. `Debug` omits the token.
pub(super) struct Awaited {
    copies: Weak<Copies>,
    token: String,
    socket: PathBuf,
    arrival: oneshot::Receiver<Arrival>,
}

impl std::fmt::Debug for Awaited {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Awaited").finish_non_exhaustive()
    }
}

impl Awaited {
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Waits for the process; the caller sets the timeout. `None` if it can no longer come.
    pub(super) async fn arrival(mut self) -> Option<Arrival> {
        (&mut self.arrival).await.ok()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let Some(copies) = self.copies.upgrade() {
            copies.lock().expected.remove(&self.token);
        }
    }
}

/// Accepts connections; with a `cage`, only from processes in it.
async fn listen(listener: UnixListener, copies: Weak<Copies>, cage: Option<Weak<Cage>>) {
    #[derive(Deserialize)]
    struct Hello {
        token: String,
    }
    while let Ok((stream, _)) = listener.accept().await {
        let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        let mut first = (&mut stream).take(TOKEN_BYTES);
        let read = timeout(TOKEN_WITHIN, first.read_until(b'\n', &mut line)).await;
        let hello = read
            .ok()
            .and_then(|_| serde_json::from_slice::<Hello>(&line).ok());
        let (Some(copies), Some(hello)) = (copies.upgrade(), hello) else {
            continue;
        };
        let expected = copies.lock().expected.remove(&hello.token);
        let cage = match &cage {
            Some(cage) => match cage.upgrade() {
                Some(cage) => Some(cage),
                None => return,
            },
            None => None,
        };
        let adopted = process.and_then(|pid| Adopted::new(pid, cage.as_ref()));
        if let (Some(expected), Some(adopted)) = (expected, adopted) {
            // If nobody wants it any more, it is dropped and so ended.
            let _ = expected.send((adopted, stream));
        }
    }
}
