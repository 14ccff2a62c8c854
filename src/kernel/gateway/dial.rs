//! A TCP or TLS connection for a gateway's websocket, set up so that no message waits for an acknowledgement.
//!
//! Tornado leaves Nagle's algorithm on: it holds back the second of two small messages until the first is acknowledged,
//! and Linux delays acknowledgements by 40 ms. Every cell would lose that time. [`Prompt`] requests quick
//! acknowledgements around each read, because the operating system resets the option as soon as we write.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use reqwest::Url;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// How long connecting may take, including TLS.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What a websocket runs over.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// TLS for both the requests and the websocket: rustls with ring, and the system's certificates.
///
/// # Errors
/// Usually that the system has no certificates.
pub(super) fn tls_config() -> Result<rustls::ClientConfig, rustls::Error> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth())
}

/// Connects to the host of `url`; with `tls` for https.
///
/// # Errors
/// The operating system's or TLS layer's error; a timeout after [`CONNECT_TIMEOUT`].
pub(super) async fn dial(
    url: &Url,
    tls: Option<&Arc<rustls::ClientConfig>>,
) -> io::Result<Box<dyn Transport>> {
    let host = url.host_str().unwrap_or_default();
    // Only in a URL does an IPv6 address stand in brackets.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_or_known_default().unwrap_or(80);
    let connected = timeout(CONNECT_TIMEOUT, async {
        let stream = TcpStream::connect((host, port)).await?;
        // We send small messages too. A failure only makes it slower.
        let _ = stream.set_nodelay(true);
        let stream = Prompt(stream);
        let Some(tls) = tls else {
            return Ok(Box::new(stream) as Box<dyn Transport>);
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(tls))
            .connect(name, stream)
            .await?;
        Ok(Box::new(stream) as Box<dyn Transport>)
    });
    connected
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A connection that acknowledges at once.
struct Prompt(TcpStream);

impl Prompt {
    fn acknowledge_at_once(&self) {
        // Other systems delay less or not at all.
        #[cfg(target_os = "linux")]
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, true);
    }
}

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, buffer);
        // Both after data, for the bytes that follow, and before a wait, for those that end it.
        self.acknowledge_at_once();
        read
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, bytes);
        // A write makes Linux treat the connection as interactive and delay acknowledgements until the next write.
        self.acknowledge_at_once();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
