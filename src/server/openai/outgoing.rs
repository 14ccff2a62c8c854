//! Streams answers as server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::task::Task;

/// Proxies close connections that are silent for a long time.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many events may wait for a client to read.
pub(super) const OUTBOX: usize = 64;

/// The format of events.
#[derive(Debug, Clone, Copy)]
pub(super) enum Framing {
    /// With event names, for responses.
    Named,
    /// Without names, and `[DONE]` at the end, for chats.
    Bare,
}

/// Streams events until they end. `task` ends with the stream, which interrupts its question.
pub(super) fn stream(messages: mpsc::Receiver<Value>, task: Task, framing: Framing) -> Response {
    let state = Some((messages, task));
    let events = futures_util::stream::unfold(state, move |state| async move {
        let (mut messages, task) = state?;
        let event = match tokio::time::timeout(HEARTBEAT, messages.recv()).await {
            Err(_) => Bytes::from_static(b":\n\n"),
            Ok(Some(message)) => written(&message, framing).into(),
            Ok(None) => {
                let last = match framing {
                    Framing::Named => return None,
                    Framing::Bare => Bytes::from_static(b"data: [DONE]\n\n"),
                };
                return Some((Ok::<_, Infallible>(last), None));
            }
        };
        Some((Ok(event), Some((messages, task))))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL.as_str(), "no-store"),
        // nginx would buffer events.
        ("x-accel-buffering", "no"),
    ];
    (headers, Body::from_stream(events)).into_response()
}

fn written(message: &Value, framing: Framing) -> String {
    let mut json = message.to_string();
    // Clients treat these as line ends.
    for (separator, escaped) in [
        ('\u{85}', "\\u0085"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ] {
        if json.contains(separator) {
            json = json.replace(separator, escaped);
        }
    }
    match (framing, message.get("type").and_then(Value::as_str)) {
        (Framing::Named, Some(kind)) => format!("event: {kind}\ndata: {json}\n\n"),
        _ => format!("data: {json}\n\n"),
    }
}
