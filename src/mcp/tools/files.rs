//! `list_files`, `read_file` and `write_file`: the workspace, within the bounds that code has.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::change::Change;
use super::super::resources::file_uri;
use super::super::state::McpServer;
use super::{Arguments, Failed, fields, said};
use crate::app::executor::{FileError, FileKind, lines_of};
use crate::app::files::EntryKind;

/// Lines of a file unless told otherwise.
const LINES: usize = 1000;
/// Bytes of a file that is no text and goes into a result.
const BYTES: usize = 4 << 20;

/// What `list_files` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// The directory, relative to the workspace; default is the workspace itself.
    #[serde(default)]
    path: String,
}

/// What `read_file` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line, from 1; of text only.
    line: Option<usize>,
    /// How many lines; default is 1000.
    lines: Option<usize>,
}

/// What `write_file` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// The file, relative to the workspace.
    path: String,
    /// What is to be in it.
    content: String,
    /// How `content` is written; default is utf-8.
    #[serde(default)]
    encoding: Encoding,
}

/// How content is written in JSON.
#[derive(Default, Deserialize, JsonSchema)]
enum Encoding {
    /// As it is.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// For bytes that are no text.
    #[serde(rename = "base64")]
    Base64,
}

pub(super) async fn list(
    server: &McpServer,
    arguments: Arguments<ListFiles>,
) -> Result<Value, Failed> {
    let ListFiles { path } = arguments?;
    let workspace = server.executor().workspace();
    let root = workspace.root().display().to_string();
    let entries = blocking(move || workspace.list(&path)).await?;
    let mut text = format!("{root}\n");
    for it in &entries {
        let end = if it.kind == EntryKind::Directory {
            "/"
        } else {
            ""
        };
        let _ = writeln!(text, "{}{end}\t{} bytes", it.name, it.bytes);
    }
    if entries.is_empty() {
        text.push_str("nothing is there");
    }
    Ok(said(text, &fields::Files { entries }))
}

pub(super) async fn read(
    server: &McpServer,
    arguments: Arguments<ReadFile>,
) -> Result<Value, Failed> {
    let ReadFile { path, line, lines } = arguments?;
    let workspace = server.executor().workspace();
    let name = path.clone();
    let bytes = blocking(move || workspace.read(&name)).await?;
    let kind = FileKind::of(&bytes);
    if kind != FileKind::Text && bytes.len() > BYTES {
        return Err(Failed::new(format!(
            "`{path}` has {} bytes, and {BYTES} are the most of what is no text",
            bytes.len()
        ))
        .hint("look at it with code"));
    }
    Ok(match kind {
        FileKind::Text => {
            let text = String::from_utf8_lossy(&bytes);
            let (text, last, total) = lines_of(&text, line.unwrap_or(1), lines.unwrap_or(LINES));
            let first = line.unwrap_or(1).max(1);
            let fields = json!({ "text": text, "line": first, "total_lines": total });
            let note = if first > 1 || last < total {
                format!("\n[lines {first} to {last} of {total}]")
            } else {
                String::new()
            };
            said(text + &note, &fields)
        }
        FileKind::Image(mime) => json!({ "content": [
            { "type": "image", "data": STANDARD.encode(&bytes), "mimeType": mime },
        ]}),
        FileKind::Binary => json!({ "content": [{ "type": "resource", "resource": {
            "uri": file_uri(&path),
            "mimeType": "application/octet-stream",
            "blob": STANDARD.encode(&bytes),
        }}]}),
    })
}

pub(super) async fn write(
    server: &McpServer,
    arguments: Arguments<WriteFile>,
) -> Result<Value, Failed> {
    let WriteFile {
        path,
        content,
        encoding,
    } = arguments?;
    let bytes = match encoding {
        Encoding::Utf8 => content.into_bytes(),
        Encoding::Base64 => STANDARD.decode(content.trim()).map_err(|error| {
            Failed::new(format!("`content` is not base64: {error}"))
                .hint("leave `encoding` out for text")
        })?,
    };
    let workspace = server.executor().workspace();
    let name = path.clone();
    let bytes = blocking(move || workspace.write(&name, &bytes)).await?;
    server.changed(Change::Updated(file_uri(&path)));
    Ok(said(
        format!("wrote {bytes} bytes to {path}"),
        &fields::Written { path, bytes },
    ))
}

/// Does what waits for a disk elsewhere.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Failed> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| Failed::new(error.to_string()))?;
    done.map_err(|error| Failed::new(error.to_string()).or_hint(error.hint()))
}
