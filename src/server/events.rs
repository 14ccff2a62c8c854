//! A session's stream as server-sent events: the items of `docs/events.md`, one per message, with their ids.
//!
//! A client is a position in the session's log: nothing waits for it, and nothing is stored for it. A slow reader
//! finds its next items merged into a snapshot. A client that reads nothing is cut; with its last id it can continue.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::encoded::EncodedStream;
use super::extract::{Path, Query};
use super::problem::Problem;
use super::state::Shared;
use crate::agent::stream::snapshot::SnapshotLine;
use crate::agent::stream::{Client, Item, ItemId, Received, Snapshot};
use crate::app::registry::ClientGuard;

/// Proxies close connections that are silent for a long time.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A client fetches longer representations of an output separately.
const LARGE: usize = 64 << 10;
/// Available items are sent together, up to about this many bytes.
const TOGETHER: usize = 64 << 10;
/// In each window of this length ...
const WINDOW: Duration = Duration::from_millis(10);
/// ... so many writes are made at once; what comes then is sent together at its end.
const WRITES: u32 = 8;
/// Maximum characters of a client's name.
const NAME: usize = 64;

/// What stands behind the question mark.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Wanted {
    after: Option<ItemId>,
    #[serde(rename = "as")]
    name: Option<String>,
}

/// The stream: a snapshot, or the items after the client's last one, then all new items.
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(wanted): Query<Wanted>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    // The id from a browser that reconnects is newer than the one in the URL.
    let last = headers.get("last-event-id").and_then(|it| it.to_str().ok());
    let after = last.and_then(|it| it.parse().ok()).or(wanted.after);
    let name = client_name(wanted.name.as_deref());
    let handle = live.handle();
    let resumed = after.and_then(|after| handle.resume(&name, after));
    let mut first = b"retry: 500\n\n".to_vec();
    let client = if let Some(client) = resumed {
        client
    } else {
        let (snapshot, client) = handle.join(&name).await?;
        first.extend(of_snapshot(&snapshot));
        client
    };
    let follower = Follower {
        client,
        first: Some(Bytes::from(first)),
        encoded: shared.encoded.of(&id),
        pace: Pace::new(),
        _counted: live.client(),
    };
    let messages = futures_util::stream::unfold(follower, |mut follower| async {
        let message = follower.next().await?;
        Some((Ok::<_, Infallible>(message), follower))
    });
    let headers = [
        (CONTENT_TYPE.as_str(), "text/event-stream"),
        (CACHE_CONTROL.as_str(), "no-store"),
        // nginx would buffer messages.
        ("x-accel-buffering", "no"),
    ];
    Ok((headers, Body::from_stream(messages)).into_response())
}

/// A client of the stream.
struct Follower {
    client: Client,
    first: Option<Bytes>,
    encoded: Arc<EncodedStream>,
    pace: Pace,
    _counted: ClientGuard,
}

impl Follower {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        self.pace.wait().await;
        let Ok(received) = tokio::time::timeout(HEARTBEAT, self.client.next()).await else {
            return Some(Bytes::from_static(b":\n\n"));
        };
        Some(match received? {
            Received::Item(item) => {
                let first = item.id;
                let client = &mut self.client;
                let (messages, last) = self.encoded.from(first, || {
                    let items = std::iter::once(item).chain(client.ready(TOGETHER));
                    items
                        .map(|item| (item.id, message(item.id, &without_large(&*item))))
                        .collect()
                });
                self.client.has_up_to(last);
                messages
            }
            Received::Snapshot(snapshot) => of_snapshot(&snapshot).into(),
        })
    }
}

/// Sends at once while little is sent, and together what comes fast: many small writes to many clients cost more than
/// the items.
struct Pace {
    since: Instant,
    sent: u32,
}

impl Pace {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            sent: 0,
        }
    }

    /// Waits before the next write if there were many.
    async fn wait(&mut self) {
        let passed = self.since.elapsed();
        if passed < WINDOW && self.sent < WRITES {
            self.sent += 1;
            return;
        }
        if let Some(rest) = WINDOW.checked_sub(passed) {
            tokio::time::sleep(rest).await;
        }
        (self.since, self.sent) = (Instant::now(), 1);
    }
}

fn of_snapshot(snapshot: &Snapshot) -> Vec<u8> {
    message(snapshot.at, &snapshot_item(snapshot).to_string())
}

/// What the stream has: an item, or a snapshot.
#[derive(Debug, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(super) enum StreamLine {
    Item(Box<Item>),
    Snapshot(SnapshotLine<'static>),
}

/// A snapshot as an item.
pub(super) fn snapshot_item(snapshot: &Snapshot) -> Value {
    let mut item = json!({ "type": "snapshot", "snapshot": snapshot });
    mark_large(&mut item);
    item
}

fn message(id: ItemId, data: &str) -> Vec<u8> {
    // JSON has line breaks only outside its strings, and this text has none.
    format!("id: {id}\ndata: {data}\n\n").into_bytes()
}

/// `item` as JSON without large representations.
fn without_large(item: &impl serde::Serialize) -> String {
    // Plain data: serialization cannot fail.
    let text = serde_json::to_string(item).unwrap_or_default();
    if text.len() <= LARGE {
        return text;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
        return text;
    };
    mark_large(&mut value);
    value.to_string()
}

/// Replaces large entries in MIME bundles with `{"large": bytes}`.
fn mark_large(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(mark_large),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Object(bundle) if name == "data" => {
                        for (mime, data) in bundle.iter_mut() {
                            if mime.contains('/') {
                                mark(data);
                            } else {
                                mark_large(data);
                            }
                        }
                    }
                    other => mark_large(other),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn mark(data: &mut Value) {
    let bytes = match &*data {
        Value::String(text) => text.len(),
        Value::Array(_) | Value::Object(_) => data.to_string().len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    if bytes > LARGE {
        *data = json!({ "large": bytes });
    }
}

/// A client's name, as other clients see it. Names of terminal clients have another suffix.
pub(super) fn client_name(named: Option<&str>) -> String {
    let named = named.unwrap_or_default().chars();
    let name: String = named.filter(|c| !c.is_control()).take(NAME).collect();
    let name = name.trim();
    if name.is_empty() {
        "web".to_owned()
    } else {
        format!("{name} (web)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_representations_become_their_size() {
        let large = "x".repeat(LARGE + 1);
        let mut item = json!({"edit": {"emit": {"output": {"display": {
            "data": {"text/plain": "small", "image/png": large, "application/json": {"data": large}},
            "metadata": {}}}}}, "data": {"note": {"text": large}}});
        mark_large(&mut item);
        let json_size = json!({ "data": large }).to_string().len();
        assert_eq!(
            item,
            json!({"edit": {"emit": {"output": {"display": {
                "data": {"text/plain": "small", "image/png": {"large": LARGE + 1},
                    "application/json": {"large": json_size}},
                "metadata": {}}}}}, "data": {"note": {"text": large}}})
        );
    }

    #[test]
    fn names_of_clients_are_plain_and_of_the_web() {
        assert_eq!(client_name(None), "web");
        assert_eq!(client_name(Some(" \n")), "web");
        assert_eq!(client_name(Some("desk\u{1b}[2J")), "desk[2J (web)");
        assert_eq!(client_name(Some(&"a".repeat(99))).len(), 64 + 6);
    }
}
