//! Outputs of cells: their types, their bytes, and their HTML for the page. The content of an output is hostile.
//!
//! - Bytes are saved or shown as pictures; at no URL do they become a page of this origin.
//! - HTML in the page is sanitized with the allow-list of `export`. Script-drawn outputs get a frame ([`document`])
//!   without origin, cookie or network, at a URL that is a ticket.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::bokeh;
use super::document;
use super::download;
use super::extract::Path;
use super::problem::Problem;
use super::render::unstyled;
use super::state::Shared;
use super::ticket::OutputPlace;
use crate::export;
use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::Output;
use crate::session::Transcript;

/// Session, cell and index of an output.
type OutputAddress = (String, String, usize);

/// The types that an output has.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct OutputTypes {
    types: Vec<OutputType>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OutputType {
    mime: String,
    bytes: usize,
}

/// An output in the page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Shown {
    /// Inline.
    Html {
        /// Safe HTML.
        html: String,
    },
    /// In a frame.
    Frame {
        /// Its address, good for ten minutes.
        frame: String,
    },
}

/// The available types.
pub(super) async fn types(
    State(shared): State<Arc<Shared>>,
    Path(place): Path<OutputAddress>,
) -> Result<Json<OutputTypes>, Problem> {
    let output = find(&shared, place.clone()).await?;
    let types: Vec<OutputType> = match &output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            let of = |mime: &str, bytes: usize| OutputType {
                mime: mime.to_owned(),
                bytes,
            };
            let mut types: Vec<OutputType> = data
                .iter()
                .map(|(mime, value)| of(mime, bytes_of(mime, value).len()))
                .collect();
            for (mime, _) in BESIDE_PLOTS {
                if let Some(bytes) = beside_plot(&shared, data, place.clone(), mime).await {
                    types.push(of(mime, bytes.len()));
                }
            }
            types
        }
        other => vec![OutputType {
            mime: mime::TEXT_PLAIN.to_owned(),
            bytes: plain(other).len(),
        }],
    };
    Ok(Json(OutputTypes { types }))
}

/// The bytes of one type.
pub(super) async fn bytes(
    State(shared): State<Arc<Shared>>,
    Path((session, cell, index, wanted)): Path<(String, String, usize, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if wanted == "html" {
        return html(&shared, (session, cell, index)).await;
    }
    let name = format!("{cell}-{index}.{}", ending(&wanted));
    let place = (session, cell, index);
    let output = find(&shared, place.clone()).await?;
    let bytes = match &output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            match data.get(&wanted) {
                Some(value) => Some(bytes_of(&wanted, value)),
                None => beside_plot(&shared, data, place, &wanted).await,
            }
        }
        other if wanted == mime::TEXT_PLAIN => Some(plain(other).into_bytes()),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| Problem::not_found(format!("the output has no `{wanted}`")))?;
    Ok(download::bytes(bytes, &wanted, &name, &headers))
}

/// The output as HTML for the page, or the URL of a frame.
async fn html(shared: &Shared, place: OutputAddress) -> Result<Response, Problem> {
    let output = find(shared, place.clone()).await?;
    let (session, cell, index) = place;
    let rendered = tokio::task::spawn_blocking(move || export::output_html(&output)).await;
    let rendered = rendered.map_err(|error| Problem::internal(error.to_string()))?;
    let answer = if let Some(html) = rendered {
        let html = unstyled(&html);
        Shown::Html { html }
    } else {
        let place = OutputPlace {
            session,
            cell,
            index,
        };
        let ticket = shared.tickets.issue(&place);
        let frame = format!("/out/{ticket}/{}/{index}", place.cell);
        Shown::Frame { frame }
    };
    Ok(axum::Json(answer).into_response())
}

/// The document of a frame. It needs no credentials: its URL is the ticket.
pub(super) async fn frame(
    State(shared): State<Arc<Shared>>,
    Path((ticket, cell, index)): Path<(String, String, usize)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let expired = || {
        Problem::forbidden("the address of this output is not valid any more")
            .hint("ask for it again")
    };
    let place = shared
        .tickets
        .check(&ticket, cell, index)
        .ok_or_else(expired)?;
    let live = shared.live(&place.session)?;
    let cell = place.cell;
    let look = move |transcript: &Transcript| {
        let output = transcript.code(&cell)?.outputs.nth(index)?;
        Some((output, bokeh::before(transcript, &cell, index)))
    };
    let found = live.handle().look(look).await?;
    let (output, bokeh) = found.ok_or_else(no_output)?;
    let (Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. }) = &output else {
        return Err(Problem::not_found("this output needs no frame"));
    };
    let document = document::of(data, bokeh.as_ref()).ok_or_else(|| {
        Problem::not_found("there is nothing in this output that a frame could show")
    })?;
    let host = headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let mut response = document.into_response();
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let policy = document::policy(host.unwrap_or_default());
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    for (name, value) in [
        ("x-frame-options", "SAMEORIGIN"),
        // A DNS lookup would leak information.
        ("x-dns-prefetch-control", "off"),
    ] {
        let value = HeaderValue::from_static(value);
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(response)
}

async fn find(shared: &Shared, (session, cell, index): OutputAddress) -> Result<Output, Problem> {
    let live = shared.live(&session)?;
    let found = live
        .handle()
        .look(move |transcript| transcript.code(&cell)?.outputs.nth(index))
        .await?;
    found.ok_or_else(no_output)
}

fn no_output() -> Problem {
    Problem::not_found("there is no such output")
}

/// Files next to a plot's picture: their types and suffixes.
const BESIDE_PLOTS: [(&str, &str); 2] = [(mime::IMAGE_SVG, "svg"), ("text/csv", "csv")];

/// A plot's vector graphic or data, if it has them and `wanted` is one of them.
async fn beside_plot(
    shared: &Shared,
    data: &MimeBundle,
    (session, cell, index): OutputAddress,
    wanted: &str,
) -> Option<Vec<u8>> {
    let (_, extension) = BESIDE_PLOTS.into_iter().find(|(mime, _)| *mime == wanted)?;
    if data.contains(wanted) || !data.contains(mime::IMAGE_PNG) {
        return None;
    }
    let live = shared.live(&session).ok()?;
    live.beside_plot(cell, index, extension).await
}

/// The bytes of a representation as a file.
fn bytes_of(mime: &str, value: &Value) -> Vec<u8> {
    if mime::is_base64_image(mime)
        && let Some(Ok(bytes)) = MimeBundle::new().with(mime, value.clone()).bytes(mime)
    {
        return bytes;
    }
    match mime::joined(value) {
        Some(text) => text.into_owned().into_bytes(),
        None => value.to_string().into_bytes(),
    }
}

fn plain(output: &Output) -> String {
    match output {
        Output::Stream { text, .. } => text.clone(),
        Output::Error {
            ename,
            evalue,
            traceback,
            ..
        } if traceback.is_empty() => format!("{ename}: {evalue}"),
        Output::Error { traceback, .. } => traceback.join("\n"),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => data
            .text_of(mime::TEXT_PLAIN)
            .unwrap_or_default()
            .into_owned(),
        Output::Other(value) => json!(value).to_string(),
    }
}

fn ending(mime: &str) -> &str {
    match mime {
        mime::TEXT_PLAIN => "txt",
        mime::TEXT_HTML => "html",
        mime::TEXT_MARKDOWN => "md",
        mime::IMAGE_SVG => "svg",
        mime::IMAGE_JPEG => "jpg",
        _ if mime::is_json(mime) => "json",
        _ => mime
            .rsplit_once('/')
            .map(|(_, kind)| kind)
            .filter(|kind| kind.chars().all(|c| c.is_ascii_alphanumeric()))
            .unwrap_or("bin"),
    }
}
