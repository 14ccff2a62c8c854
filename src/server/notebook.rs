//! Exports the conversation as a file: a notebook, a page, Markdown, a script.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use super::download;
use super::extract::Path;
use super::problem::Problem;
use super::state::Shared;
use crate::app::exported::Exported;

/// The session's current notebook; `file` is `notebook.ipynb`, `.html`, `.md` or `.py`.
pub(super) async fn notebook(
    State(shared): State<Arc<Shared>>,
    Path((id, file)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let ending = file.strip_prefix("notebook.");
    let ending = ending.ok_or_else(|| Problem::not_found("there is no such route"))?;
    let format = Exported::of_ending(ending).ok_or_else(|| {
        Problem::not_found(format!("there is no notebook.{ending}"))
            .hint("there are ipynb, html, md and py")
    })?;
    let live = shared.live(&id)?;
    let transcript = live.handle().look(Clone::clone).await?;
    let name = live.id.clone();
    let file = format!("{name}.{ending}");
    let text = tokio::task::spawn_blocking(move || format.render(&transcript, &name));
    let text = text.await;
    let text = text.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(download::bytes(
        text.into_bytes(),
        format.mime(),
        &file,
        &headers,
    ))
}
