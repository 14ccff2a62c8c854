//! Connecting to a socket of a kernel that may not be there yet.

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout_at};

use super::quiet::{Reading, Writing, halves};
use crate::jupyter::connection::Endpoint;

/// Delay between attempts to connect to a socket that does not exist yet.
pub(super) const POLL: Duration = Duration::from_millis(3);

/// Nobody accepts connections at an endpoint.
#[derive(Debug, Error)]
#[error("nothing listens at {endpoint:?} after {waited:?}")]
pub struct NotListening {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// How long we tried.
    pub waited: Duration,
    /// The last attempt's error.
    #[source]
    pub last: io::Error,
}

/// Returns as soon as `endpoint` accepts a connection. `zeromq` itself would retry after 50, 100, 200 ... ms. Not
/// needed before [`Guard::start`], which waits by itself.
pub async fn wait_until_listening(
    endpoint: &Endpoint,
    deadline: Instant,
) -> Result<(), NotListening> {
    reach(endpoint, deadline).await.map(drop)
}

/// A connection to a kernel's socket.
pub(super) enum Peer {
    Unix((Reading, Writing)),
    Tcp(TcpStream),
}

/// Retries until it connects.
pub(super) async fn reach(endpoint: &Endpoint, deadline: Instant) -> Result<Peer, NotListening> {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, NotFound, WouldBlock,
    };

    let begun = Instant::now();
    let failed = |last| NotListening {
        endpoint: endpoint.clone(),
        waited: begun.elapsed(),
        last,
    };
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    loop {
        match timeout_at(deadline, connect(endpoint)).await {
            Ok(Ok(peer)) => return Ok(peer),
            Ok(Err(error)) => match error.kind() {
                // Not bound, not listening, or its backlog is full: the kernel is still starting.
                NotFound | ConnectionRefused | ConnectionReset | ConnectionAborted | WouldBlock
                | Interrupted => {
                    last = error;
                }
                _ => return Err(failed(error)),
            },
            Err(_) => return Err(failed(last)),
        }
        if Instant::now() + POLL >= deadline {
            return Err(failed(last));
        }
        sleep(POLL).await;
    }
}

async fn connect(endpoint: &Endpoint) -> io::Result<Peer> {
    match endpoint {
        Endpoint::Ipc(path) => halves(UnixStream::connect(path).await?).map(Peer::Unix),
        Endpoint::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Peer::Tcp(stream))
        }
    }
}
