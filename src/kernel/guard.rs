//! Stands between our `zeromq` sockets and a kernel's sockets.
//!
//! The kernel runs code that nobody has read, and that code can write to the kernel's sockets. `zeromq` 0.7
//! reserves as much memory as a frame header announces, so nine forged bytes abort our whole process. A [`Guard`]
//! therefore listens on a private unix socket for one connection of ours, opens one to the kernel, and copies
//! bytes both ways while it reads the frame headers (ZMTP 3.1, RFC 37). What breaks the protocol cuts the
//! connection. After the handshake messages can come from the guard itself, and go to it (docs/adr/0018). The guard also
//! says when the kernel's end closes, which `zeromq`'s `recv` never does.
//!
//! A frame that is honest but too large (`print("x" * 10**8)` is one frame of 100 MB) must not cost the kernel its
//! life nor us the memory: an empty frame passes in its place, and [`GuardEvent::Emptied`] says so, with the file that
//! it went to while it came, if there is a folder for such. The signature of that message no longer fits.
//!
//! Invariants:
//! - No byte of a frame that is refused or emptied reaches `zeromq`.
//! - A command reaches `zeromq` only if it is `READY`; `PING` is answered here, for `zeromq` cannot.
//! - Memory is one chunk a direction, and towards us [`GuardLimits::spool`] and, where messages come from here, one batch
//!   and one message; towards the kernel what the queue of [`Direct`] has room for. A side that does not read stops the
//!   other side from writing.
//! - The last [`GuardEvent`] is `Hostile` or `Closed`, after both connections are cut. A dropped guard sends none.
//!
//! Deliberately not here: what the frames say (`jupyter::wire`), and who does something about a lost connection
//! (the kernel's actor).

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

/// What is copied at once, at most. A chunk a direction is all that a guard buffers.
const CHUNK: usize = 64 * 1024;
/// What is copied at once while there is little: most connections are silent most of the time.
const SMALL_CHUNK: usize = 4 * 1024;
/// For what a kernel wrote before it stopped reading.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Unanswered `PING`s that are remembered; a kernel that sends more gets fewer answers.
const PONGS: usize = 4;

/// How much a kernel may send at once, and how long it may take to say hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardLimits {
    /// Bytes of one frame, else it is emptied. `zeromq` sets this much aside before the bytes come.
    pub frame: u64,
    /// Bytes of all frames of one message, else those that are too much are emptied: what `zeromq` collects
    /// before it hands the message over.
    pub message: u64,
    /// Bytes of a frame that is emptied; more is a forged header.
    pub discard: u64,
    /// Frames of one message; more is hostile.
    pub frames_per_message: usize,
    /// Bytes of the kernel that are taken before our own socket has room for them: a kernel that waits drops messages.
    pub spool: usize,
    /// From the guard's start until both connections stand; a kernel that is slow to start needs it.
    pub connect: Duration,
    /// From then until the kernel has sent its greeting and `READY`.
    pub handshake: Duration,
    /// Silence inside a message; more is a forged header, for a kernel has the whole message when it begins.
    pub stall: Duration,
}

impl Default for GuardLimits {
    /// A 20 MB image is a 27 MB frame; ipykernel sends what is printed in 0.2 s as one frame; widgets send a
    /// frame a buffer, some have hundreds.
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

/// What a guard has to say about its kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardEvent {
    /// A frame was too large and an empty one passed in its place. The guard goes on. Left out when nobody takes
    /// the events; the message with the signature that does not fit still comes.
    Emptied {
        /// The name that the guard was started with.
        name: String,
        /// How large the frame was.
        bytes: u64,
        /// Where it is, if it could be written.
        file: Option<PathBuf>,
    },
    /// The kernel sent what `zeromq` must not see; both connections are cut.
    Hostile {
        /// The name that the guard was started with.
        name: String,
        /// What it sent.
        reason: Violation,
    },
    /// A connection ended, or never came to be.
    Closed {
        /// The name that the guard was started with.
        name: String,
        /// Which, and why.
        cause: Closing,
    },
}

/// How a connection ended that broke no rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Closing {
    /// The kernel closed its end: it has died, or shuts down.
    #[error("the kernel closed its end")]
    Kernel,
    /// Our own socket was dropped.
    #[error("our own socket was closed")]
    Client,
    /// Our own socket did not connect in [`GuardLimits::connect`].
    #[error("our own socket did not connect")]
    Unused,
    /// The kernel's socket could not be reached in [`GuardLimits::connect`].
    #[error("the kernel's socket could not be reached within {waited:?} ({kind})")]
    Unreachable {
        /// How long was tried.
        waited: Duration,
        /// What the last attempt said.
        kind: io::ErrorKind,
    },
}

/// The queues of a connection whose messages do not go through our socket once it has shaken hands.
#[derive(Debug)]
pub struct Direct {
    /// What the kernel sends; nothing more comes out at our socket.
    pub received: mpsc::Sender<Batch>,
    /// What it shall get: messages as [`encode`] makes them. It can have them only between what our socket sends.
    pub to_send: mpsc::Receiver<Bytes>,
}

/// One guarded connection. It ends when either side ends or breaks a rule, or when this is dropped; drop the
/// `zeromq` socket first, then what it has sent still reaches the kernel.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
    _task: Task,
}

impl Guard {
    /// Listens at `listen_dir/name` and waits for our socket, then for the kernel's. `listen_dir` is ours alone
    /// (mode 0700) and out of the kernel's sight; the path has at most 107 bytes; `name` goes into the event.
    /// Our socket's `connect` returns as soon as the kernel has shaken hands. Call it inside a tokio runtime.
    pub fn start(
        upstream: Endpoint,
        listen_dir: &Path,
        name: &str,
        limits: GuardLimits,
        lost: mpsc::Sender<GuardEvent>,
    ) -> io::Result<Self> {
        Self::start_keeping(upstream, listen_dir, name, limits, None, None, lost)
    }

    /// The same, and frames that are too large go to files, and messages through the queues of `direct`.
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
                // Full: the end of the guard must not have to wait for this.
                let _ = lost.try_send(GuardEvent::Emptied { name, bytes, file });
            };
            let event = match stand(&upstream, door, limits, oversize, direct, emptied).await {
                Ending::Hostile(reason) => GuardEvent::Hostile { name, reason },
                Ending::Closed(cause) => GuardEvent::Closed { name, cause },
            };
            // An error says that the kernel's actor has gone, so nobody needs to know.
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

/// The listening socket, whose file goes when it does.
struct Door {
    listener: UnixListener,
    path: PathBuf,
}

impl Door {
    fn open(path: PathBuf) -> io::Result<Self> {
        let listener = UnixListener::bind(&path)?;
        Ok(Self { listener, path })
    }

    /// Lets one connection of our own process in and closes the door.
    async fn admit(self) -> io::Result<UnixStream> {
        let ours = i32::try_from(std::process::id()).ok();
        loop {
            let (stream, _) = self.listener.accept().await?;
            // Where the system does not name the peer's process, the directory's mode has to do.
            match stream.peer_cred()?.pid() {
                Some(peer) if Some(peer) != ours => {}
                Some(_) | None => return Ok(stream),
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Failing leaves a dead socket file in a directory that is removed with the kernel.
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

/// [`relay`] to whichever kind of socket the kernel has.
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

/// Both directions in one task, so that neither outlives the other.
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
        // Full: the kernel asks faster than it reads answers.
        Note::Answer(pong) => drop(asked.try_send(pong)),
        Note::Emptied(bytes, file) => emptied(bytes, file),
    };
    let inward = inward(from_kernel, to_client, scanner, note, limits);
    let outward = outward(from_client, to_send, to_kernel, answers);
    tokio::pin!(inward);
    tokio::select! {
        ending = &mut inward => ending,
        closing = outward => match closing {
            // The kernel no longer reads, but what it wrote before must still arrive.
            Closing::Kernel => timeout(LAST_WORDS, inward).await.unwrap_or(Ending::Closed(closing)),
            Closing::Client | Closing::Unused | Closing::Unreachable { .. } => Ending::Closed(closing),
        },
    }
}

/// Kernel to client: every byte is judged before it is passed on.
async fn inward(
    kernel: impl AsyncRead + Unpin,
    client: impl AsyncWrite + Unpin,
    scanner: Scanner,
    note: impl Fn(Note),
    limits: GuardLimits,
) -> Ending {
    let mut client = Spool::new(client, limits.spool);
    let ending = pass_on(kernel, &mut client, scanner, note, limits).await;
    // What was good before the end still arrives. Our own socket can be gone by now.
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

/// Where bytes are read to: small until a read fills it, and again when there is little.
struct Buffer(Vec<u8>);

impl Buffer {
    fn new() -> Self {
        Self(vec![0; SMALL_CHUNK])
    }

    /// Takes the size for the next read, after one of so many bytes.
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
