//! Directories of a sandbox: Connect's requests with one answer (`filesystem.proto`), in JSON.

use axum::Json;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::failure::E2bFailure;
use super::files::blocking;
use super::{InSandbox, parsed};
use crate::app::sandboxes::{Entry, EntryType, moment};
use crate::server::extract::Path;

/// What all of them take.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Wanted {
    path: String,
    source: String,
    destination: String,
    depth: u32,
}

/// Answers one.
pub(super) async fn call(
    InSandbox(sandbox): InSandbox,
    Path(method): Path<String>,
    request: Request,
) -> Response {
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
                other => return Err(E2bFailure::missing(&format!("watching files (`{other}`)"))),
            })
        })
        .await
    };
    match answered.await {
        Ok(answer) => (StatusCode::OK, Json(answer)).into_response(),
        Err(failure) => failure.into_connect(),
    }
}

/// Protobuf's JSON of an entry; whoever made it is the user of the sandbox.
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
