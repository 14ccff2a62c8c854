//! The HTTP proxy: `CONNECT host:port`, and requests for `http://` URLs (RFC 9110, section 9.3.6; RFC 9112, section 3.2).
//!
//! A request is parsed, checked, and written anew, so that no two parsers can disagree about where it ends. A refusal
//! is answered with status 403 and the reason as text.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::policy::{No, Policy, Target, Way};
use super::record::{Book, Made, Metered};
use crate::task;

/// How long a client may take to send the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a server may take to answer a request.
const ANSWER_WITHIN: Duration = Duration::from_mins(10);
/// How long connecting to one address may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Most bytes of a head.
const HEAD: usize = 32 * 1024;
const HEADERS: usize = 100;
/// Headers that apply to one connection only (RFC 9110, section 7.6.1), besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// What all connections of one kernel share.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) policy: Policy,
    pub(super) book: Arc<Book>,
    /// The required `Proxy-Authorization`, if others can reach the proxy.
    pub(super) authorization: Option<String>,
}

pub(super) type Body = BoxBody<Bytes, hyper::Error>;
/// A connection to a server, and its record.
pub(super) type Connected = (Metered<TcpStream>, Made);

/// The HTTP server settings for requests.
pub(super) fn builder() -> hyper::server::conn::http1::Builder {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_headers(HEADERS)
        .max_buf_size(HEAD);
    builder
}

impl Proxy {
    /// Connects to the first of the checked addresses that accepts.
    pub(super) async fn open(&self, target: &Target) -> Result<(Way, Connected), No> {
        let way = self.policy.way(target).await?;
        let mut last = String::new();
        for address in &way.addresses {
            match timeout(CONNECT_WITHIN, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Batching small writes is up to the programs.
                    let _ = stream.set_nodelay(true);
                    let made = self.book.made(&target.host, target.port);
                    let stream = Metered::new(stream, Arc::clone(&made.meter));
                    return Ok((way, (stream, made)));
                }
                Ok(Err(error)) => last = format!("{address}: {error}"),
                Err(_) => last = format!("{address} did not answer"),
            }
        }
        Err(No::Failed(last))
    }

    pub(super) fn not_made(&self, target: &Target, no: No) -> Response<Body> {
        let status = match no {
            No::Refused(_) => StatusCode::FORBIDDEN,
            No::Failed(_) => StatusCode::BAD_GATEWAY,
        };
        text(
            status,
            self.book.not_made(&target.host, Some(target.port), no),
        )
    }

    pub(super) fn refused(&self, host: &str, port: Option<u16>, reason: &str) -> Response<Body> {
        let words = self
            .book
            .not_made(host, port, No::Refused(reason.to_owned()));
        text(StatusCode::FORBIDDEN, words)
    }
}

/// Whether there is exactly one `Host`, and it is `target`.
pub(super) fn is_host(headers: &HeaderMap, target: &Target, usual: u16) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let host = host.to_str().ok();
    host.and_then(|host| Target::parse(host, Some(usual)))
        .as_ref()
        == Some(target)
}

/// Forwards a request and streams the answer back.
pub(super) async fn forward(
    mut request: Request<Incoming>,
    target: &Target,
    (stream, made): Connected,
) -> Response<Body> {
    let failed =
        |error: &dyn std::fmt::Display| text(StatusCode::BAD_GATEWAY, format!("{target}: {error}"));
    let mut client = hyper::client::conn::http1::Builder::new();
    client.max_headers(HEADERS).max_buf_size(HEAD);
    let (mut sender, connection) = match client.handshake(TokioIo::new(stream)).await {
        Ok(both) => both,
        Err(error) => return failed(&error),
    };
    let driving = task::spawn("network", async move {
        // The caller that awaits the response gets the error.
        let _ = connection.await;
    });
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let Ok(uri) = path.parse::<Uri>() else {
        return failed(&"the URL has no path");
    };
    *request.uri_mut() = uri;
    *request.version_mut() = Version::HTTP_11;
    only_end_to_end(request.headers_mut());
    let answered = match timeout(ANSWER_WITHIN, sender.send_request(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return failed(&error),
        Err(_) => return failed(&"it did not answer in time"),
    };
    if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
        return failed(&"the server switched protocols without being asked");
    }
    let (mut head, body) = answered.into_parts();
    only_end_to_end(&mut head.headers);
    head.version = Version::HTTP_11;
    // Kept until the body is done.
    let both = (driving, made);
    let body = body.map_frame(move |frame| {
        let _kept = &both;
        frame
    });
    Response::from_parts(head, body.boxed())
}

/// Removes headers that apply to one connection only.
fn only_end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // These give a message's length and host.
        .filter(|name| *name != header::CONTENT_LENGTH && *name != header::HOST)
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

pub(super) fn text(status: StatusCode, words: String) -> Response<Body> {
    let words = if words.is_empty() {
        words
    } else {
        words + "\n"
    };
    let body = Full::new(Bytes::from(words));
    let mut response = Response::new(body.map_err(|never: Infallible| match never {}).boxed());
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Printable form of what a client sent as host.
pub(super) fn shown(text: &str) -> String {
    let visible = text.chars().filter(char::is_ascii_graphic);
    let visible: String = visible.take(100).collect();
    if visible.is_empty() {
        "a host without a name".to_owned()
    } else {
        visible
    }
}
