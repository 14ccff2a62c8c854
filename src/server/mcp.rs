//! The Model Context Protocol over HTTP ("Streamable HTTP") at `/mcp`, in both of its versions (`docs/mcp.md`).
//!
//! Since 2026-07-28, each request is independent, and closing the answer's stream cancels it. Before that, there is a
//! handshake with an `Mcp-Session-Id`, and a request runs to its end even if its connection breaks. In both versions,
//! code sessions are found by name, so that a client that returns finds its variables.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request as HttpRequest, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::mcp_state::{Handshake, McpState};
use super::operation::{Add, operation};
use super::state::Shared;
use crate::mcp::{self, Call, Caller, LEGACY, MODERN, McpServer};
use crate::rpc::{self, Incoming, Request, RpcError, answer};
use crate::task::{self, Task};

/// Maximum bytes of a message: it may contain a file in base64.
const LARGEST: usize = 96 << 20;
/// How long it may take to arrive.
const WITHIN: Duration = Duration::from_mins(1);
/// Proxies close connections that are silent for a long time.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many messages may wait for a client to read.
const OUTBOX: usize = 64;
/// Maximum simultaneous requests of a client with a handshake.
const AT_ONCE: usize = 64;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: &str = "mcp-protocol-version";
/// A version that the specification lets a server assume after a handshake, and that clients name without implementing
/// it.
const ASSUMED: &str = "2025-03-26";

/// Adds the route.
pub(super) fn routes(add: &mut Add<'_>) {
    add(
        "/mcp",
        post(message)
            .get(changes)
            .delete(forget)
            .layer(DefaultBodyLimit::max(LARGEST)),
        vec![
            operation("post", "MCP: a message (docs/mcp.md)"),
            operation("get", "MCP: changes, for a client with a handshake"),
            operation("delete", "MCP: the end of a client with a handshake"),
        ],
    );
}

/// Takes a message.
async fn message(State(shared): State<Arc<Shared>>, request: HttpRequest) -> Response {
    let headers = request.headers().clone();
    let body = tokio::time::timeout(WITHIN, Bytes::from_request(request, &())).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(rejection)) => {
            let error = RpcError::invalid_request(rejection.body_text());
            return refused(rejection.status(), &Value::Null, &error);
        }
        Err(_) => {
            let error = RpcError::invalid_request("the message did not arrive in time");
            return refused(StatusCode::REQUEST_TIMEOUT, &Value::Null, &error);
        }
    };
    match rpc::parse(&body) {
        Err(broken) => failed(&broken.0, &broken.1),
        Ok(Incoming::Request(request)) => {
            let id = request.id.clone();
            match answered(&shared.mcp, &headers, request).await {
                Ok(response) => response,
                Err(error) => failed(&id, &error),
            }
        }
        Ok(Incoming::Response { id, outcome }) => {
            if let Some(client) = client(&shared.mcp, &headers) {
                client.questions.answer(&id, outcome);
            }
            StatusCode::ACCEPTED.into_response()
        }
        Ok(Incoming::Notification { method, params }) => {
            let client = client(&shared.mcp, &headers);
            if let Some(client) = client.filter(|_| method == "notifications/cancelled") {
                let id = params.get("requestId").map(Value::to_string);
                let token = id.and_then(|id| client.running().remove(&id));
                if let Some(token) = token {
                    token.cancel();
                }
            }
            StatusCode::ACCEPTED.into_response()
        }
    }
}

async fn answered(
    state: &McpState,
    headers: &HeaderMap,
    request: Request,
) -> Result<Response, RpcError> {
    let version = header(headers, VERSION);
    let said = Caller::of_request(&request.params);
    let is_legacy = match version {
        Some(version) => LEGACY.contains(&version) || version == ASSUMED,
        None => matches!(said, Ok(None)),
    };
    if is_legacy {
        if !matches!(said, Ok(None)) {
            return Err(mismatch("MCP-Protocol-Version", version, MODERN));
        }
        return after_handshake(state, headers, request).await;
    }
    let version = version.ok_or_else(|| mismatch("MCP-Protocol-Version", None, MODERN))?;
    let caller = match said {
        Ok(Some(_)) if version != MODERN => {
            return Err(mismatch("MCP-Protocol-Version", Some(version), MODERN));
        }
        // An unknown version, and the header names a different one.
        Err(error) if error.code == -32022 => {
            let requested = error.data.as_ref().and_then(|it| it.get("requested"));
            let requested = requested.and_then(Value::as_str).unwrap_or_default();
            return Err(if requested == version {
                error
            } else {
                mismatch("MCP-Protocol-Version", Some(version), requested)
            });
        }
        Err(error) => return Err(error),
        Ok(None) => return Err(mcp::unintroduced()),
        Ok(Some(caller)) => caller,
    };
    check_headers(headers, &request)?;
    let (outlet, messages) = mpsc::channel(OUTBOX);
    let call = Call {
        caller,
        outlet,
        questions: Arc::default(),
    };
    let server = state.server.clone();
    if !streams(headers, &request) {
        return Ok(json(
            StatusCode::OK,
            &answer(&request.id, Ok(server.answer(&request, &call).await?)),
        ));
    }
    let task = task::spawn("mcp request", async move {
        carry_out(&server, &request, call).await;
    });
    // The request ends with the stream.
    Ok(stream(messages, Some(task)))
}

/// Carries out a request; its answer follows all earlier messages about it.
async fn carry_out(server: &McpServer, request: &Request, call: Call) {
    let outcome = server.answer(request, &call).await;
    // A client that is gone needs no answer.
    let _ = call.outlet.send(answer(&request.id, outcome)).await;
}

/// Handles a client that is doing or has done the handshake.
async fn after_handshake(
    state: &McpState,
    headers: &HeaderMap,
    request: Request,
) -> Result<Response, RpcError> {
    if request.method == "initialize" {
        let (caller, result) = McpServer::introduced(&request.params);
        let id = state.enter(caller);
        let mut response = json(StatusCode::OK, &answer(&request.id, Ok(result)));
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(SESSION, id);
        }
        return Ok(response);
    }
    let Some(named) = header(headers, SESSION.as_str()) else {
        return Err(mcp::unintroduced());
    };
    let client = state.get(named).ok_or_else(|| RpcError {
        http: StatusCode::NOT_FOUND.as_u16(),
        ..RpcError::invalid_request("this Mcp-Session-Id is not known (any more): initialize again")
    })?;
    if client.followed.take(&request) {
        let nothing = Value::Object(Map::new());
        return Ok(json(StatusCode::OK, &answer(&request.id, Ok(nothing))));
    }
    let (outlet, messages) = mpsc::channel(OUTBOX);
    let call = Call {
        caller: client.caller.clone(),
        outlet,
        questions: Arc::clone(&client.questions),
    };
    let server = state.server.clone();
    if !streams(headers, &request) {
        let outcome = server.answer(&request, &call).await;
        return Ok(json(StatusCode::OK, &answer(&request.id, outcome)));
    }
    let (key, token) = (request.id.to_string(), CancellationToken::new());
    {
        let mut running = client.running();
        if running.contains_key(&key) || running.len() >= AT_ONCE {
            return Err(RpcError::invalid_request(
                "a request of this id is being carried out, or there are too many at a time",
            ));
        }
        running.insert(key.clone(), token.clone());
    }
    task::spawn("mcp request", async move {
        tokio::select! {
            () = token.cancelled() => {}
            () = carry_out(&server, &request, call) => {}
        }
        client.running().remove(&key);
    })
    .detach();
    Ok(stream(messages, None))
}

/// Streams changes to a client with a handshake.
async fn changes(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let Some(client) = client(&shared.mcp, &headers) else {
        // Other clients use a request to listen.
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let (outbox, messages) = mpsc::channel(OUTBOX);
    let (server, followed) = (shared.mcp.server.clone(), client.followed.clone());
    let task = task::spawn("mcp changes", async move {
        server.tell_changes(followed, outbox).await;
    });
    stream(messages, Some(task))
}

/// Ends a client's handshake session; code sessions stay.
async fn forget(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> StatusCode {
    match header(&headers, SESSION.as_str()) {
        None => StatusCode::METHOD_NOT_ALLOWED,
        Some(named) if shared.mcp.forget(named) => StatusCode::NO_CONTENT,
        Some(_) => StatusCode::NOT_FOUND,
    }
}

fn client(state: &McpState, headers: &HeaderMap) -> Option<Arc<Handshake>> {
    state.get(header(headers, SESSION.as_str())?)
}

/// Checks that the headers match the body (2026-07-28, "Server Validation").
fn check_headers(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    let method = header(headers, "mcp-method");
    if method != Some(&request.method) {
        return Err(mismatch("Mcp-Method", method, &request.method));
    }
    let named = match request.method.as_str() {
        "tools/call" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    let wanted = request.params.get(named).and_then(Value::as_str);
    let wanted = wanted.unwrap_or_default();
    let given = header(headers, "mcp-name");
    if given.and_then(decoded).as_deref() == Some(wanted) {
        Ok(())
    } else {
        Err(mismatch("Mcp-Name", given, wanted))
    }
}

fn mismatch(name: &str, given: Option<&str>, wanted: &str) -> RpcError {
    RpcError::header_mismatch(match given {
        Some(given) => format!("the header {name} is `{given}`, and the body says `{wanted}`"),
        None => format!("the header {name} is missing; the body says `{wanted}`"),
    })
}

/// A header's value, which is base64 if it could not be sent as plain text.
fn decoded(value: &str) -> Option<String> {
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether the answer is a stream: other messages may come before it, and the client accepts one.
fn streams(headers: &HeaderMap, request: &Request) -> bool {
    let takes = header(headers, ACCEPT.as_str());
    let takes = takes.is_some_and(|takes| takes.contains("text/event-stream"));
    let is_long = matches!(
        request.method.as_str(),
        "tools/call" | "subscriptions/listen"
    );
    takes && is_long
}

/// Streams messages as server-sent events until they end. `task` ends with the stream.
fn stream(messages: mpsc::Receiver<Value>, task: Option<Task>) -> Response {
    let events = futures_util::stream::unfold((messages, task), |(mut messages, task)| async {
        let event = match tokio::time::timeout(HEARTBEAT, messages.recv()).await {
            Err(_) => Bytes::from_static(b":\n\n"),
            // JSON has line breaks only outside its strings, and this text has none.
            Ok(Some(message)) => format!("event: message\ndata: {message}\n\n").into(),
            Ok(None) => return None,
        };
        Some((Ok::<_, Infallible>(event), (messages, task)))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        // nginx would buffer messages.
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

fn failed(id: &Value, error: &RpcError) -> Response {
    let status = StatusCode::from_u16(error.http).unwrap_or(StatusCode::BAD_REQUEST);
    refused(status, id, error)
}

fn refused(status: StatusCode, id: &Value, error: &RpcError) -> Response {
    json(status, &error.answer(id))
}

fn json(status: StatusCode, message: &Value) -> Response {
    (status, axum::Json(message)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_repeat_the_body() {
        let request = |uri: &str| Request {
            id: Value::from(1),
            method: "resources/read".to_owned(),
            params: serde_json::json!({ "uri": uri })
                .as_object()
                .cloned()
                .unwrap(),
        };
        let headers = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("mcp-method", HeaderValue::from_static("resources/read"));
            headers.insert("mcp-name", HeaderValue::from_str(name).unwrap());
            headers
        };
        let check = |name: &str, uri: &str| check_headers(&headers(name), &request(uri));
        assert_eq!(check("sponde://a", "sponde://a"), Ok(()));
        assert_eq!(check("=?base64?c3BvbmRlOi8vYQ==?=", "sponde://a"), Ok(()));
        let error = check("sponde://b", "sponde://a").unwrap_err();
        assert_eq!((error.code, error.http), (-32020, 400));
        assert_eq!(
            error.message,
            "the header Mcp-Name is `sponde://b`, and the body says `sponde://a`"
        );
        let error = check_headers(&HeaderMap::new(), &request("a")).unwrap_err();
        assert_eq!(
            error.message,
            "the header Mcp-Method is missing; the body says `resources/read`"
        );
    }
}
