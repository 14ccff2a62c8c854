//! Sockets: limits the number of connections, the size and time of headers, and cuts clients that accept nothing.

use std::fmt;
use std::future::Future as _;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

use super::Listen;
use crate::error::{Failure, FailureKind};
use crate::task::{self, Task};

/// Lower and upper bound of the connection limit; further connections wait to be accepted.
const CONNECTIONS: RangeInclusive<u64> = 256..=16_384;
/// How long a request's head may take, and how long a connection may be idle.
const HEAD_WITHIN: Duration = Duration::from_secs(30);
/// Maximum headers of a request.
const HEADERS: usize = 64;
/// Maximum bytes of a request's head, and of the read buffer.
const HEAD: usize = 64 << 10;
/// A connection that accepts no byte for this long is cut; its client can continue with the id of its last item.
const STALLED: Duration = Duration::from_secs(30);
/// How long connections may take to end with the server.
const END_WITHIN: Duration = Duration::from_secs(3);

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    /// The local address that it connected to; `None` for a unix socket.
    pub(super) own: Option<IpAddr>,
}

/// A listening socket.
pub(super) enum Socket {
    Tcp(TcpListener, SocketAddr),
    /// With the directory that was created for it, if any.
    Unix(UnixListener, PathBuf, Option<PathBuf>),
}

impl Socket {
    pub(super) async fn bind(at: &Listen) -> Result<Self, Failure> {
        match at {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).await;
                let listener = listener.and_then(|it| it.local_addr().map(|at| (it, at)));
                let (listener, at) = listener.map_err(|error| {
                    Failure::new(
                        FailureKind::Failed,
                        format!("could not listen at {address}: {error}"),
                    )
                    .hint("choose another port with --listen; port 0 takes a free one")
                })?;
                Ok(Self::Tcp(listener, at))
            }
            Listen::Unix(path) => {
                let (listener, made) = unix(path).map_err(|error| {
                    let path = path.display();
                    Failure::new(
                        FailureKind::Failed,
                        format!("could not listen at `{path}`: {error}"),
                    )
                })?;
                Ok(Self::Unix(listener, path.clone(), made))
            }
        }
    }

    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, address) => Some(*address),
            Self::Unix(..) => None,
        }
    }

    pub(super) fn port(&self) -> Option<u16> {
        self.address().map(|it| it.port())
    }

    /// The next connection: on a unix socket only from this person, on a port from anyone, who must send a token.
    async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept().await?;
                // Events are small and must not be delayed.
                stream.set_nodelay(true)?;
                let own = Some(stream.local_addr()?.ip().to_canonical());
                Ok((Stream(Box::pin(stream)), Peer { own }))
            }
            Self::Unix(listener, ..) => loop {
                let (stream, _) = listener.accept().await?;
                let own = rustix::process::geteuid().as_raw();
                if stream.peer_cred()?.uid() == own {
                    return Ok((Stream(Box::pin(stream)), Peer { own: None }));
                }
            },
        }
    }
}

/// Listens at `path`. A missing directory is created for this person only, and removed with the socket.
fn unix(path: &std::path::Path) -> io::Result<(UnixListener, Option<PathBuf>)> {
    // A socket without a listener was left by a run that was killed.
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && metadata.file_type().is_socket()
        && std::os::unix::net::UnixStream::connect(path).is_err()
    {
        std::fs::remove_file(path)?;
    }
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let missing = parent.filter(|it| !it.exists());
    if let Some(missing) = missing {
        std::fs::DirBuilder::new().mode(0o700).create(missing)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok((listener, missing.map(std::path::Path::to_owned)))
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Self::Unix(_, path, made) = self {
            let _ = std::fs::remove_file(path);
            if let Some(made) = made {
                let _ = std::fs::remove_dir(made);
            }
        }
    }
}

impl fmt::Display for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(_, address) => write!(f, "http://{address}"),
            Self::Unix(_, path, _) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The sockets that are being served.
pub(super) struct Listening {
    accepting: Vec<Task>,
    /// Connections end after their current request.
    ends: CancellationToken,
    /// Connections end immediately.
    now: CancellationToken,
    connections: TaskTracker,
}

impl Listening {
    pub(super) fn stop_accepting(&self) {
        self.ends.cancel();
    }

    /// Waits briefly for the last answers.
    pub(super) async fn finish(self) {
        drop(self.accepting);
        self.connections.close();
        if tokio::time::timeout(END_WITHIN, self.connections.wait())
            .await
            .is_err()
        {
            self.now.cancel();
            let _ = tokio::time::timeout(END_WITHIN, self.connections.wait()).await;
        }
    }
}

pub(super) fn serve(sockets: Vec<Socket>, router: &Router) -> Listening {
    let ends = CancellationToken::new();
    let now = CancellationToken::new();
    let connections = TaskTracker::new();
    let slots = Arc::new(Semaphore::new(connections_at_most()));
    let accepting = sockets.into_iter().map(|socket| {
        let acceptor = Acceptor {
            router: router.clone(),
            ends: ends.clone(),
            now: now.clone(),
            connections: connections.clone(),
            slots: Arc::clone(&slots),
        };
        task::spawn("listener", acceptor.run(socket))
    });
    Listening {
        accepting: accepting.collect(),
        ends,
        now,
        connections,
    }
}

/// Three quarters of this process's open-file limit: kernels need the rest.
fn connections_at_most() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = files.map_or(*CONNECTIONS.end(), |files| files - files / 4);
    let most = most.clamp(*CONNECTIONS.start(), *CONNECTIONS.end());
    usize::try_from(most).unwrap_or(usize::MAX)
}

struct Acceptor {
    router: Router,
    ends: CancellationToken,
    now: CancellationToken,
    connections: TaskTracker,
    slots: Arc<Semaphore>,
}

impl Acceptor {
    async fn run(self, socket: Socket) {
        loop {
            let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
                return;
            };
            let accepted = tokio::select! {
                () = self.ends.cancelled() => return,
                accepted = socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.start(stream, peer, slot),
                Err(error) => {
                    // For example, too many files are open; existing connections continue.
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn start(&self, stream: Stream, peer: Peer, slot: OwnedSemaphorePermit) {
        let (router, ends, now) = (self.router.clone(), self.ends.clone(), self.now.clone());
        let token = self.connections.token();
        let serving = async move {
            let _held = (slot, token);
            tokio::select! {
                () = now.cancelled() => {}
                () = connection(stream, peer, router, ends) => {}
            }
        };
        task::spawn("connection", serving).detach();
    }
}

async fn connection(stream: Stream, peer: Peer, router: Router, ends: CancellationToken) {
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.clone().call(request)
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(HEADERS)
        .max_header_size(HEAD)
        .max_buf_size(2 * HEAD)
        .serve_connection(TokioIo::new(Patient::new(stream, STALLED)), service)
        .with_upgrades();
    tokio::pin!(served);
    let mut is_ending = false;
    loop {
        tokio::select! {
            outcome = served.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a connection broke");
                }
                return;
            }
            () = ends.cancelled(), if !is_ending => {
                is_ending = true;
                served.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A connection of either kind.
struct Stream(Pin<Box<dyn Duplex>>);

trait Duplex: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// A stream that fails if the other end accepts nothing for too long.
struct Patient {
    stream: Stream,
    patience: Duration,
    sleep: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl Patient {
    fn new(stream: Stream, patience: Duration) -> Self {
        Self {
            stream,
            patience,
            sleep: Box::pin(tokio::time::sleep(patience)),
            is_waiting: false,
        }
    }

    /// The result of a write, or an error if writes made no progress for too long.
    fn patiently<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.is_waiting = false;
            return wrote;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            let until = Instant::now() + self.patience;
            self.sleep.as_mut().reset(until);
        }
        ready!(self.sleep.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client takes nothing",
        )))
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream.0.as_mut().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.stream.0.as_mut().poll_write(cx, bytes);
        self.patiently(cx, wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.stream.0.as_mut().poll_flush(cx);
        self.patiently(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = self.stream.0.as_mut().poll_shutdown(cx);
        self.patiently(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.stream.0.as_mut().poll_write_vectored(cx, slices);
        self.patiently(cx, wrote)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_cut() {
        let (ours, theirs) = tokio::io::duplex(16);
        let mut patient = Patient::new(Stream(Box::pin(ours)), Duration::from_millis(50));
        patient.write_all(&[0; 16]).await.unwrap();
        let error = patient.write_all(&[0; 1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
