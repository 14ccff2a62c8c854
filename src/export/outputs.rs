//! Outputs of cells -> HTML: the richest representation that needs no script.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::ansi::Ansi;
use super::escape::escape;
use super::markdown::{self, Pictures};
use super::sanitise::{self, Safe};
use crate::jupyter::mime::{self, MimeBundle};
use crate::jupyter::nbformat::Output;

/// Lines of text shown before folding.
const LINES: usize = 60;
/// Lines shown of a longer text; the rest is folded.
const HEAD: usize = 25;
/// Maximum lines of an output in a page; the notebook has the rest.
const MOST: usize = 20_000;

/// The outputs of one cell.
pub(super) fn html(outputs: &[Output], count: &mut usize, pictures: &Pictures<'_>) -> String {
    let mut html = String::new();
    for output in outputs {
        match output {
            Output::Stream { name, text, .. } => {
                let class = if name == "stderr" {
                    "stream stderr"
                } else {
                    "stream"
                };
                push_text(text, class, &mut html);
            }
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => {
                let mut text = traceback.join("\n");
                if text.trim().is_empty() {
                    text = format!("{ename}: {evalue}");
                }
                push_text(&text, "traceback", &mut html);
            }
            Output::DisplayData { data, metadata, .. }
            | Output::ExecuteResult { data, metadata, .. } => {
                display(data, metadata, count, pictures, &mut html);
            }
            Output::Other(_) => note("an output of a kind that is not known here", &mut html),
        }
    }
    html
}

/// One output as embedded in a page; `None` if scripts draw it.
pub(super) fn inline(output: &Output) -> Option<String> {
    if let Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } = output {
        if interactive(data).is_some() {
            return None;
        }
        if let Some(text) = data.text_of(mime::TEXT_HTML)
            && sanitise::is_drawn(&text)
        {
            return None;
        }
    }
    Some(html(std::slice::from_ref(output), &mut 0, &|_| None))
}

fn display(
    data: &MimeBundle,
    metadata: &Map<String, Value>,
    count: &mut usize,
    pictures: &Pictures<'_>,
    html: &mut String,
) {
    let interactive = interactive(data);
    if interactive.is_none()
        && let Some(text) = data.text_of(mime::TEXT_HTML)
    {
        match sanitise::output(&text) {
            Safe::Html(safe) => {
                let _ = writeln!(
                    html,
                    "<div class=\"rich\" tabindex=\"0\" role=\"region\" aria-label=\"Output\">{safe}</div>"
                );
                return;
            }
            Safe::TooLarge => note("HTML that is too large to be shown here", html),
            Safe::Nothing if data.raster().is_none() && !data.contains(mime::IMAGE_SVG) => {
                note(
                    "an interactive output: open the notebook in Jupyter to see it",
                    html,
                );
            }
            Safe::Nothing => {}
        }
    }
    if let Some(text) = data.text_of(mime::TEXT_MARKDOWN) {
        let text = markdown::html(&text, None, pictures);
        let _ = writeln!(html, "<div class=\"text\">{text}</div>");
        return;
    }
    if let Some(url) = markdown::data_url(data) {
        *count += 1;
        let mime = data.raster().unwrap_or(mime::IMAGE_SVG);
        let size = |side: &str| {
            let size = metadata.get(mime)?.get(side)?.as_f64()?;
            (size > 0.0 && size < 10_000.0).then(|| format!(" {side}=\"{size:.0}\""))
        };
        let alt = metadata.get(mime).and_then(|it| it.get("alt")?.as_str());
        let _ = writeln!(
            html,
            "<img src=\"{url}\" alt=\"Plot {count}{}\"{}{}>",
            alt.map(|alt| format!(": {}", escape(alt)))
                .unwrap_or_default(),
            size("width").unwrap_or_default(),
            size("height").unwrap_or_default()
        );
        return;
    }
    if let Some(kind) = interactive {
        note(
            &format!("{kind}: open the notebook in Jupyter to see it"),
            html,
        );
    }
    if let Some(text) = data.text_of(mime::TEXT_LATEX) {
        let _ = writeln!(html, "<pre class=\"math\">{}</pre>", escape(text.trim()));
        return;
    }
    let text = data.text_of(mime::TEXT_PLAIN);
    // More informative than `<IPython.core.display.JSON object>`.
    if let Some(value) = data.get(mime::APPLICATION_JSON)
        && text.as_ref().is_none_or(|text| text.starts_with('<'))
    {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        return push_text(&text, "result", html);
    }
    if let Some(text) = text {
        return push_text(&text, "result", html);
    }
    if interactive.is_none() {
        let types: Vec<&str> = data.iter().map(|(mime, _)| mime).collect();
        if !types.is_empty() && !data.contains(mime::TEXT_HTML) {
            note(&format!("an output of the type {}", types.join(", ")), html);
        }
    }
}

/// Describes an output that scripts draw.
fn interactive(data: &MimeBundle) -> Option<&'static str> {
    data.iter().find_map(|(mime, _)| match mime {
        _ if mime.starts_with(mime::PLOTLY_PREFIX) => Some("an interactive Plotly chart"),
        _ if mime.starts_with(mime::VEGALITE_PREFIX) || mime.starts_with(mime::VEGA_PREFIX) => {
            Some("an interactive Vega chart")
        }
        _ if mime.starts_with("application/vnd.jupyter.widget") => Some("an interactive widget"),
        _ if mime.starts_with("application/vnd.bokehjs")
            || mime.starts_with("application/vnd.holoviews") =>
        {
            Some("an interactive Bokeh chart")
        }
        mime::APPLICATION_JAVASCRIPT => Some("a script"),
        _ => None,
    })
}

/// Text with its colours; long text is folded after its beginning.
fn push_text(text: &str, class: &str, html: &mut String) {
    let text = text.strip_suffix('\n').unwrap_or(text);
    if text.is_empty() {
        return;
    }
    let lines = text.split('\n').count();
    let mut ansi = Ansi::default();
    if lines <= LINES {
        let _ = writeln!(html, "{}{}</pre>", pre(class), ansi.html(text));
        return;
    }
    let (head, rest) = text.split_at(end_of_line(text, HEAD));
    let (rest, more) = rest.split_at(end_of_line(rest, MOST));
    let more = more.split('\n').count() - usize::from(more.is_empty());
    let _ = writeln!(
        html,
        "{}{}</pre>\n<details class=\"more\"><summary>{} more lines</summary>\n{}{}</pre>",
        pre(class),
        ansi.html(head.trim_end_matches('\n')),
        thousands(lines - HEAD),
        pre(class),
        ansi.html(rest.trim_end_matches('\n'))
    );
    if more > 0 {
        note(
            &format!("and {} lines more in the notebook", thousands(more)),
            html,
        );
    }
    html.push_str("</details>\n");
}

fn pre(class: &str) -> String {
    let label = match class {
        "stream stderr" => "Warnings and messages",
        "traceback" => "Error",
        _ => "Output",
    };
    // HTML ignores a line break right after the tag, and the text may begin with one.
    format!("<pre class=\"{class}\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\">\n")
}

/// Offset after the first `lines` lines.
fn end_of_line(text: &str, lines: usize) -> usize {
    text.match_indices('\n')
        .nth(lines.saturating_sub(1))
        .map_or(text.len(), |(at, _)| at + 1)
}

fn note(text: &str, html: &mut String) {
    let _ = writeln!(html, "<p class=\"remark\">({})</p>", escape(text));
}

/// `12,345`.
pub(super) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(outputs: &[Output]) -> String {
        html(outputs, &mut 0, &|_| None)
    }

    fn shown(data: MimeBundle, metadata: &Value) -> String {
        let metadata = metadata.as_object().cloned().unwrap_or_default();
        render(&[Output::display(data, metadata)])
    }

    #[test]
    fn the_richest_that_runs_nothing() {
        let text = MimeBundle::text("x<y");
        let plain = "<pre class=\"result\" tabindex=\"0\" role=\"region\" aria-label=\"Output\">\nx&lt;y</pre>\n";
        for (data, expected) in [
            (text.clone(), plain.to_owned()),
            (
                text.clone().with("text/html", "<b>x</b>"),
                "<div class=\"rich\" tabindex=\"0\" role=\"region\" aria-label=\"Output\"><b>x</b></div>\n".to_owned(),
            ),
            (
                text.clone().with("text/html", "<div id=a></div><script>draw()</script>"),
                format!("<p class=\"remark\">(an interactive output: open the notebook in Jupyter to see it)</p>\n{plain}"),
            ),
            (
                text.clone().with("application/vnd.plotly.v1+json", json!({})).with("text/html", "<b>no</b>"),
                format!("<p class=\"remark\">(an interactive Plotly chart: open the notebook in Jupyter to see it)</p>\n{plain}"),
            ),
            (
                text.clone().with("image/png", "AA==\n").with("application/vnd.vegalite.v5+json", json!({})),
                "<img src=\"data:image/png;base64,AA==\" alt=\"Plot 1\" width=\"30\">\n".to_owned(),
            ),
            (
                text.clone().with("image/svg+xml", "<svg onload='alert(1)'/>"),
                "<img src=\"data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9J2FsZXJ0KDEpJy8+\" alt=\"Plot 1\">\n".to_owned(),
            ),
            (
                text.clone().with("image/png", "\"><script>alert(1)</script>"),
                plain.to_owned(),
            ),
            (
                text.clone().with("text/latex", "$a<b$"),
                "<pre class=\"math\">$a&lt;b$</pre>\n".to_owned(),
            ),
            (
                text.with("text/markdown", "*a*"),
                "<div class=\"text\"><p><em>a</em></p>\n</div>\n".to_owned(),
            ),
            (
                MimeBundle::text("<JSON object>").with("application/json", json!([1])),
                plain.replace("x&lt;y", "[\n  1\n]"),
            ),
            (
                MimeBundle::new().with("application/x-odd", "<x>"),
                "<p class=\"remark\">(an output of the type application/x-odd)</p>\n".to_owned(),
            ),
        ] {
            assert_eq!(shown(data, &json!({"image/png": {"width": 30, "height": "<"}})), expected);
        }
    }

    #[test]
    fn long_text_is_folded_and_counted() {
        let lines: Vec<String> = (0..30_000).map(|line| line.to_string()).collect();
        let html = render(&[Output::stream("stdout", lines.join("\n") + "\n")]);
        assert!(
            html.contains(">\n0\n1\n") && html.contains("\n24</pre>"),
            "{}",
            &html[..300]
        );
        assert!(html.contains("<summary>29,975 more lines</summary>"));
        assert!(html.contains("\n20024</pre>"));
        assert!(html.contains("(and 9,975 lines more in the notebook)"));
        assert!(!html.contains("20025"));
    }
}
