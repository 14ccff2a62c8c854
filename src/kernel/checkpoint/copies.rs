//! The dormant processes: where they connect to, who is expected, who is there.
//!
//! A client that connects says the token that it was given through its kernel; the operating system says which process it is.

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

/// How long a process that has connected may take to say its token.
const TOKEN_WITHIN: Duration = Duration::from_secs(2);
/// How long that may be.
const TOKEN_BYTES: u64 = 256;

/// A process that has connected, and its connection.
pub(super) type Arrival = (Adopted, BufReader<UnixStream>);

/// All that is known of the dormant processes of a session.
#[derive(Debug)]
pub(super) struct Copies {
    socket_root: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// From the first checkpoint on.
    door: Option<Door>,
    /// Those inside of sandboxes, as long as somebody is behind them.
    inner: Vec<InnerDoor>,
    /// How many of those there have been.
    opened: u32,
    expected: HashMap<String, oneshot::Sender<Arrival>>,
    dormant: BTreeMap<CheckpointId, Dormant>,
    taken: u64,
}

/// Where processes connect.
#[derive(Debug)]
struct Door {
    // In the order in which they are to be dropped.
    _task: Task,
    dir: SocketDir,
}

/// The same in what a confined kernel shares with us; it sees no other.
#[derive(Debug)]
struct InnerDoor {
    _task: Task,
    of: Weak<PrivateDir>,
    socket: PathBuf,
}

/// Of a confined kernel: where it and its copies can be reached, and its namespaces, if it is confined by such.
#[derive(Debug, Clone)]
pub(in crate::kernel) struct Confined {
    pub(in crate::kernel) dir: Arc<PrivateDir>,
    pub(in crate::kernel) cage: Option<Arc<Cage>>,
}

impl Confined {
    /// Of the kernel with these files, if it is confined.
    pub(in crate::kernel) fn of(files: Option<&KernelFiles>, host: &Host) -> Option<Self> {
        Some(Self {
            dir: Arc::clone(files?.shared_dir()?),
            cage: host.cage().map(Arc::clone),
        })
    }
}

/// A dormant process. Dropping it ends it.
#[derive(Debug)]
struct Dormant {
    // Its end is the order to exit, should the process have left our reach.
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

    /// The socket's path; it listens from the first time on.
    fn open(self: &Arc<Self>) -> std::io::Result<PathBuf> {
        let mut state = self.lock();
        if let Some(door) = &state.door {
            return Ok(door.dir.socket());
        }
        // Without it they would be somebody else's children, and nobody could say how they ended.
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

    /// The same in what a confined kernel shares with us.
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

    /// Takes a process that has connected for a new checkpoint.
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
        // Dropped after the lock.
        let gone = state.dormant.remove(&id);
        state.note_owner();
        drop(state);
        drop(gone);
    }

    pub(super) fn list(&self) -> Vec<CheckpointId> {
        self.processes().into_iter().map(|(id, _)| id).collect()
    }

    /// Those that live, with the id of their process.
    pub(super) fn processes(&self) -> Vec<(CheckpointId, u32)> {
        let state = self.lock();
        let all = state.dormant.iter();
        all.filter(|(_, dormant)| dormant.process.is_alive())
            .map(|(id, dormant)| (*id, dormant.process.id()))
            .collect()
    }

    /// Tells the process of a checkpoint to make a kernel that says `token`.
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
    /// Notes the processes where they are found when we are gone.
    fn note_owner(&self) {
        if let Some(door) = &self.door {
            let ids = self.dormant.values().map(|dormant| dormant.process.id());
            door.dir.note_copies(ids);
        }
    }
}

/// A process that is to connect. Dropping it stops the waiting; who comes later is sent away, and exits. `Debug` does not
/// show its token.
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

    /// Waits for it; the caller bounds the wait. `None`: nobody will come any more.
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

/// Takes those who connect; with a `cage`, only processes in it.
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
            // Who does not want it any more drops it, which ends it.
            let _ = expected.send((adopted, stream));
        }
    }
}
