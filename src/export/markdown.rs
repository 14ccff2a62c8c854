//! Markdown cells and answers -> HTML, as JupyterLab reads them: CommonMark with tables, strike-through, tasks and maths.
//!
//! HTML inside Markdown is as untrusted as an output's, so all of the result goes through [`super::sanitise`]. Maths
//! stays as written.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use serde_json::{Map, Value};

use super::escape::escape;
use super::highlight::highlight;
use super::sanitise;
use crate::jupyter::mime::{self, MimeBundle};

/// Resolves a picture's path in the text to a `data:` URL.
pub type Pictures<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Renders a text with its attachments.
pub(super) fn html(
    text: &str,
    attachments: Option<&Map<String, Value>>,
    pictures: &Pictures<'_>,
) -> String {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH;
    let mut mapped = Mapped {
        code: None,
        links: Vec::new(),
        attachments,
        pictures,
    };
    let events = Parser::new_ext(text, options).filter_map(|event| mapped.event(event));
    let mut out = String::with_capacity(text.len() * 2);
    html::push_html(&mut out, events);
    sanitise::markdown(&out)
}

/// Replaces what a browser could not show or would load.
struct Mapped<'a, 'p> {
    /// Language and text of the open code block.
    code: Option<(String, String)>,
    /// For each open picture, whether it became a link.
    links: Vec<bool>,
    attachments: Option<&'a Map<String, Value>>,
    pictures: &'p Pictures<'p>,
}

impl<'a> Mapped<'a, '_> {
    fn event(&mut self, event: Event<'a>) -> Option<Event<'a>> {
        if let Some((language, text)) = &mut self.code {
            match event {
                Event::Text(more) => text.push_str(&more),
                Event::End(TagEnd::CodeBlock) => {
                    let html = format!("<pre><code>{}</code></pre>\n", highlight(text, language));
                    self.code = None;
                    return Some(Event::Html(html.into()));
                }
                _ => {}
            }
            return None;
        }
        Some(match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default()
                    }
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((language.to_owned(), String::new()));
                return None;
            }
            Event::Start(Tag::Image {
                link_type,
                dest_url,
                title,
                id,
            }) => {
                let found = self.picture(&dest_url);
                self.links.push(found.is_none());
                match found {
                    Some(url) => Event::Start(Tag::Image {
                        link_type,
                        dest_url: url,
                        title,
                        id,
                    }),
                    // Nothing is loaded; the reader can follow the link.
                    None => Event::Start(Tag::Link {
                        link_type,
                        dest_url,
                        title,
                        id,
                    }),
                }
            }
            Event::End(TagEnd::Image) => match self.links.pop() {
                Some(true) => Event::End(TagEnd::Link),
                _ => Event::End(TagEnd::Image),
            },
            Event::InlineMath(text) => Event::InlineHtml(maths("$", &text)),
            Event::DisplayMath(text) => Event::InlineHtml(maths("$$", &text)),
            Event::TaskListMarker(done) => Event::Text(if done { "☑ " } else { "☐ " }.into()),
            event => event,
        })
    }

    fn picture(&self, url: &str) -> Option<CowStr<'a>> {
        if sanitise::is_picture(url) {
            return Some(url.to_owned().into());
        }
        if let Some(name) = url.strip_prefix("attachment:") {
            let bundle = self.attachments?.get(name)?.as_object()?;
            return data_url(&MimeBundle::from(bundle.clone())).map(Into::into);
        }
        if url.contains(':')
            || url.starts_with(['/', '\\'])
            || url.split('/').any(|part| part == "..")
        {
            return None;
        }
        (self.pictures)(url).map(Into::into)
    }
}

fn maths(mark: &str, text: &str) -> CowStr<'static> {
    format!("<code class=\"math\">{mark}{}{mark}</code>", escape(text)).into()
}

/// A bundle's picture as a `data:` URL.
pub(super) fn data_url(bundle: &MimeBundle) -> Option<String> {
    let mime = bundle
        .raster()
        .or_else(|| bundle.contains(mime::IMAGE_SVG).then_some(mime::IMAGE_SVG))?;
    let text = bundle.text_of(mime)?;
    if mime == mime::IMAGE_SVG {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(text.as_bytes());
        return Some(format!("data:{mime};base64,{encoded}"));
    }
    let encoded: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    (!encoded.is_empty() && encoded.chars().all(is_base64))
        .then(|| format!("data:{mime};base64,{encoded}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(text: &str) -> String {
        let attachments =
            json!({"a.png": {"image/png": "AA==\n"}, "s.svg": {"image/svg+xml": "<svg/>"}});
        let pictures =
            |path: &str| (path == "dir/p.png").then(|| "data:image/png;base64,BB==".to_owned());
        html(text, attachments.as_object(), &pictures)
    }

    #[test]
    fn text_as_jupyter_shows_it() {
        for (text, html) in [
            (
                "# T\n\n*a* ~~b~~",
                "<h1>T</h1>\n<p><em>a</em> <del>b</del></p>\n",
            ),
            (
                "- [x] a\n- [ ] b",
                "<ul>\n<li>☑ a</li>\n<li>☐ b</li>\n</ul>\n",
            ),
            (
                "```python\nx = '<'\n```",
                "<pre><code>x = <span class=\"h-s\">'&lt;'</span>\n</code></pre>\n",
            ),
            ("$a<b$", "<p><code class=\"math\">$a&lt;b$</code></p>\n"),
            (
                "![p](attachment:a.png)",
                "<p><img src=\"data:image/png;base64,AA==\" alt=\"p\"></p>\n",
            ),
            (
                "![p](attachment:s.svg)",
                "<p><img src=\"data:image/svg+xml;base64,PHN2Zy8+\" alt=\"p\"></p>\n",
            ),
            (
                "![p](dir/p.png)",
                "<p><img src=\"data:image/png;base64,BB==\" alt=\"p\"></p>\n",
            ),
            (
                "![p](https://x.example/p.png)",
                "<p><a href=\"https://x.example/p.png\" rel=\"noopener noreferrer\">p</a></p>\n",
            ),
            (
                "![p](../p.png)",
                "<p><a href=\"../p.png\" rel=\"noopener noreferrer\">p</a></p>\n",
            ),
            (
                "[x](javascript:alert(1)) <b onclick=x>y</b>",
                "<p><a rel=\"noopener noreferrer\">x</a> <b>y</b></p>\n",
            ),
        ] {
            assert_eq!(render(text), html, "{text}");
        }
    }
}
