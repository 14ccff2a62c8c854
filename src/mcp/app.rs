//! What a run has put out, as a page in the client: code, text, plots at full size, variables and windows of tables.
//!
//! MCP Apps (SEP-1865, 2026-01-26): a tool names the page, the client reads it as a resource, shows it in a frame without an
//! origin or a network, and tells it the tool's arguments and result. What it asks of us goes through the client.

use serde_json::{Value, json};

/// Where it is.
const URI: &str = "ui://sponde/outputs";
/// What it is.
const TYPE: &str = "text/html;profile=mcp-app";
const PAGE: &str = include_str!("app.html");

/// What a tool says whose results it shows.
pub(super) fn meta() -> Value {
    json!({ "ui": { "resourceUri": URI } })
}

/// As one of a list.
pub(super) fn entry() -> Value {
    json!({
        "uri": URI,
        "name": "outputs",
        "title": "What code has put out, its variables and tables",
        "mimeType": TYPE,
    })
}

/// Its text, if `uri` is its address.
pub(super) fn read(uri: &str) -> Option<Value> {
    let page = || PAGE.replacen("VERSION", env!("CARGO_PKG_VERSION"), 1);
    // Nothing from elsewhere: that no domain is named means that none is allowed.
    (uri == URI).then(|| {
        json!({ "contents": [{
            "uri": URI,
            "mimeType": TYPE,
            "text": page(),
            "_meta": { "ui": { "prefersBorder": true } },
        }] })
    })
}
