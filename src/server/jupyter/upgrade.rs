//! The websocket handshake (RFC 6455, section 4.2) on an existing connection of the server.
//!
//! Written by hand instead of using axum's `ws`, which would add a second version of the library that connects to
//! gateways. Host, origin and token have already been checked, as for every request.

use std::time::Duration;

use axum::extract::Request;
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::super::problem::Problem;
use crate::kernel::Dialect;

/// Maximum bytes of a client's message, the same as for the proxy's sockets.
const MESSAGE: usize = 80 << 20;
/// How long the answer may take to reach the client.
const UPGRADED_WITHIN: Duration = Duration::from_secs(30);

/// A client's request for a websocket.
pub(super) struct Upgrade {
    on: OnUpgrade,
    accept: String,
    /// The protocol that will be used on it.
    pub(super) dialect: Dialect,
}

/// A websocket.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

impl Upgrade {
    pub(super) fn of(mut request: Request) -> Result<Self, Problem> {
        let headers = request.headers();
        let is_wanted = *request.method() == Method::GET
            && lists(headers, &CONNECTION, "upgrade")
            && lists(headers, &UPGRADE, "websocket")
            && lists(headers, &SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| is_wanted);
        let Some(key) = key else {
            return Err(Problem::new(
                StatusCode::UPGRADE_REQUIRED,
                "websocket",
                "a kernel's messages come by websocket",
            ));
        };
        let speaks_v1 = lists(headers, &SEC_WEBSOCKET_PROTOCOL, Dialect::V1_NAME);
        let dialect = if speaks_v1 {
            Dialect::V1
        } else {
            Dialect::Json
        };
        let accept = derive_accept_key(key.as_bytes());
        let on = hyper::upgrade::on(&mut request);
        Ok(Self {
            on,
            accept,
            dialect,
        })
    }

    /// The answer, and a future with the websocket that follows it.
    pub(super) fn accept(self) -> (Response, impl Future<Output = Option<Socket>> + Send) {
        let Self {
            on,
            accept,
            dialect,
        } = self;
        let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = accept.parse() {
            headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
        }
        if dialect == Dialect::V1 {
            let name = HeaderValue::from_static(Dialect::V1_NAME);
            headers.insert(SEC_WEBSOCKET_PROTOCOL, name);
        }
        let socket = async move {
            let upgraded = tokio::time::timeout(UPGRADED_WITHIN, on).await.ok()?.ok()?;
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE))
                .max_frame_size(Some(MESSAGE));
            let io = TokioIo::new(upgraded);
            Some(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
        };
        (response, socket)
    }
}

/// Whether a header's list contains `wanted`.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|value| value.trim().eq_ignore_ascii_case(wanted))
}
