//! Sends the library's requests through our own HTTP client.
//!
//! The library's bundled transport would do too, but it picks its TLS set-up at compile time and
//! starts a runtime of its own; ours is forty lines and shares the session's client.

use std::future::{Future, ready};

use bytes::Bytes;
use futures_util::stream::TryStreamExt;
use rig_core::http_client::{
    Error, HttpClientExt, LazyBody, MultipartForm, Request, Response, Result, StreamingResponse,
};

/// The session's HTTP client, as the library wants one.
#[derive(Debug, Clone)]
pub(super) struct Transport(reqwest::Client);

impl Transport {
    pub(super) fn new(client: reqwest::Client) -> Self {
        Self(client)
    }

    fn send_bytes(
        &self,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<reqwest::Response>> + Send + 'static {
        let (parts, body) = request.into_parts();
        let request = self
            .0
            .request(parts.method, parts.uri.to_string())
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

    /// The response whatever its status: the library reads a refusal's body itself, within bounds.
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

fn head(response: &reqwest::Response) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = response.status();
    head.headers_mut().clone_from(response.headers());
    head
}

/// Gemini's key travels in the URL, which must not travel in an error.
fn failed(error: reqwest::Error) -> Error {
    Error::instance(error.without_url())
}
