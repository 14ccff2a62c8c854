//! Words and code as HTML that can stand in the page.

use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::extract::Json;
use super::problem::Problem;
use crate::export;

/// What `POST /api/markdown` takes: one text, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Texts {
    One { text: String },
    Several { texts: Vec<String> },
}

/// Markdown as safe HTML.
pub(super) async fn markdown(Json(texts): Json<Texts>) -> Result<Response, Problem> {
    let rendered = tokio::task::spawn_blocking(move || match texts {
        Texts::One { text } => json!({ "html": export::text_html(&text) }),
        Texts::Several { texts } => {
            let htmls: Vec<String> = texts.iter().map(|it| export::text_html(it)).collect();
            json!({ "htmls": htmls })
        }
    });
    answered(rendered).await
}

/// What `POST /api/highlight` takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Code {
    code: String,
    #[serde(default)]
    language: String,
}

/// Code with its colours as classes.
pub(super) async fn highlight(Json(code): Json<Code>) -> Result<Response, Problem> {
    let rendered = tokio::task::spawn_blocking(
        move || json!({ "html": export::code_html(&code.code, &code.language) }),
    );
    answered(rendered).await
}

async fn answered(
    rendered: tokio::task::JoinHandle<serde_json::Value>,
) -> Result<Response, Problem> {
    let rendered = rendered.await;
    let rendered = rendered.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(axum::Json(rendered).into_response())
}
