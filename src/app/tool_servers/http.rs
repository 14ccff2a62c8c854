//! A server with a URL: JSON-RPC over streamable HTTP, with one POST per message, answered with JSON or a stream of
//! events.
//!
//! Redirects are not followed, so that keys in headers reach no other host. A stream that ends before the answer is
//! requested again from its last event. Deliberately not here: streams that a server opens by itself, OAuth.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};

use super::events::Events;
use super::messages::{LONGEST, NoResult, asked_back};
use crate::llm::http::{client, root_cause};
use crate::rpc::{self, Incoming, notification, request};

/// How long a notification may take.
const TELL: Duration = Duration::from_secs(10);
/// The same for one that nobody waits for.
const TELL_LATE: Duration = Duration::from_secs(1);
/// Maximum bytes of an error page.
const ERROR: usize = 64 << 10;
/// Maximum bytes of an id from a server.
const ID: usize = 1 << 10;
/// Maximum characters of a displayed URL.
const SHOWN: usize = 200;
/// Maximum streams for one answer, each resumed where the previous one ended.
const STREAMS: usize = 100;
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The connection.
pub(super) struct Http {
    client: Client,
    url: Url,
    /// Headers of the configuration.
    headers: HeaderMap,
    /// Headers agreed on with the server.
    agreed: Mutex<HeaderMap>,
    next: AtomicU64,
    /// Whether the server has dropped our session.
    is_over: AtomicBool,
}

impl Http {
    /// Connects to `url` with these headers. An error completes a sentence about the server.
    pub(super) fn new(url: &str, headers: &[(String, String)]) -> Result<Self, String> {
        let no_address = |error: &str| format!("has an address that cannot be used: {error}");
        let client = client(url).map_err(|error| no_address(&error.to_string()))?;
        let url = Url::parse(url).map_err(|error| no_address(&error.to_string()))?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let bad = || format!("has a header `{name}` that cannot be sent");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            all.insert(key, value);
        }
        Ok(Self {
            client,
            url,
            headers: all,
            agreed: Mutex::default(),
            next: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
        })
    }

    /// Uses the protocol version of `hello`, the server's answer to our first message, from now on.
    pub(super) fn agreed(&self, hello: &Value) {
        let version = hello.get("protocolVersion").and_then(Value::as_str);
        if let Some(Ok(version)) = version.map(HeaderValue::from_str) {
            self.agreements().insert(VERSION, version);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, NoResult> {
        let id = format!("sponde-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let message = request(&id, method, params);
        let asked = async { self.result(self.post(&message).await?, &id).await };
        if let Ok(result) = tokio::time::timeout(limit, asked).await {
            return result;
        }
        let params = json!({ "requestId": id, "reason": "the time is up" });
        let told = self.tell("notifications/cancelled", &params);
        let _ = tokio::time::timeout(TELL_LATE, told).await;
        Err(NoResult::Late(limit))
    }

    pub(super) async fn tell(&self, method: &str, params: &Value) -> Result<(), NoResult> {
        let message = notification(method, params);
        let sent = tokio::time::timeout(TELL, self.post(&message)).await;
        sent.map_err(|_| NoResult::Late(TELL))??;
        Ok(())
    }

    /// Sends a message.
    async fn post(&self, message: &Value) -> Result<Response, NoResult> {
        let request = self.client.post(self.url.clone()).json(message);
        self.send(request.header(ACCEPT, "application/json, text/event-stream"))
            .await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, NoResult> {
        let agreed = self.agreements().clone();
        let has_session = agreed.contains_key(SESSION);
        let request = request.headers(self.headers.clone()).headers(agreed);
        let response = request.send().await;
        let response = response.map_err(|error| NoResult::Unreachable(root_cause(&error)))?;
        let status = response.status();
        if status.is_success() {
            if let Some(id) = response.headers().get(SESSION)
                && id.len() <= ID
            {
                self.agreements().insert(SESSION, id.clone());
            }
            return Ok(response);
        }
        if has_session && matches!(status, StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        if has_session && status == StatusCode::NOT_FOUND {
            let why = "it does not know this session any more; call again to begin another one";
            return Err(NoResult::Gone(why.to_owned()));
        }
        Err(NoResult::Refused(refused(response).await))
    }

    /// The result of the request `id`.
    async fn result(&self, mut response: Response, id: &str) -> Result<Value, NoResult> {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        if !is_stream {
            let body = body(&mut response, LONGEST).await?;
            return match answered(&body, id) {
                Some(outcome) => outcome,
                None => Err(NoResult::Refused(
                    "its answer is not a JSON-RPC response to the request".to_owned(),
                )),
            };
        }
        let mut events = Events::new(LONGEST);
        for _ in 0..STREAMS {
            if let Some(outcome) = self.outcome(&mut response, &mut events, id).await? {
                return outcome;
            }
            let Some((last, wait)) = events.ended() else {
                break;
            };
            // An empty id resets the last one.
            let Some(last) = HeaderValue::from_str(last).ok().filter(|it| !it.is_empty()) else {
                break;
            };
            tokio::time::sleep(wait).await;
            let request = self.client.get(self.url.clone());
            let request = request.header(ACCEPT, "text/event-stream");
            response = self.send(request.header(LAST_EVENT, last)).await?;
        }
        Err(NoResult::Unreachable(
            "the connection ended before its answer".to_owned(),
        ))
    }

    /// The outcome of the request `id` in a stream; `None` if the stream ended first.
    async fn outcome(
        &self,
        response: &mut Response,
        events: &mut Events,
        id: &str,
    ) -> Result<Option<Result<Value, NoResult>>, NoResult> {
        // A broken stream is resumed like one that ended.
        while let Ok(Some(piece)) = chunk(response).await {
            let messages = events.feed(&piece).ok_or_else(too_long)?;
            for message in messages {
                if let Some(outcome) = answered(&message, id) {
                    return Ok(Some(outcome));
                }
                self.answer(&message).await;
            }
        }
        Ok(None)
    }

    /// Answers requests that the server sends meanwhile.
    async fn answer(&self, message: &[u8]) {
        if let Ok(Incoming::Request(request)) = rpc::parse(message) {
            let answer = rpc::answer(&request.id, asked_back(&request.method));
            // If the server does not accept it, we continue.
            let _ = tokio::time::timeout(TELL_LATE, self.post(&answer)).await;
        }
    }

    /// Consistent after every change.
    fn agreements(&self) -> MutexGuard<'_, HeaderMap> {
        self.agreed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of the request `id`, if this is its response.
fn answered(message: &[u8], id: &str) -> Option<Result<Value, NoResult>> {
    match rpc::parse(message) {
        Ok(Incoming::Response { id: of, outcome }) if of == id => {
            Some(outcome.map_err(|error| NoResult::Refused(words(&error))))
        }
        _ => None,
    }
}

/// The message of a JSON-RPC error.
fn words(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str);
    message.unwrap_or("it did not say why").to_owned()
}

/// Why a message was rejected, as text.
async fn refused(mut response: Response) -> String {
    let status = response.status();
    if status.is_redirection() {
        let to = response.headers().get(LOCATION);
        let to = to.and_then(|to| to.to_str().ok()).unwrap_or("nowhere");
        let to: String = to.chars().take(SHOWN).collect();
        return format!("it redirects to {to}: put the right address into `url`");
    }
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return format!("{status}: check the `headers` of its configuration");
    }
    let said = body(&mut response, ERROR).await.unwrap_or_default();
    let said: Option<Value> = serde_json::from_slice(&said).ok();
    match said.as_ref().and_then(|said| said.get("error")) {
        Some(error @ Value::Object(_)) => format!("{status}: {}", words(error)),
        _ => status.to_string(),
    }
}

/// The whole body of a response, at most `most` bytes.
async fn body(response: &mut Response, most: usize) -> Result<Vec<u8>, NoResult> {
    let mut all = Vec::new();
    while let Some(piece) = chunk(response).await? {
        if all.len() + piece.len() > most {
            return Err(too_long());
        }
        all.extend_from_slice(&piece);
    }
    Ok(all)
}

async fn chunk(response: &mut Response) -> Result<Option<bytes::Bytes>, NoResult> {
    let piece = response.chunk().await;
    piece.map_err(|error| NoResult::Unreachable(root_cause(&error)))
}

fn too_long() -> NoResult {
    NoResult::Refused(format!("its answer has more than {} MiB", LONGEST >> 20))
}
