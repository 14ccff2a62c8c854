//! The page's files: embedded, public, without secrets.

use std::io::Read as _;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::assets::{ASSETS, COMPRESSED};
use super::extract::Path;
use super::problem::Problem;
use super::state::Shared;
use super::token::hex;

/// The policy of the page: its own files and its own server. No inline script or style, and nothing from other hosts.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
    font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'";

/// The page.
pub(super) async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    let mut response = file("index.html", &headers)?;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_SECURITY_POLICY.as_str(), POLICY),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        let value = axum::http::HeaderValue::from_static(value);
        headers.insert(axum::http::HeaderName::from_static(name), value);
    }
    Ok(response)
}

/// One of its files.
pub(super) async fn asset(
    Path(path): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    file(&path, &headers)
}

/// What `/health` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// Of the program.
    version: &'static str,
    uptime_seconds: u64,
}

/// Reports that the server is running.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Json<Health> {
    Json(Health {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: shared.started.elapsed().as_secs(),
    })
}

fn file(path: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let find = |path: &str| ASSETS.iter().find(|(name, _)| *name == path);
    let compressed = find(&format!("{path}{COMPRESSED}"));
    let (name, bytes) = compressed
        .or_else(|| find(path))
        .ok_or_else(|| Problem::not_found("there is no such file"))?;
    let tag = format!("\"{}\"", hex(&Sha256::digest(bytes)));
    let fresh = [
        (ETAG.as_str(), tag.as_str()),
        (CACHE_CONTROL.as_str(), "no-cache"),
        // A sandboxed frame, which has no origin, loads the libraries for its charts.
        ("cross-origin-resource-policy", "cross-origin"),
    ];
    let known = headers.get(IF_NONE_MATCH).and_then(|it| it.to_str().ok());
    if known == Some(tag.as_str()) {
        return Ok((StatusCode::NOT_MODIFIED, fresh).into_response());
    }
    let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
    let kind = [(CONTENT_TYPE, media_type(name)), (VARY, "accept-encoding")];
    if compressed.is_none() {
        return Ok((fresh, kind, *bytes).into_response());
    }
    if takes_gzip(headers) {
        let coding = [(CONTENT_ENCODING, "gzip")];
        return Ok((fresh, kind, coding, *bytes).into_response());
    }
    let mut plain = Vec::new();
    let read = GzDecoder::new(*bytes).read_to_end(&mut plain);
    read.map_err(|error| Problem::internal(error.to_string()))?;
    Ok((fresh, kind, plain).into_response())
}

/// Whether the client accepts compressed files, as all browsers do.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|it| it.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == "gzip" && weight.trim() != "q=0"
    })
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json") => "application/json",
        _ => "text/plain; charset=utf-8",
    }
}
