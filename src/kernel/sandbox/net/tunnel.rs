//! Checks what goes through `CONNECT`. On ports 80 and 443 only TLS or HTTP for the requested name may pass. Other
//! ports were named by the user, and may carry any protocol.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::timeout;

use super::policy::Target;
use super::proxy::{self, Connected, Proxy};
use super::sni::{self, Hello};

/// How long a client may take to name its server.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
const BUFFER: usize = 16 * 1024;
/// How HTTP/1 requests begin.
const METHODS: [&[u8]; 9] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"DELETE ",
    b"OPTIONS ",
    b"PATCH ",
    b"PROPFIND ",
    b"TRACE ",
];

/// A connection that a client opened with `CONNECT`.
pub(super) struct Tunnel {
    pub(super) target: Target,
    /// Whether any protocol may be spoken.
    pub(super) is_raw: bool,
    pub(super) connected: Connected,
    pub(super) upgrade: OnUpgrade,
}

/// What to do with a tunnel after its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    More,
    Pass,
    Http,
    Refuse(String),
}

impl Tunnel {
    pub(super) async fn run(self, proxy: &Proxy) {
        let Ok(Ok(client)) = timeout(HELLO_WITHIN, self.upgrade).await else {
            return;
        };
        let mut client = TokioIo::new(client);
        let (mut server, made) = self.connected;
        let mut first = Vec::new();
        let verdict = if self.is_raw {
            // The server may speak first.
            let copying = first_bytes_of_two(&mut client, &mut server, &mut first, &self.target);
            copying.await
        } else {
            let reading = first_bytes(&mut client, &mut first, &self.target);
            match timeout(HELLO_WITHIN, reading).await {
                Ok(verdict) => verdict,
                Err(_) => Ok(Verdict::Refuse(
                    "the client did not name a server in time".to_owned(),
                )),
            }
        };
        match verdict {
            Ok(Verdict::Pass) => {
                if server.write_all(&first).await.is_ok() {
                    // A broken connection has simply ended.
                    let _ = tokio::io::copy_bidirectional_with_sizes(
                        &mut client,
                        &mut server,
                        BUFFER,
                        BUFFER,
                    )
                    .await;
                }
            }
            Ok(Verdict::Http) => {
                let client = Begun {
                    begin: first,
                    read: 0,
                    rest: client,
                };
                requests(client, &self.target, (server, made), proxy).await;
            }
            Ok(Verdict::Refuse(reason)) => {
                let Target { host, port } = &self.target;
                made.refused();
                // The client only sees the connection end.
                drop(proxy.refused(host, Some(*port), &reason));
            }
            Ok(Verdict::More) | Err(_) => {}
        }
    }
}

/// Reads until it is clear what the client wants; `More` if it sends nothing.
async fn first_bytes(
    client: &mut (impl AsyncRead + Unpin),
    first: &mut Vec<u8>,
    target: &Target,
) -> io::Result<Verdict> {
    loop {
        let read = client.read_buf(first).await?;
        match judge(first, target, false) {
            Verdict::More if read > 0 => {}
            Verdict::More if !first.is_empty() => {
                let reason = "the client disconnected before naming a server";
                return Ok(Verdict::Refuse(reason.to_owned()));
            }
            verdict => return Ok(verdict),
        }
    }
}

/// The same, while passing on what the server sends.
async fn first_bytes_of_two(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut (impl AsyncRead + Unpin),
    first: &mut Vec<u8>,
    target: &Target,
) -> io::Result<Verdict> {
    let mut said = vec![0; BUFFER];
    let mut server_ended = false;
    loop {
        tokio::select! {
            read = client.read_buf(first) => {
                let read = read?;
                match judge(first, target, true) {
                    Verdict::More if read > 0 => {}
                    // The rest would make no difference.
                    Verdict::More => return Ok(Verdict::Pass),
                    verdict => return Ok(verdict),
                }
            }
            read = server.read(&mut said), if !server_ended => {
                let read = read?;
                server_ended = read == 0;
                if server_ended {
                    client.shutdown().await?;
                }
                client.write_all(said.get(..read).unwrap_or_default()).await?;
            }
        }
    }
}

fn judge(first: &[u8], target: &Target, is_raw: bool) -> Verdict {
    if first.is_empty() {
        return Verdict::More;
    }
    match sni::read(first) {
        Hello::Tls(Some(name)) if name.trim_end_matches('.') == target.host => Verdict::Pass,
        Hello::Tls(None) if target.is_address() => Verdict::Pass,
        Hello::Tls(Some(name)) => {
            Verdict::Refuse(format!("TLS inside it names another host, `{name}`"))
        }
        Hello::Tls(None) => {
            Verdict::Refuse("within it TLS is spoken without a name (SNI)".to_owned())
        }
        Hello::Incomplete => Verdict::More,
        Hello::Broken(what) => Verdict::Refuse(format!("its ClientHello cannot be read: {what}")),
        Hello::Other if METHODS.iter().any(|method| first.starts_with(method)) => Verdict::Http,
        Hello::Other if METHODS.iter().any(|method| method.starts_with(first)) => Verdict::More,
        Hello::Other if is_raw => Verdict::Pass,
        Hello::Other => {
            Verdict::Refuse("within it something is spoken that is neither TLS nor HTTP".to_owned())
        }
    }
}

/// Forwards each request of an HTTP client if it is for the host of the tunnel.
async fn requests<S>(client: S, target: &Target, connected: Connected, proxy: &Proxy)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let first = Mutex::new(Some(connected));
    let answer = service_fn(|request: Request<Incoming>| {
        let first = &first;
        async move {
            let Target { host, port } = target;
            if request.uri().authority().is_some()
                || !proxy::is_host(request.headers(), target, *port)
            {
                let reason = "within it an HTTP request inside it names another host";
                return Ok::<_, Infallible>(proxy.refused(host, Some(*port), reason));
            }
            let ready = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let connected = match ready {
                Some(connected) => Ok(connected),
                None => proxy.open(target).await.map(|(_, connected)| connected),
            };
            Ok(match connected {
                Ok(connected) => proxy::forward(request, target, connected).await,
                Err(no) => proxy.not_made(target, no),
            })
        }
    });
    let served = proxy::builder().serve_connection(TokioIo::new(client), answer);
    if let Err(error) = served.await {
        tracing::debug!(%error, "HTTP within a tunnel");
    }
}

/// A stream with some bytes already read.
struct Begun<S> {
    begin: Vec<u8>,
    read: usize,
    rest: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let left = this.begin.get(this.read..).unwrap_or_default();
        if left.is_empty() {
            return Pin::new(&mut this.rest).poll_read(context, buffer);
        }
        let count = left.len().min(buffer.remaining());
        buffer.put_slice(left.get(..count).unwrap_or_default());
        this.read += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_shutdown(context)
    }
}
