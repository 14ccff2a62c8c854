//! A listening kernel socket and the front ends connected to it: ROUTER, XPUB or an echo.
//!
//! Invariants: each peer has its own short queue; a peer that takes nothing for [`STALL`] is disconnected, so it delays
//! the others no longer than that; nothing is dropped for a peer that still takes. Incoming messages are verified
//! before they are queued, so that strangers cannot fill a queue.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};

use super::zmtp::{self, Broken, Received};
use crate::jupyter::connection::Endpoint;
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::Signer;
use crate::task::{self, Task};

/// How long a peer may take no byte of what is sent to it.
const STALL: Duration = Duration::from_secs(10);
/// Most messages queued for one peer. Their bytes are bounded at the source (`link`).
const QUEUE: usize = 1024;
/// Most connections to one socket.
const PEERS: usize = 512;
/// Most subscriptions of one peer.
const TOPICS: usize = 64;
/// Delay after a failed accept, for example when no file descriptors are left.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// How long flushing the queues may take when a socket closes.
const LINGER: Duration = Duration::from_secs(1);

/// What a socket does with incoming messages.
pub(super) enum SocketRole {
    /// Verifies requests and queues them, with the peer's identity as the first frame of the prefix.
    Router {
        channel: Channel,
        signer: Signer,
        requests: mpsc::Sender<(Channel, RawMessage)>,
    },
    /// Peers subscribe; each new subscription is answered with the frames of `welcome(topic)`.
    Publisher { welcome: Welcome },
    /// Sends everything back: the heartbeat.
    Echo,
}

/// Makes the frames that answer a new subscription to a topic.
pub(super) type Welcome = Box<dyn Fn(&[u8]) -> Vec<Bytes> + Send + Sync>;

/// A message to peers. Holds its share of the budget until all have it.
pub(super) struct Sealed {
    frames: Vec<Bytes>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Sealed {
    pub(super) fn new(frames: Vec<Bytes>, permit: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        Arc::new(Self {
            frames,
            _permit: permit,
        })
    }
}

/// One listening socket; it closes when this is dropped.
pub(super) struct Listening {
    peers: Arc<Peers>,
    _task: Task,
}

impl Listening {
    /// Listens at `endpoint` and serves every client that connects.
    pub(super) async fn bind(
        name: &'static str,
        endpoint: &Endpoint,
        kind: SocketRole,
    ) -> io::Result<Self> {
        let listener = Listener::bind(endpoint).await?;
        let peers = Arc::new(Peers {
            name,
            kind,
            table: Mutex::default(),
            serial: AtomicU64::new(0),
        });
        let task = task::spawn("proxy socket", accept(listener, Arc::clone(&peers)));
        Ok(Self { peers, _task: task })
    }

    /// Sends to the peer with that identity. Returns whether there is one.
    pub(super) async fn send_to(&self, identity: &[u8], message: Arc<Sealed>) -> bool {
        let queue = self.peers.lock().get(identity).and_then(Peer::queue);
        match queue {
            Some(queue) => queue.send(message).await.is_ok(),
            None => false,
        }
    }

    /// Sends to all peers that subscribed to a prefix of the first frame.
    pub(super) async fn publish(&self, message: Arc<Sealed>) {
        let topic = message.frames.first().cloned().unwrap_or_default();
        let queues: Vec<_> = self
            .peers
            .lock()
            .values()
            .filter(|peer| peer.topics.iter().any(|prefix| topic.starts_with(prefix)))
            .filter_map(Peer::queue)
            .collect();
        for queue in queues {
            // A peer that has just gone misses nothing it could have seen.
            let _ = queue.send(Arc::clone(&message)).await;
        }
    }

    /// Flushes the queues, then closes the connections.
    pub(super) async fn close(&self) {
        for peer in self.peers.lock().values_mut() {
            peer.queue = None;
        }
        let emptied = async {
            while !self.peers.lock().is_empty() {
                sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = timeout(LINGER, emptied).await;
    }
}

struct Peers {
    name: &'static str,
    kind: SocketRole,
    table: Mutex<BTreeMap<Bytes, Peer>>,
    serial: AtomicU64,
}

struct Peer {
    serial: u64,
    /// `None`: the connection closes as soon as the queue is empty.
    queue: Option<mpsc::Sender<Arc<Sealed>>>,
    topics: Vec<Bytes>,
}

impl Peer {
    fn queue(&self) -> Option<mpsc::Sender<Arc<Sealed>>> {
        self.queue.clone()
    }
}

async fn accept(listener: Listener, peers: Arc<Peers>) {
    let mut served = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if served.len() < PEERS => match accepted {
                Ok((reader, writer)) => served.push(peers.serve(reader, writer)),
                Err(error) => {
                    tracing::warn!(socket = peers.name, %error, "could not accept a connection");
                    sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(()) = served.next() => {}
        }
    }
}

impl Peers {
    /// Serves one connection from the handshake to its end.
    async fn serve(&self, reader: Reading, mut writer: Writing) {
        let mut reader = BufReader::new(reader);
        let socket_type = match self.kind {
            SocketRole::Router { .. } | SocketRole::Echo => "ROUTER",
            SocketRole::Publisher { .. } => "XPUB",
        };
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let identity = match zmtp::shake_hands(&mut reader, &mut writer, socket_type).await {
            // Named as libzmq names anonymous peers: a leading zero byte, which no front end's own identity has.
            Ok(identity) if identity.is_empty() => {
                [&[0], serial.to_be_bytes().as_slice()].concat().into()
            }
            Ok(identity) => identity,
            Err(error) => {
                tracing::debug!(socket = self.name, %error, "a peer did not shake hands");
                return;
            }
        };
        let (queue, queued) = mpsc::channel(QUEUE);
        // Weak: the queue ends with its entry in the table.
        let own_queue = queue.downgrade();
        let (answers, to_answer) = mpsc::channel(4);
        let peer = Peer {
            serial,
            queue: Some(queue),
            topics: Vec::new(),
        };
        // A peer that reconnects under its name replaces itself.
        self.lock().insert(identity.clone(), peer);
        let ended = tokio::select! {
            ended = self.read(&mut reader, &identity, serial, own_queue, answers) => ended,
            ended = write(&mut writer, queued, to_answer) => ended,
        };
        if let Err(error) = ended {
            tracing::debug!(socket = self.name, %error, "a peer has gone");
        }
        let mut table = self.lock();
        if table
            .get(&identity)
            .is_some_and(|peer| peer.serial == serial)
        {
            table.remove(&identity);
        }
    }

    async fn read(
        &self,
        reader: &mut (impl AsyncRead + Unpin),
        identity: &Bytes,
        serial: u64,
        queue: mpsc::WeakSender<Arc<Sealed>>,
        answers: mpsc::Sender<Bytes>,
    ) -> Result<(), Broken> {
        loop {
            let frames = match zmtp::read(reader).await? {
                Received::Message(frames) => frames,
                Received::Ping(answer) => {
                    // Full: it pings faster than it reads the answers.
                    let _ = answers.try_send(answer);
                    continue;
                }
            };
            let answer = match &self.kind {
                SocketRole::Router {
                    channel,
                    signer,
                    requests,
                } => {
                    match RawMessage::open(&frames, signer) {
                        Ok(mut message) => {
                            message.prefix.insert(0, identity.clone());
                            if requests.send((*channel, message)).await.is_err() {
                                return Ok(());
                            }
                        }
                        Err(error) => {
                            tracing::warn!(socket = self.name, %error, "dropped a front end's message");
                        }
                    }
                    continue;
                }
                SocketRole::Publisher { welcome } => {
                    match self.subscribe(identity, serial, &frames) {
                        Some(topic) => welcome(&topic),
                        None => continue,
                    }
                }
                SocketRole::Echo => frames,
            };
            let Some(queue) = queue.upgrade() else {
                return Ok(());
            };
            if queue.send(Sealed::new(answer, None)).await.is_err() {
                return Ok(());
            }
        }
    }

    /// Adds or removes a subscription; returns the topic of a new one.
    fn subscribe(&self, identity: &Bytes, serial: u64, frames: &[Bytes]) -> Option<Bytes> {
        let [frame] = frames else {
            return None;
        };
        let topic = frame.slice(frame.len().min(1)..);
        let mut table = self.lock();
        let peer = table
            .get_mut(identity)
            .filter(|peer| peer.serial == serial)?;
        match frame.first()? {
            1 if peer.topics.len() < TOPICS => {
                let is_new = !peer.topics.contains(&topic);
                peer.topics.push(topic.clone());
                is_new.then_some(topic)
            }
            0 => {
                let at = peer.topics.iter().position(|other| *other == topic)?;
                peer.topics.swap_remove(at);
                None
            }
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Bytes, Peer>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    mut queued: mpsc::Receiver<Arc<Sealed>>,
    mut to_answer: mpsc::Receiver<Bytes>,
) -> Result<(), Broken> {
    loop {
        tokio::select! {
            message = queued.recv() => {
                let Some(message) = message else {
                    writer.shutdown().await?;
                    return Ok(());
                };
                zmtp::write(writer, &message.frames, STALL).await?;
            }
            Some(answer) = to_answer.recv() => zmtp::write_bytes(writer, &answer, STALL).await?,
        }
    }
}

type Reading = Box<dyn AsyncRead + Send + Unpin>;
type Writing = Box<dyn AsyncWrite + Send + Unpin>;

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    async fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(host, port) => {
                // As in libzmq, `*` means every address.
                let host = if host == "*" { "0.0.0.0" } else { host };
                TcpListener::bind((host, *port)).await.map(Self::Tcp)
            }
            Endpoint::Ipc(path) => {
                // An earlier kernel with the same connection file has left its socket.
                if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket()) {
                    std::fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(|listener| Self::Unix(listener, path.clone()))
            }
        }
    }

    async fn accept(&self) -> io::Result<(Reading, Writing)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let (reader, writer) = stream.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let (reader, writer) = stream.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // A failure leaves a dead socket file where jupyter_client looks for one.
            let _ = std::fs::remove_file(path);
        }
    }
}
