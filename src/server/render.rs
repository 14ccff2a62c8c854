//! Words and code as HTML that can stand in the page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

/// What it answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Htmls {
    /// Of one text.
    One(Html),
    /// Of several, in order.
    Several {
        /// Safe HTML.
        htmls: Vec<String>,
    },
}

/// A piece of HTML.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Html {
    /// Safe HTML.
    pub(super) html: String,
}

/// Markdown as safe HTML.
pub(super) async fn markdown(Json(texts): Json<Texts>) -> Result<axum::Json<Htmls>, Problem> {
    elsewhere(move || match texts {
        Texts::One { text } => Htmls::One(Html {
            html: export::text_html(&text),
        }),
        Texts::Several { texts } => Htmls::Several {
            htmls: texts.iter().map(|it| export::text_html(it)).collect(),
        },
    })
    .await
}

/// What `POST /api/highlight` takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Code {
    code: String,
    #[serde(default)]
    language: String,
}

/// Code with its colours as classes.
pub(super) async fn highlight(Json(code): Json<Code>) -> Result<axum::Json<Html>, Problem> {
    elsewhere(move || Html {
        html: export::code_html(&code.code, &code.language),
    })
    .await
}

async fn elsewhere<T: Send + 'static>(
    render: impl FnOnce() -> T + Send + 'static,
) -> Result<axum::Json<T>, Problem> {
    let rendered = tokio::task::spawn_blocking(render).await;
    let rendered = rendered.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(axum::Json(rendered))
}
