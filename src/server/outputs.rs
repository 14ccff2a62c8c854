//! Outputs of cells: their types, their bytes, and as HTML that can stand in the page. Whatever is in one is hostile.
//!
//! - Bytes are saved or are pictures; under no address does one become a page of this origin.
//! - HTML in the page has gone through `export`'s list of what may stay; what scripts draw gets a frame
//!   ([`document`]) that has no origin, no cookie and no network, under an address that is a ticket.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::document;
use super::download;
use super::extract::Path;
use super::problem::Problem;
use super::state::Shared;
use super::ticket::OutputPlace;
use crate::export;
use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::Output;

/// Session, cell and number of an output.
type OutputAddress = (String, String, usize);

/// Which types there are.
pub(super) async fn types(
    State(shared): State<Arc<Shared>>,
    Path(place): Path<OutputAddress>,
) -> Result<Response, Problem> {
    let output = find(&shared, place).await?;
    let types: Vec<Value> = match &output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => data
            .iter()
            .map(|(mime, value)| json!({ "mime": mime, "bytes": bytes_of(mime, value).len() }))
            .collect(),
        other => vec![json!({ "mime": mime::TEXT_PLAIN, "bytes": plain(other).len() })],
    };
    Ok(axum::Json(json!({ "types": types })).into_response())
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
    let output = find(&shared, (session, cell, index)).await?;
    let bytes = match &output {
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            data.get(&wanted).map(|value| bytes_of(&wanted, value))
        }
        other if wanted == mime::TEXT_PLAIN => Some(plain(other).into_bytes()),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| Problem::not_found(format!("the output has no `{wanted}`")))?;
    Ok(download::bytes(bytes, &wanted, &name, &headers))
}

/// As HTML for the page, or the address of a frame.
async fn html(shared: &Shared, place: OutputAddress) -> Result<Response, Problem> {
    let output = find(shared, place.clone()).await?;
    let (session, cell, index) = place;
    let rendered = tokio::task::spawn_blocking(move || export::output_html(&output)).await;
    let rendered = rendered.map_err(|error| Problem::internal(error.to_string()))?;
    let answer = if let Some(html) = rendered {
        json!({ "html": html })
    } else {
        let place = OutputPlace {
            session,
            cell,
            index,
        };
        let ticket = shared.tickets.issue(&place);
        json!({ "frame": format!("/out/{ticket}/{}/{index}", place.cell) })
    };
    Ok(axum::Json(answer).into_response())
}

/// The document of a frame. Nobody is asked who they are: the address is the ticket.
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
    let output = find(&shared, (place.session, place.cell, index)).await?;
    let (Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. }) = &output else {
        return Err(Problem::not_found("this output needs no frame"));
    };
    let document = document::of(data).ok_or_else(|| {
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
    headers.insert(
        HeaderName::from_static("x-frame-options"),
        HeaderValue::from_static("SAMEORIGIN"),
    );
    Ok(response)
}

async fn find(shared: &Shared, (session, cell, index): OutputAddress) -> Result<Output, Problem> {
    let live = shared.live(&session)?;
    let found = live
        .handle()
        .look(move |transcript| transcript.code(&cell)?.outputs.nth(index))
        .await?;
    found.ok_or_else(|| Problem::not_found("there is no such output"))
}

/// What a representation is as a file.
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
