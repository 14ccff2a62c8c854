//! Serves the clients of a kernel's proxy: `CONNECT`, requests with an absolute URL, and notices of lookups.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::uri::Authority;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::policy::{NOT_LISTED, Target};
use super::proxy::{Body, Proxy, builder, forward, is_host, shown, text};
use super::record::{Meter, Metered};
use super::tunnel::Tunnel;

/// How long a connection may be silent.
const SILENCE: Duration = Duration::from_mins(15);
/// The method with which the inner end reports the lookup of a name that is not allowed.
pub(super) const LOOKUP: &str = "LOOKUP";

/// Serves one client until it ends.
pub(super) async fn serve<S>(stream: S, proxy: Arc<Proxy>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let meter = Arc::<Meter>::default();
    let stream = Metered::new(stream, Arc::clone(&meter));
    let work = async {
        let opened = Mutex::new(None);
        let answer = service_fn(|request| {
            let (proxy, opened) = (&proxy, &opened);
            async move { Ok::<_, Infallible>(proxy.answer(request, opened).await) }
        });
        let served = builder()
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades()
            .await;
        if let Err(error) = served {
            tracing::debug!(%error, "a client of the network proxy");
        }
        let tunnel = opened.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(tunnel) = tunnel {
            Tunnel::run(tunnel, &proxy).await;
        }
    };
    tokio::select! {
        () = work => {}
        () = meter.silent_for(SILENCE) => {}
    }
}

impl Proxy {
    async fn answer(
        &self,
        request: Request<Incoming>,
        opened: &Mutex<Option<Tunnel>>,
    ) -> Response<Body> {
        if !self.is_authorized(request.headers()) {
            let mut response = text(
                StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                "this proxy serves one sandbox".to_owned(),
            );
            let basic = HeaderValue::from_static("Basic realm=\"sandbox\"");
            response
                .headers_mut()
                .insert(header::PROXY_AUTHENTICATE, basic);
            return response;
        }
        if request.method() == Method::CONNECT {
            return self.connect(request, opened).await;
        }
        let target = match absolute(&request) {
            Ok(target) => target,
            Err((host, reason)) => return self.refused(&host, None, reason),
        };
        if request.method().as_str() == LOOKUP {
            return if self.policy.is_known(&target.host) {
                text(StatusCode::OK, String::new())
            } else {
                self.refused(&target.host, None, NOT_LISTED)
            };
        }
        match self.open(&target).await {
            Ok((_, connected)) => forward(request, &target, connected).await,
            Err(no) => self.not_made(&target, no),
        }
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(wanted) = &self.authorization else {
            return true;
        };
        let given = headers.get(header::PROXY_AUTHORIZATION);
        given.is_some_and(|given| given.as_bytes() == wanted.as_bytes())
    }

    async fn connect(
        &self,
        request: Request<Incoming>,
        opened: &Mutex<Option<Tunnel>>,
    ) -> Response<Body> {
        let authority = request.uri().authority().map(Authority::as_str);
        let Some(target) = authority.and_then(|authority| Target::parse(authority, None)) else {
            let host = shown(authority.unwrap_or_default());
            return self.refused(&host, None, "it is not `host:port`");
        };
        match self.open(&target).await {
            Ok((way, connected)) => {
                let tunnel = Tunnel {
                    target,
                    is_raw: way.is_raw,
                    connected,
                    upgrade: hyper::upgrade::on(request),
                };
                *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(tunnel);
                text(StatusCode::OK, String::new())
            }
            Err(no) => self.not_made(&target, no),
        }
    }
}

/// The host of an absolute URL, if `Host` agrees.
fn absolute(request: &Request<Incoming>) -> Result<Target, (String, &'static str)> {
    let uri = request.uri();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let wrong = |reason| (shown(authority), reason);
    match uri.scheme_str() {
        Some("http") => {}
        Some(_) => return Err(wrong("only `http` URLs are proxied this way")),
        None => return Err(wrong("a proxy request needs an absolute URL")),
    }
    let target = Target::parse(authority, Some(80)).ok_or_else(|| wrong("this is not a host"))?;
    if is_host(request.headers(), &target, 80) {
        Ok(target)
    } else {
        Err(wrong("`Host` is not the host of the URL"))
    }
}
