//! Stands between our `zeromq` sockets and a kernel's sockets.
//!
//! The kernel runs code that nobody has read, and that code can write to the kernel's sockets. `zeromq` 0.7
//! reserves as much memory as a frame header announces, so nine forged bytes abort our whole process. A [`Guard`]
//! therefore listens on a private unix socket for one connection of ours, opens one to the kernel, and copies bytes
//! both ways while it reads the frame headers (ZMTP 3.1, RFC 37). A protocol violation cuts the connection. After the
//! handshake, messages can bypass our socket through the queues of [`Direct`] (docs/adr/0018). The guard also reports
//! when the kernel closes its end, which `zeromq`'s `recv` never does.
//!
//! A frame that is honest but too large (`print("x" * 10**8)` is one frame of 100 MB) must neither kill the kernel nor
//! use up our memory: an empty frame replaces it, and [`GuardEvent::Emptied`] reports it, with the file that it was
//! written to if there is a folder for such frames. The signature of that message no longer matches.
//!
//! Invariants:
//! - No byte of a frame that is refused or emptied reaches `zeromq`.
//! - A command reaches `zeromq` only if it is `READY`. The guard answers `PING`, because `zeromq` cannot.
//! - Memory use is one chunk per direction, plus towards us [`GuardLimits::spool`] and, with [`Direct`], one batch and
//!   one message; towards the kernel, the capacity of the queue of [`Direct`]. A side that does not read blocks the
//!   writes of the other.
//! - The last [`GuardEvent`] is `Hostile` or `Closed`, after both connections are cut. A dropped guard sends none.
//!
//! Deliberately not here: what the frames mean (`jupyter::wire`), and the reaction to a lost connection (the kernel's
//! actor).

mod collect;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod outward;
mod quiet;
mod reach;
mod scanner;
mod spool;
mod thread;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

pub use collect::Batch;
use collect::Collector;
pub use outward::encode;
use outward::outward;
pub use reach::{NotListening, wait_until_listening};
use reach::{Peer, reach};
pub use scanner::Violation;
use scanner::{Note, Phase, Refusal, Scanner};

use quiet::halves;
use spool::Spool;
pub(super) use thread::apart;

use super::oversize::Oversize;
use crate::jupyter::connection::Endpoint;
use crate::task::{self, Task};

/// Most bytes copied at once: the buffer of one direction.
const CHUNK: usize = 64 * 1024;
/// Buffer size while traffic is low: most connections are silent most of the time.
const SMALL_CHUNK: usize = 4 * 1024;
/// How long we keep reading from a kernel after it stopped reading from us.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Most unanswered `PING`s to remember; a kernel that sends more gets fewer answers.
const PONGS: usize = 4;

/// How much a kernel may send at once, and how long it may take to say hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardLimits {
    /// Most bytes of one frame; a larger one is emptied. `zeromq` allocates this much before the bytes come.
    pub frame: u64,
    /// Most bytes of all frames of one message; frames beyond it are emptied. `zeromq` collects a message before it
    /// returns it.
    pub message: u64,
    /// Most bytes of an emptied frame; more is a forged header.
    pub discard: u64,
    /// Most frames of one message; more is hostile.
    pub frames_per_message: usize,
    /// Bytes that are read from the kernel before our own socket has room for them: a kernel that must wait drops
    /// messages.
    pub spool: usize,
    /// From the guard's start until both connections stand; allows for a kernel that starts slowly.
    pub connect: Duration,
    /// From then until the kernel has sent its greeting and `READY`.
    pub handshake: Duration,
    /// Longest silence inside a message; more is a forged header, because a kernel has the whole message when it starts
    /// to send.
    pub stall: Duration,
}

impl Default for GuardLimits {
    /// A 20 MB image is a 27 MB frame; ipykernel sends what is printed within 0.2 s as one frame; widgets send one
    /// frame per buffer, some hundreds of them.
    fn default() -> Self {
        Self {
            frame: 40 << 20,
            message: 80 << 20,
            discard: 2 << 30,
            frames_per_message: 1024,
            // 20,000 lines of bash_kernel, each a message.
            spool: 16 << 20,
            connect: Duration::from_mins(1),
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(30),
        }
    }
}

/// What a guard reports about its kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardEvent {
    /// A frame was too large and was replaced by an empty one. The guard goes on. Dropped if the event queue is full;
    /// the message with the mismatched signature still arrives.
    Emptied {
        /// The name that the guard was started with.
        name: String,
        /// How large the frame was.
        bytes: u64,
        /// Where the frame was saved, if that succeeded.
        file: Option<PathBuf>,
    },
    /// The kernel sent what `zeromq` must not see; both connections are cut.
    Hostile {
        /// The name that the guard was started with.
        name: String,
        /// What it sent.
        reason: Violation,
    },
    /// A connection ended or was never established.
    Closed {
        /// The name that the guard was started with.
        name: String,
        /// Which one, and why.
        cause: Closing,
    },
}

/// How a connection ended without a violation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Closing {
    /// The kernel closed its end: it died or is shutting down.
    #[error("the kernel closed its end")]
    Kernel,
    /// Our own socket was dropped.
    #[error("our own socket was closed")]
    Client,
    /// Our own socket did not connect within [`GuardLimits::connect`].
    #[error("our own socket did not connect")]
    Unused,
    /// The kernel's socket could not be reached within [`GuardLimits::connect`].
    #[error("the kernel's socket could not be reached within {waited:?} ({kind})")]
    Unreachable {
        /// How long we tried.
        waited: Duration,
        /// The last attempt's error.
        kind: io::ErrorKind,
    },
}

/// The queues of a connection whose messages bypass our socket after the handshake.
#[derive(Debug)]
pub struct Direct {
    /// What the kernel sends; none of it reaches our socket.
    pub received: mpsc::Sender<Batch>,
    /// What to send to the kernel: messages made by [`encode`], inserted only between those of our socket.
    pub to_send: mpsc::Receiver<Bytes>,
}

/// One guarded connection. It ends when either side ends or breaks a rule, or when this is dropped. Drop the `zeromq`
/// socket first, so that what it has sent still reaches the kernel.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    _task: Task,
}

impl Guard {
    /// Listens at `listen_dir/name` and waits for our socket, then for the kernel's. `listen_dir` is ours alone (mode
    /// 0700) and invisible to the kernel; the path has at most 107 bytes; events carry `name`. Our socket's `connect`
    /// returns as soon as the kernel has shaken hands. Call it inside a tokio runtime.
    pub fn start(
        upstream: Endpoint,
        listen_dir: &Path,
        name: &str,
        limits: GuardLimits,
        lost: mpsc::Sender<GuardEvent>,
    ) -> io::Result<Self> {
        Self::start_keeping(upstream, listen_dir, name, limits, None, None, lost)
    }

    /// The same, but oversized frames are saved to files and messages go through the queues of `direct`.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start_keeping(
        upstream: Endpoint,
        listen_dir: &Path,
        name: &str,
        limits: GuardLimits,
        oversize: Option<Oversize>,
        direct: Option<Direct>,
        lost: mpsc::Sender<GuardEvent>,
    ) -> io::Result<Self> {
        let path = listen_dir.join(name);
        let door = Door::open(path.clone())?;
        let name = name.to_owned();
        let task = task::spawn("guard", async move {
            let emptied = |bytes, file| {
                let name = name.clone();
                // If the queue is full, drop it: the final event must not wait.
                let _ = lost.try_send(GuardEvent::Emptied { name, bytes, file });
            };
            let event = match stand(&upstream, door, limits, oversize, direct, emptied).await {
                Ending::Hostile(reason) => GuardEvent::Hostile { name, reason },
                Ending::Closed(cause) => GuardEvent::Closed { name, cause },
            };
            // An error means that the kernel's actor has gone, so nobody needs the event.
            let _ = lost.send(event).await;
        });
        Ok(Self { path, _task: task })
    }

    /// The address for `zeromq`'s `connect`.
    pub fn address(&self) -> String {
        format!("ipc://{}", self.path.display())
    }
}

enum Ending {
    Hostile(Violation),
    Closed(Closing),
}

/// The listening socket; its file is removed on drop.
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    fn open(path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        Ok(Self { listener, path })
    }

    /// Accepts one connection from our own process and closes the listener.
    async fn admit(self) -> io::Result<UnixStream> {
        let ours = i32::try_from(std::process::id()).ok();
        loop {
            let (stream, _) = self.listener.accept().await?;
            // If the system does not report the peer's process, the directory's mode has to suffice.
            match stream.peer_cred()?.pid() {
                Some(peer) if Some(peer) != ours => {}
                Some(_) | None => return Ok(stream),
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // A failure leaves a dead socket file in a directory that is removed with the kernel.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn stand(
    upstream: &Endpoint,
    door: Door,
    limits: GuardLimits,
    oversize: Option<Oversize>,
    direct: Option<Direct>,
    emptied: impl Fn(u64, Option<PathBuf>),
) -> Ending {
    let deadline = Instant::now() + limits.connect;
    let Ok(Ok(client)) = timeout_at(deadline, door.admit()).await else {
        return Ending::Closed(Closing::Unused);
    };
    let ours = match halves(client) {
        Ok(ours) => ours,
        Err(error) => {
            tracing::warn!(%error, "could not watch our own socket");
            return Ending::Closed(Closing::Unused);
        }
    };
    let kernel = match reach(upstream, deadline).await {
        Ok(kernel) => kernel,
        Err(NotListening { waited, last, .. }) => {
            let kind = last.kind();
            return Ending::Closed(Closing::Unreachable { waited, kind });
        }
    };
    let scanner = Scanner::new(limits, oversize);
    match direct {
        None => between(ours, None, kernel, scanner, limits, emptied).await,
        Some(Direct { received, to_send }) => {
            let (from_client, to_client) = ours;
            let ours = (from_client, Collector::new(to_client, received));
            between(ours, Some(to_send), kernel, scanner, limits, emptied).await
        }
    }
}

/// [`relay`] for whichever kind of socket the kernel has.
async fn between(
    ours: (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    to_send: Option<mpsc::Receiver<Bytes>>,
    kernel: Peer,
    scanner: Scanner,
    limits: GuardLimits,
    emptied: impl Fn(u64, Option<PathBuf>),
) -> Ending {
    match kernel {
        Peer::Unix(kernel) => relay(ours, to_send, kernel, scanner, limits, emptied).await,
        Peer::Tcp(kernel) => {
            relay(ours, to_send, kernel.into_split(), scanner, limits, emptied).await
        }
    }
}

/// Runs both directions in one task, so that neither outlives the other.
async fn relay(
    (from_client, to_client): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    to_send: Option<mpsc::Receiver<Bytes>>,
    (from_kernel, to_kernel): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    scanner: Scanner,
    limits: GuardLimits,
    emptied: impl Fn(u64, Option<PathBuf>),
) -> Ending {
    let (asked, answers) = mpsc::channel(PONGS);
    let note = |note| match note {
        // Full: the kernel sends pings faster than it reads the answers.
        Note::Answer(pong) => drop(asked.try_send(pong)),
        Note::Emptied(bytes, file) => emptied(bytes, file),
    };
    let inward = inward(from_kernel, to_client, scanner, note, limits);
    let outward = outward(from_client, to_send, to_kernel, answers);
    tokio::pin!(inward);
    tokio::select! {
        ending = &mut inward => ending,
        closing = outward => match closing {
            // The kernel no longer reads, but what it already wrote must still arrive.
            Closing::Kernel => timeout(LAST_WORDS, inward).await.unwrap_or(Ending::Closed(closing)),
            Closing::Client | Closing::Unused | Closing::Unreachable { .. } => Ending::Closed(closing),
        },
    }
}

/// Kernel to client: scans every byte before it is passed on.
async fn inward(
    kernel: impl AsyncRead + Unpin,
    client: impl AsyncWrite + Unpin,
    scanner: Scanner,
    note: impl Fn(Note),
    limits: GuardLimits,
) -> Ending {
    let mut client = Spool::new(client, limits.spool);
    let ending = pass_on(kernel, &mut client, scanner, note, limits).await;
    // Good bytes from before the end still arrive, unless our own socket has gone.
    let _ = client.drain().await;
    ending
}

async fn pass_on(
    mut kernel: impl AsyncRead + Unpin,
    client: &mut Spool<impl AsyncWrite + Unpin>,
    mut scanner: Scanner,
    note: impl Fn(Note),
    limits: GuardLimits,
) -> Ending {
    let mut buffer = Buffer::new();
    let hello = Instant::now() + limits.handshake;
    loop {
        let late = match scanner.phase {
            Phase::Greeting | Phase::Handshake => {
                Some((hello, Violation::Handshake(limits.handshake)))
            }
            Phase::Open if scanner.is_between_messages() => None,
            Phase::Open => Some((
                Instant::now() + limits.stall,
                Violation::Stalled(limits.stall),
            )),
        };
        let read = async {
            loop {
                tokio::select! {
                    biased;
                    read = kernel.read(&mut buffer.0) => return Ok(read),
                    drained = client.drain(), if !client.is_empty() => drained?,
                }
            }
        };
        let read: io::Result<io::Result<usize>> = match late {
            None => read.await,
            Some((deadline, violation)) => match timeout_at(deadline, read).await {
                Ok(read) => read,
                Err(_) => return Ending::Hostile(violation),
            },
        };
        let count = match read {
            Ok(Ok(count @ 1..)) => count,
            Ok(Ok(0) | Err(_)) => return Ending::Closed(Closing::Kernel),
            Err(_) => return Ending::Closed(Closing::Client),
        };
        match scanner.pass_on(&buffer.0[..count], client, &note).await {
            Ok(()) => {}
            Err(Refusal::Broken(violation)) => return Ending::Hostile(violation),
            Err(Refusal::Unwritable) => return Ending::Closed(Closing::Client),
        }
        if client.push().await.is_err() {
            return Ending::Closed(Closing::Client);
        }
        buffer.fit(count);
    }
}

/// The read buffer: grows when a read fills it, and shrinks when reads are small.
struct Buffer(Vec<u8>);

impl Buffer {
    fn new() -> Self {
        Self(vec![0; SMALL_CHUNK])
    }

    /// Chooses the size for the next read after one of `count` bytes.
    fn fit(&mut self, count: usize) {
        let wanted = if count == self.0.len() {
            CHUNK
        } else if count < SMALL_CHUNK {
            SMALL_CHUNK
        } else {
            return;
        };
        if self.0.len() != wanted {
            self.0 = vec![0; wanted];
        }
    }
}

#[cfg(test)]
mod tests;
