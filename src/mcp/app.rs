//! A page in the client that shows a run: code, text, plots at full size, variables and windows of tables.
//!
//! MCP Apps (SEP-1865, 2026-01-26): a tool names the page. The client reads it as a resource, shows it in a frame
//! without origin or network, and sends it the tool's arguments and result. Its requests to us go through the client.

use serde_json::{Value, json};

/// Its URI.
const URI: &str = "ui://sponde/outputs";
/// Its MIME type.
const TYPE: &str = "text/html;profile=mcp-app";
const PAGE: &str = include_str!("app.html");

/// Metadata of a tool whose results it shows.
pub(super) fn meta() -> Value {
    json!({ "ui": { "resourceUri": URI } })
}

/// Its entry in a list.
pub(super) fn entry() -> Value {
    json!({
        "uri": URI,
        "name": "outputs",
        "title": "What code has put out, its variables and tables",
        "mimeType": TYPE,
    })
}

/// Its content, if `uri` is its URI.
pub(super) fn read(uri: &str) -> Option<Value> {
    let page = || PAGE.replacen("VERSION", env!("CARGO_PKG_VERSION"), 1);
    // No external content: if no domain is named, none is allowed.
    (uri == URI).then(|| {
        json!({ "contents": [{
            "uri": URI,
            "mimeType": TYPE,
            "text": page(),
            "_meta": { "ui": { "prefersBorder": true } },
        }] })
    })
}
