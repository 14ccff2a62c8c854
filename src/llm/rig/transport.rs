//! Sends the library's requests through our own HTTP client.
//!
//! The library's bundled transport chooses its TLS set-up at compile time and starts its own runtime; this one is forty
//! lines and shares the session's client.

use std::future::{Future, ready};

use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use rig_core::http_client::{
    Error, HeaderValue, HttpClientExt, LazyBody, MultipartForm, Request, Response, Result,
    StreamingResponse,
};

use super::super::endpoint::{Endpoint, ProviderKind};

/// The session's HTTP client, behind the library's trait.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    client: reqwest::Client,
    header: KeyHeader,
}

/// Which header the key travels in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyHeader {
    /// The library's default header.
    Usual,
    /// `Authorization`, which Bedrock requires on Anthropic's wire too.
    Bearer,
    /// `x-goog-api-key`: the library puts the key into the URL, which proxies and servers log.
    Google,
}

impl Transport {
    pub(super) fn new(client: reqwest::Client, endpoint: &Endpoint) -> Self {
        Self {
            client,
            header: match endpoint.kind {
                ProviderKind::Bedrock => KeyHeader::Bearer,
                ProviderKind::Gemini => KeyHeader::Google,
                _ => KeyHeader::Usual,
            },
        }
    }

    fn send_bytes(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<reqwest::Response>> + Send + 'static {
        let (mut parts, body) = request.into_parts();
        let mut url = parts.uri.to_string();
        match self.header {
            KeyHeader::Usual => {}
            KeyHeader::Bearer => {
                if let Some(key) = parts.headers.remove("x-api-key")
                    && let Ok(key) = HeaderValue::try_from([b"Bearer ", key.as_bytes()].concat())
                {
                    parts.headers.insert("authorization", key);
                }
            }
            KeyHeader::Google => {
                if let Some((clean, key)) = without_key(&url) {
                    if let Ok(key) = HeaderValue::try_from(key) {
                        parts.headers.insert("x-goog-api-key", key);
                    }
                    url = clean;
                }
            }
        }
        let request = self
            .client
            .request(parts.method, url)
            .headers(parts.headers)
            .body(body);
        async move { request.send().await.map_err(failed) }
    }
}

impl HttpClientExt for Transport {
    fn send<T, U>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        T: Into<Bytes> + Send,
        U: From<Bytes> + Send + 'static,
    {
        let sent = self.send_bytes(request.map(Into::into));
        async move {
            let response = sent.await?;
            let head = head(&response);
            let body: LazyBody<U> = Box::pin(async move {
                let bytes = response.bytes().await.map_err(failed)?;
                Ok(U::from(bytes))
            });
            Ok(head.map(|()| body))
        }
    }

    /// Never called: none of our wires uploads files.
    fn send_multipart<U>(
        &self,
        _request: Request<MultipartForm>,
    ) -> impl Future<Output = Result<Response<LazyBody<U>>>> + Send + 'static
    where
        U: From<Bytes> + Send + 'static,
    {
        ready(Err(Error::instance(std::io::Error::from(
            std::io::ErrorKind::Unsupported,
        ))))
    }

    /// The response, whatever its status: the library reads a refusal's body itself, within bounds.
    fn send_streaming<T>(
        &self,
        request: Request<T>,
    ) -> impl Future<Output = Result<StreamingResponse>> + Send
    where
        T: Into<Bytes> + Send,
    {
        let sent = self.send_bytes(request.map(Into::into));
        async move {
            let response = sent.await?;
            let head = head(&response);
            let chunks = response.bytes_stream().map_err(failed);
            Ok(head.map(|()| Box::pin(chunks) as _))
        }
    }
}

/// The URL without `key` in its query, and the key.
fn without_key(url: &str) -> Option<(String, String)> {
    let mut clean = reqwest::Url::parse(url).ok()?;
    let (keys, others): (Vec<_>, Vec<_>) = clean
        .query_pairs()
        .into_owned()
        .partition(|(name, _)| name == "key");
    let (_, key) = keys.into_iter().next()?;
    clean.set_query(None);
    if !others.is_empty() {
        clean.query_pairs_mut().extend_pairs(others);
    }
    Some((clean.into(), key))
}

fn head(response: &reqwest::Response) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = response.status();
    head.headers_mut().clone_from(response.headers());
    head
}

/// Drops the URL, which may contain a key.
fn failed(error: reqwest::Error) -> Error {
    Error::instance(error.without_url())
}
