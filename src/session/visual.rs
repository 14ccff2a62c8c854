//! Outputs that a terminal cannot show as text: pictures, charts, HTML. Each is written to a file that a person can
//! open.

use std::borrow::Cow;

use serde_json::Value;

use crate::jupyter::mime::{self, Audience, IMAGE_SVG, MimeBundle, TEXT_HTML, joined};

/// The script that draws charts in the exported pages, in the version that the plotly of our environment has; a test compares.
const PLOTLY: &str = "https://cdn.plot.ly/plotly-4.1.1.min.js";
/// The same for Vega and Vega-Lite.
const PACKAGES: &str = "https://cdn.jsdelivr.net/npm";

/// The kind of an output that needs a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Visual<'a> {
    /// A raster image, and its MIME type.
    Raster(&'static str),
    /// A chart that a script draws: its MIME type and its JSON.
    Chart(&'a str, &'a Value),
    /// A vector graphic.
    Svg,
    /// HTML without a text alternative.
    Html,
}

impl<'a> Visual<'a> {
    /// The kind of `data`, unless its text suffices.
    pub fn of(data: &'a MimeBundle) -> Option<Self> {
        if let Some(mime) = data.raster() {
            return Some(Self::Raster(mime));
        }
        if let Some((mime, value)) = data.iter().find(|(mime, value)| draws(mime, value)) {
            return Some(Self::Chart(mime, value));
        }
        // A graphic with text is still a graphic; a table with text is represented by the text.
        if data.contains(IMAGE_SVG) {
            return Some(Self::Svg);
        }
        let (mime, html) = data.richest_for(Audience::Terminal)?;
        (mime == TEXT_HTML && is_visible(&joined(html)?)).then_some(Self::Html)
    }

    /// The file's extension and content; `None` if the output is invalid.
    pub fn file(self, data: &MimeBundle) -> Option<(&'static str, Vec<u8>)> {
        match self {
            Self::Raster(mime) => {
                let extension = mime.strip_prefix("image/").unwrap_or("bin");
                Some((extension, data.bytes(mime)?.ok()?))
            }
            Self::Chart(mime, value) => Some(("html", page_of_chart(mime, value).into_bytes())),
            Self::Svg => Some(("svg", data.text_of(IMAGE_SVG)?.into_owned().into_bytes())),
            Self::Html => Some(("html", page(&data.text_of(TEXT_HTML)?).into_bytes())),
        }
    }
}

fn draws(mime: &str, value: &Value) -> bool {
    let kinds = [
        mime::PLOTLY_PREFIX,
        mime::VEGALITE_PREFIX,
        mime::VEGA_PREFIX,
    ];
    value.is_object() && kinds.iter().any(|kind| mime.starts_with(kind))
}

/// Whether it contains more than the scripts and styles that libraries send first.
fn is_visible(html: &str) -> bool {
    let mut rest = Cow::Borrowed(html);
    for element in ["script", "style"] {
        while let Some((before, after)) = rest.split_once(&format!("<{element}")) {
            let after = after
                .split_once(&format!("</{element}>"))
                .map_or("", |(_, after)| after);
            rest = Cow::Owned(format!("{before}{after}"));
        }
    }
    !rest.trim().is_empty()
}

fn page(body: &str) -> String {
    if body.contains("<html") {
        return body.to_owned();
    }
    format!("<!doctype html>\n<meta charset=\"utf-8\">\n{body}\n")
}

fn page_of_chart(mime: &str, chart: &Value) -> String {
    // A script literal: nothing in it can end the element.
    let json = chart.to_string().replace('<', "\\u003c");
    let script = |from: &str| format!("<script src=\"{from}\"></script>\n");
    let (scripts, draw) = if mime.starts_with(mime::PLOTLY_PREFIX) {
        let draw = "Plotly.newPlot(\"chart\", chart.data, chart.layout, chart.config)";
        (script(PLOTLY), draw)
    } else {
        // `application/vnd.vegalite.v5+json` names the version of the library that reads it.
        let lite = mime.strip_prefix(mime::VEGALITE_PREFIX);
        let major = lite.and_then(|rest| {
            rest.strip_prefix('v')?
                .split(['.', '+'])
                .next()?
                .parse()
                .ok()
        });
        let major: u32 = major.unwrap_or(5);
        let vega = if major > 5 { 6 } else { 5 };
        let embed = if major > 5 { 7 } else { 6 };
        let scripts = [
            script(&format!("{PACKAGES}/vega@{vega}")),
            script(&format!("{PACKAGES}/vega-lite@{major}")),
            script(&format!("{PACKAGES}/vega-embed@{embed}")),
        ];
        (scripts.concat(), "vegaEmbed(\"#chart\", chart)")
    };
    page(&format!(
        "<div id=\"chart\"></div>\n{scripts}<script>const chart = {json};\n{draw};</script>"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bundle(kinds: &[(&str, Value)]) -> MimeBundle {
        kinds.iter().cloned().collect()
    }

    #[test]
    fn what_no_text_says_goes_to_a_file() {
        let object = ("text/plain", json!("<Figure size 640x480 with 1 Axes>"));
        let svg = (
            "image/svg+xml",
            json!("<svg width=\"3\" height=\"2\"><text>hello</text></svg>"),
        );
        let html = (
            "text/html",
            json!("<table><tr><td>a</td><td>b</td></tr></table>"),
        );
        let plotly = (
            "application/vnd.plotly.v1+json",
            json!({"data": [{"type": "bar", "y": [1, 2]}], "layout": {"title": {"text": "</script>"}}}),
        );
        for (data, extension, content, text) in [
            (
                vec![svg, object.clone()],
                "svg",
                "<svg width",
                "[vector graphic, 3 x 2, 0 shapes; words in it: hello]",
            ),
            (
                vec![html.clone(), object.clone()],
                "html",
                "<td>a</td>",
                "a | b",
            ),
            (
                vec![plotly],
                "html",
                "{\"text\":\"\\u003c/script>\"}",
                "[Plotly figure; bar, y: 2 from 1 to 2]",
            ),
            (
                vec![
                    ("application/vnd.vegalite.v6+json", json!({"mark": "bar"})),
                    object.clone(),
                ],
                "html",
                "npm/vega-lite@6",
                "[Vega-Lite chart; bar]",
            ),
        ] {
            let data = bundle(&data);
            let (found, bytes) = Visual::of(&data).unwrap().file(&data).unwrap();
            let file = String::from_utf8(bytes).unwrap();
            assert!(
                found == extension && file.contains(content),
                "{found}: {file}"
            );
            assert_eq!(crate::session::shown_text::shown_text(&data), text);
        }
        // A table that comes with text, and a library's scripts.
        for data in [
            vec![html, ("text/plain", json!("   a  b"))],
            vec![(
                "text/html",
                json!(" <style>a{}</style><script>let x = '<b>';</script>\n"),
            )],
            vec![object],
        ] {
            assert_eq!(Visual::of(&bundle(&data)), None, "{data:?}");
        }
    }
}
