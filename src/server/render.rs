//! Renders text and code as HTML for the page.

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
            html: unstyled(&export::text_html(&text)),
        }),
        Texts::Several { texts } => Htmls::Several {
            htmls: texts
                .iter()
                .map(|it| unstyled(&export::text_html(it)))
                .collect(),
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

/// Highlighted code, with its colours as classes.
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

/// Replaces `style` with `data-style` in safe HTML: the page's policy allows no inline styles, and its script sets the
/// values, which are harmless by then. In safe HTML, `<` begins a tag, and every attribute is quoted.
pub(super) fn unstyled(html: &str) -> String {
    let mut made = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        made.push_str(before);
        made.push('<');
        rest = tag;
        // Up to the tag's end, or to a quoted value.
        while let Some(at) = rest.find(['>', '"']) {
            let (part, after) = rest.split_at(at);
            match part.strip_suffix(" style=") {
                Some(part) => made.extend([part, " data-style="]),
                None => made.push_str(part),
            }
            let Some(value) = after.strip_prefix('"') else {
                rest = after;
                break;
            };
            let end = value.find('"').map_or(value.len(), |end| end + 1);
            let (value, after) = value.split_at(end);
            made.extend(["\"", value]);
            rest = after;
        }
    }
    made.push_str(rest);
    made
}

#[cfg(test)]
mod tests {
    use super::unstyled;

    #[test]
    fn only_styles_of_elements_are_renamed() {
        for (html, expected) in [
            (
                r#"<td style="color: red">a style="b"</td>"#,
                r#"<td data-style="color: red">a style="b"</td>"#,
            ),
            (
                r#"<i title=" style=" style="x">>"#,
                r#"<i title=" style=" data-style="x">>"#,
            ),
            (
                r#"<b class="a" style="x"><u style="y">"#,
                r#"<b class="a" data-style="x"><u data-style="y">"#,
            ),
            ("1 &lt; 2", "1 &lt; 2"),
            (r#"<p data-style="x""#, r#"<p data-style="x""#),
        ] {
            assert_eq!(unstyled(html), expected);
        }
    }
}
