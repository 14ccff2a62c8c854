//! Directories of a sandbox (`filesystem.proto`): Connect's requests in JSON, and a stream of what changes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::E2bFailure;
use super::files::blocking;
use super::frame::{self, Frames};
use super::missing::Missing;
use super::{InSandbox, body, parse, parsed};
use crate::app::sandboxes::{Change, ChangeType, Entry, EntryType, ProgramSandbox, Watch, moment};
use crate::server::extract::Path;

/// How often a directory is looked at that a client watches.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// After so much silence there is a message that says nothing.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What all of them take.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Wanted {
    path: String,
    source: String,
    destination: String,
    depth: u32,
    recursive: bool,
    include_entry: bool,
    watcher_id: String,
}

/// Answers one.
pub(super) async fn call(
    InSandbox(sandbox): InSandbox,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    if method == "WatchDir" {
        let watched = watch(&sandbox, request).await;
        return watched.unwrap_or_else(|failure| frame::refused(&failure));
    }
    let answered = async {
        let wanted: Wanted = parsed(request).await?;
        blocking(&sandbox, move |it| {
            let files = it.files();
            let entry = |entry: Entry| json!({ "entry": shown(&entry) });
            Ok(match method.as_str() {
                "Stat" => entry(files.stat(&wanted.path)?),
                "MakeDir" => entry(files.make_dir(&wanted.path)?),
                "Move" => entry(files.rename(&wanted.source, &wanted.destination)?),
                "ListDir" => {
                    let entries = files.list(&wanted.path, wanted.depth.max(1))?;
                    json!({ "entries": entries.iter().map(shown).collect::<Vec<Value>>() })
                }
                "Remove" => {
                    files.remove(&wanted.path)?;
                    json!({})
                }
                "CreateWatcher" => {
                    let watch = Watch::begin(files, &wanted.path, wanted.recursive)?;
                    json!({ "watcherId": it.watches().add(watch)? })
                }
                // Entries come with all of them, which nobody has to read.
                "GetWatcherEvents" => {
                    let changes = it.watches().get(&wanted.watcher_id)?.changes()?;
                    let events: Vec<Value> = changes.iter().map(|it| changed(it, true)).collect();
                    json!({ "events": events })
                }
                "RemoveWatcher" => {
                    it.watches().remove(&wanted.watcher_id)?;
                    json!({})
                }
                other => return Err(Missing::Call(format!("`{other}` of files")).into()),
            })
        })
        .await
    };
    match answered.await {
        Ok(answer) => (StatusCode::OK, Json(answer)).into_response(),
        Err(failure) => failure.into_connect(),
    }
}

/// What changes in a directory, until the client is gone.
async fn watch(sandbox: &Arc<ProgramSandbox>, request: Request) -> Result<Response, E2bFailure> {
    let mut frames = Frames::default();
    frames.add(&body(request).await?);
    let message = frames.next()?;
    let message = message
        .ok_or_else(|| E2bFailure::new(StatusCode::BAD_REQUEST, "the stream has no message"))?;
    let wanted: Wanted = parse(&message)?;
    let begun = move |it: &ProgramSandbox| {
        let watch = Watch::begin(it.files(), &wanted.path, wanted.recursive)?;
        Ok((Arc::new(watch), wanted.include_entry))
    };
    let (watch, has_entries) = blocking(sandbox, begun).await?;
    let first = frame::message(&json!({ "start": {} }));
    let first = futures_util::stream::once(async move { Ok::<_, std::io::Error>(first) });
    let state = Some((Arc::clone(sandbox), watch, Instant::now()));
    let rest = futures_util::stream::unfold(state, move |state| async move {
        let (sandbox, watch, mut told) = state?;
        loop {
            tokio::select! {
                () = sandbox.ended().cancelled() => {
                    let error = std::io::Error::new(std::io::ErrorKind::ConnectionAborted, "the sandbox has ended");
                    return Some((Err(error), None));
                }
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            let looking = Arc::clone(&watch);
            let found = blocking(&sandbox, move |_| Ok(looking.changes()?)).await;
            let bytes: Vec<Bytes> = match found {
                Ok(changes) if changes.is_empty() && told.elapsed() < KEEPALIVE => continue,
                Ok(changes) if changes.is_empty() => {
                    vec![frame::message(&json!({ "keepalive": {} }))]
                }
                Ok(changes) => {
                    let events = changes.iter().map(|it| changed(it, has_entries));
                    events
                        .map(|it| frame::message(&json!({ "filesystem": it })))
                        .collect()
                }
                Err(failure) => return Some((Ok(frame::end(Some(&failure))), None)),
            };
            told = Instant::now();
            return Some((Ok(bytes.concat().into()), Some((sandbox, watch, told))));
        }
    });
    let body = Body::from_stream(first.chain(rest));
    Ok(([(CONTENT_TYPE, "application/connect+json")], body).into_response())
}

fn changed(change: &Change, has_entry: bool) -> Value {
    let what = match change.what {
        ChangeType::Created => "EVENT_TYPE_CREATE",
        ChangeType::Written => "EVENT_TYPE_WRITE",
        ChangeType::Removed => "EVENT_TYPE_REMOVE",
        ChangeType::Renamed => "EVENT_TYPE_RENAME",
        ChangeType::Permissions => "EVENT_TYPE_CHMOD",
    };
    let mut event = json!({ "name": change.name, "type": what });
    if let (Some(fields), Some(entry), true) = (event.as_object_mut(), &change.entry, has_entry) {
        fields.insert("entry".to_owned(), shown(entry));
    }
    event
}

/// Protobuf's JSON of an entry; the user of the sandbox made it.
fn shown(entry: &Entry) -> Value {
    let (letter, kind) = match entry.kind {
        EntryType::Directory => ('d', "FILE_TYPE_DIRECTORY"),
        EntryType::File => ('-', "FILE_TYPE_FILE"),
        EntryType::Other => ('-', "FILE_TYPE_UNSPECIFIED"),
    };
    let mut shown = json!({
        "name": entry.name,
        "type": kind,
        "path": entry.path,
        // A number of 64 bits is text there.
        "size": entry.size.to_string(),
        "mode": entry.mode & 0o7777,
        "permissions": permissions(if entry.target.is_some() { 'L' } else { letter }, entry.mode),
        "owner": "user",
        "group": "user",
        "modifiedTime": moment(entry.modified).replace("+00:00", "Z"),
    });
    if let Some(fields) = shown.as_object_mut() {
        if let Some(target) = &entry.target {
            fields.insert("symlinkTarget".to_owned(), target.clone().into());
        }
        if !entry.metadata.is_empty() {
            fields.insert("metadata".to_owned(), json!(entry.metadata));
        }
    }
    shown
}

fn permissions(letter: char, mode: u32) -> String {
    let mut text = String::from(letter);
    for (at, letter) in "rwxrwxrwx".chars().enumerate() {
        let is_set = mode & (0o400 >> at) != 0;
        text.push(if is_set { letter } else { '-' });
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn permissions_are_as_ls_has_them() {
        assert_eq!(super::permissions('-', 0o100_644), "-rw-r--r--");
        assert_eq!(super::permissions('d', 0o040_755), "drwxr-xr-x");
    }
}
