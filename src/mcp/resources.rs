//! Resources: the notebook of each session, its plots and long outputs, and the files of the workspace.
//!
//! | | |
//! |---|---|
//! | `sponde://sessions/NAME/notebook.ipynb` | also `.html`, `.md`, `.py` |
//! | `sponde://sessions/NAME/cells/CELL/outputs/N` | an output as a file: a plot at full size, a page with a chart |
//! | `sponde://sessions/NAME/cells/CELL/output.txt` | all text of a cell |
//! | `sponde://files/PATH` | a file of the workspace |
//! | `ui://sponde/outputs` | the page that shows outputs ([`app`]) |

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::app;
use super::state::McpServer;
use crate::app::executor::{FileKind, ProgramSession, file_of, visuals};
use crate::app::exported::Exported;
use crate::rpc::RpcError;
use crate::session::summarize::whole_text;
use crate::session::{CodeCell, Transcript};

/// How many plots of a session are listed, latest first.
const PLOTS: usize = 100;

/// The notebook of a session.
pub(super) fn notebook_uri(session: &str) -> String {
    notebook_uri_as(session, "ipynb")
}

/// The same in another format.
pub(super) fn notebook_uri_as(session: &str, ending: &str) -> String {
    format!("sponde://sessions/{session}/notebook.{ending}")
}

/// An output of a cell.
pub(super) fn output_uri(session: &str, cell: &str, index: usize) -> String {
    format!("sponde://sessions/{session}/cells/{cell}/outputs/{index}")
}

/// All text of a cell.
pub(super) fn cell_uri(session: &str, cell: &str) -> String {
    format!("sponde://sessions/{session}/cells/{cell}/output.txt")
}

/// A file of the workspace.
pub(super) fn file_uri(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~' | '/');
    let mut uri = "sponde://files/".to_owned();
    for c in path.trim_start_matches('/').chars() {
        if plain(c) {
            uri.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// The meaning of a URI.
#[derive(Debug, PartialEq, Eq)]
enum ResourceAddress {
    Notebook {
        session: String,
        format: Exported,
    },
    Output {
        session: String,
        cell: String,
        index: usize,
    },
    Text {
        session: String,
        cell: String,
    },
    File(String),
}

impl ResourceAddress {
    fn of(uri: &str) -> Option<Self> {
        let rest = uri.strip_prefix("sponde://")?;
        if let Some(path) = rest.strip_prefix("files/") {
            return Some(Self::File(decoded(path)?));
        }
        let parts: Vec<&str> = rest.strip_prefix("sessions/")?.split('/').collect();
        match parts.as_slice() {
            [session, file] => {
                let format = Exported::of_ending(file.strip_prefix("notebook.")?)?;
                let session = (*session).to_owned();
                Some(Self::Notebook { session, format })
            }
            [session, "cells", cell, "output.txt"] => Some(Self::Text {
                session: (*session).to_owned(),
                cell: (*cell).to_owned(),
            }),
            [session, "cells", cell, "outputs", index] => Some(Self::Output {
                session: (*session).to_owned(),
                cell: (*cell).to_owned(),
                index: index.parse().ok()?,
            }),
            _ => None,
        }
    }
}

fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// The resources of the running sessions.
pub(super) async fn list(server: &McpServer) -> Value {
    let mut resources = vec![app::entry()];
    for session in server.executor().list() {
        let name = &session.name;
        resources.push(json!({
            "uri": notebook_uri(name),
            "name": format!("{name}.ipynb"),
            "title": format!("Notebook of session {name}"),
            "mimeType": Exported::Notebook.mime(),
        }));
        for (cell, count, file) in plots(&session).await {
            let of = count.map_or_else(|| format!("cell {cell}"), |count| format!("In [{count}]"));
            resources.push(json!({
                "uri": output_uri(name, &cell, file.index),
                "name": format!("{name}-{cell}-{}", file.index),
                "title": format!("Output {} of {of} in session {name}", file.index),
                "mimeType": file.mime,
                "size": file.bytes,
            }));
        }
    }
    json!({ "resources": resources })
}

type Plot = (String, Option<i64>, crate::app::executor::OutputFile);

async fn plots(session: &ProgramSession) -> Vec<Plot> {
    let look = |transcript: &Transcript| {
        let cells = transcript.cells().iter().rev();
        let code = cells.filter_map(|cell| Some((cell.id.clone(), cell.code()?)));
        // The session does not wait for picture decoding: it only copies the cells with pictures.
        let rich = code.filter(|(_, code)| !code.pictures.is_empty());
        let rich = rich.take(PLOTS).map(|(id, code)| (id, code.clone()));
        rich.collect::<Vec<(String, CodeCell)>>()
    };
    let cells = session.live.handle().look(look).await.unwrap_or_default();
    let found = tokio::task::spawn_blocking(move || {
        let each = cells.iter().flat_map(|(id, code)| {
            let files = visuals(code).into_iter();
            files.map(|file| (id.clone(), code.count, file))
        });
        each.take(PLOTS).collect()
    });
    found.await.unwrap_or_default()
}

/// The templates for other resources.
pub(super) fn templates() -> Value {
    let template = |uri: &str, name: &str, description: &str| json!({ "uriTemplate": uri, "name": name, "description": description });
    json!({ "resourceTemplates": [
        template(
            "sponde://sessions/{session}/notebook.{format}",
            "notebook",
            "All that a session has run: ipynb, html, md or py",
        ),
        template(
            "sponde://sessions/{session}/cells/{cell}/outputs/{index}",
            "output",
            "An output of a cell as a file, at full size",
        ),
        template(
            "sponde://sessions/{session}/cells/{cell}/output.txt",
            "text",
            "All text of a cell",
        ),
        template("sponde://files/{+path}", "file", "A file of the workspace"),
    ]})
}

/// Reads a resource; `None` if there is none.
///
/// # Errors
/// It exists and cannot be read.
pub(super) async fn read(server: &McpServer, uri: &str) -> Result<Option<Value>, RpcError> {
    let Some(place) = ResourceAddress::of(uri) else {
        return Ok(app::read(uri));
    };
    let contents = match place {
        ResourceAddress::File(path) => return file(server, uri, path).await,
        ResourceAddress::Notebook { session, format } => {
            let Ok(session) = server.executor().running(&session) else {
                return Ok(None);
            };
            let text = session.export(format).await;
            text.map(|text| json!({ "uri": uri, "mimeType": format.mime(), "text": text }))
        }
        ResourceAddress::Text { session, cell } => {
            let Some(cell) = cell_of(server, &session, &cell).await else {
                return Ok(None);
            };
            let text = tokio::task::spawn_blocking(move || whole_text(&cell)).await;
            let text = text.map_err(|error| RpcError::internal(error.to_string()))?;
            Some(json!({ "uri": uri, "mimeType": "text/plain", "text": text }))
        }
        ResourceAddress::Output {
            session,
            cell,
            index,
        } => {
            let cell = cell_of(server, &session, &cell).await;
            let output = cell.and_then(|cell| cell.outputs.nth(index));
            let file = output.and_then(|output| file_of(&output));
            file.map(|(mime, bytes)| contents(uri, &mime, bytes))
        }
    };
    Ok(contents.map(|contents| json!({ "contents": [contents] })))
}

async fn cell_of(server: &McpServer, session: &str, cell: &str) -> Option<CodeCell> {
    let session = server.executor().running(session).ok()?;
    session.cell(cell).await
}

async fn file(server: &McpServer, uri: &str, path: String) -> Result<Option<Value>, RpcError> {
    let workspace = server.executor().workspace();
    let read = tokio::task::spawn_blocking(move || workspace.read(&path)).await;
    let read = read.map_err(|error| RpcError::internal(error.to_string()))?;
    let Ok(bytes) = read else { return Ok(None) };
    let mime = match FileKind::of(&bytes) {
        FileKind::Text => "text/plain",
        FileKind::Image(mime) => mime,
        FileKind::Binary => "application/octet-stream",
    };
    Ok(Some(json!({ "contents": [contents(uri, mime, bytes)] })))
}

/// Text unchanged, anything else in base64.
fn contents(uri: &str, mime: &str, bytes: Vec<u8>) -> Value {
    let is_text = mime.starts_with("text/") || mime == "image/svg+xml";
    match String::from_utf8(bytes) {
        Ok(text) if is_text => json!({ "uri": uri, "mimeType": mime, "text": text }),
        Ok(text) => json!({ "uri": uri, "mimeType": mime, "blob": STANDARD.encode(text) }),
        Err(error) => {
            json!({ "uri": uri, "mimeType": mime, "blob": STANDARD.encode(error.as_bytes()) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let of = ResourceAddress::of;
        assert_eq!(
            of(&notebook_uri_as("a", "md")),
            Some(ResourceAddress::Notebook {
                session: "a".to_owned(),
                format: Exported::Markdown,
            })
        );
        assert_eq!(
            of(&output_uri("a", "c1", 2)),
            Some(ResourceAddress::Output {
                session: "a".to_owned(),
                cell: "c1".to_owned(),
                index: 2,
            })
        );
        assert_eq!(
            of(&cell_uri("a", "c1")),
            Some(ResourceAddress::Text {
                session: "a".to_owned(),
                cell: "c1".to_owned(),
            })
        );
        let path = "sub dir/ä%2F.csv";
        assert_eq!(file_uri(path), "sponde://files/sub%20dir/%C3%A4%252F.csv");
        assert_eq!(
            of(&file_uri(path)),
            Some(ResourceAddress::File(path.to_owned()))
        );
        for bad in [
            "file:///etc/passwd",
            "sponde://sessions/a",
            "sponde://sessions/a/notebook.exe",
            "sponde://sessions/a/cells/c/outputs/x",
            "sponde://files/%zz",
        ] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
