//! An ordered MIME bundle: one output in several representations.
//!
//! Invariants: the kernel's order of the representations is kept; values are kept as they came (text may be a string or
//! an array of strings to be joined); nothing is decoded until requested.
//!
//! Deliberately not here: rendering, summarising, limits on size. Those depend on the audience.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_PAD_INDIFFERENT;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `text/plain`, the representation that every kernel provides.
pub const TEXT_PLAIN: &str = "text/plain";
/// `text/html`.
pub const TEXT_HTML: &str = "text/html";
/// `text/markdown`.
pub const TEXT_MARKDOWN: &str = "text/markdown";
/// `text/latex`.
pub const TEXT_LATEX: &str = "text/latex";
/// `text/llm+plain`, text that a library wrote for language models.
pub const TEXT_LLM: &str = "text/llm+plain";
/// `image/png`, base64 in a bundle.
pub const IMAGE_PNG: &str = "image/png";
/// `image/jpeg`, base64 in a bundle.
pub const IMAGE_JPEG: &str = "image/jpeg";
/// `image/gif`, base64 in a bundle.
pub const IMAGE_GIF: &str = "image/gif";
/// `image/webp`, base64 in a bundle.
pub const IMAGE_WEBP: &str = "image/webp";
/// `image/svg+xml`, plain text in a bundle although it is an image.
pub const IMAGE_SVG: &str = "image/svg+xml";
/// `application/json`.
pub const APPLICATION_JSON: &str = "application/json";
/// `application/javascript`, plain text in a bundle.
pub const APPLICATION_JAVASCRIPT: &str = "application/javascript";
/// A figure as typed data, which Sponde keeps beside its picture.
pub const CHART: &str = "application/vnd.sponde.chart+json";
/// Every version of a Plotly figure (`application/vnd.plotly.v1+json`).
pub const PLOTLY_PREFIX: &str = "application/vnd.plotly.";
/// Every version of a Vega-Lite chart (`application/vnd.vegalite.v5+json`).
pub const VEGALITE_PREFIX: &str = "application/vnd.vegalite.";
/// Every version of a Vega chart (`application/vnd.vega.v5+json`).
pub const VEGA_PREFIX: &str = "application/vnd.vega.";

/// Images that arrive as base64 and that a screen or a model can take, best first.
pub const RASTER_IMAGES: [&str; 4] = [IMAGE_PNG, IMAGE_JPEG, IMAGE_WEBP, IMAGE_GIF];

/// Representations of one output, keyed by MIME type, in the kernel's order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct MimeBundle(Map<String, Value>);

/// The reader of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A user at a terminal: images first, then readable text.
    Terminal,
    /// A language model: the text that says most in the fewest words, then images.
    Model,
    /// A user at a browser: interactive charts, then HTML.
    Web,
}

/// Why the bytes of a MIME type cannot be returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MimeError {
    /// Neither a string nor an array of strings.
    #[error("`{mime}` should hold text, found {found}")]
    NotText {
        /// The MIME type asked for.
        mime: String,
        /// JSON type of the value.
        found: &'static str,
    },
    /// Text, but not base64.
    #[error("`{mime}` is not base64: {reason}")]
    NotBase64 {
        /// The MIME type asked for.
        mime: String,
        /// The decoder's error.
        reason: String,
    },
}

impl MimeBundle {
    /// An empty bundle.
    pub fn new() -> Self {
        Self::default()
    }

    /// A bundle with only `text/plain`.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new().with(TEXT_PLAIN, text.into())
    }

    /// A bundle of one PNG image.
    pub fn png(bytes: &[u8]) -> Self {
        Self::new().with(IMAGE_PNG, STANDARD_PAD_INDIFFERENT.encode(bytes))
    }

    /// Sets `mime` and returns the bundle, for chaining.
    #[must_use]
    pub fn with(mut self, mime: impl Into<String>, value: impl Into<Value>) -> Self {
        self.insert(mime, value);
        self
    }

    /// Sets `mime`; a new one goes last, an existing one keeps its place.
    pub fn insert(&mut self, mime: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(mime.into(), value.into());
    }

    /// Removes `mime` and keeps the order of the others.
    pub fn remove(&mut self, mime: &str) -> Option<Value> {
        self.0.shift_remove(mime)
    }

    /// The value as it came.
    pub fn get(&self, mime: &str) -> Option<&Value> {
        self.0.get(mime)
    }

    /// Whether the bundle has `mime`.
    pub fn contains(&self, mime: &str) -> bool {
        self.0.contains_key(mime)
    }

    /// The text of `mime`: a string, or an array of strings joined. `None` if it is missing or of another type.
    pub fn text_of(&self, mime: &str) -> Option<Cow<'_, str>> {
        joined(self.0.get(mime)?)
    }

    /// The bytes of a base64 MIME type; ignores white space and missing padding. `None` if it is missing.
    pub fn bytes(&self, mime: &str) -> Option<Result<Vec<u8>, MimeError>> {
        Some(decode(mime, self.0.get(mime)?))
    }

    /// The bytes of the PNG image, if there is one.
    pub fn png_bytes(&self) -> Option<Result<Vec<u8>, MimeError>> {
        self.bytes(IMAGE_PNG)
    }

    /// The MIME type of the best raster image, by the order of [`RASTER_IMAGES`].
    pub fn raster(&self) -> Option<&'static str> {
        RASTER_IMAGES
            .into_iter()
            .find(|mime| self.0.get(*mime).is_some_and(|value| !is_blank(value)))
    }

    /// The best representation for `audience`.
    ///
    /// | audience | order |
    /// |---|---|
    /// | `Terminal` | png, jpeg, webp, gif, plain, markdown, latex, html, svg, any JSON |
    /// | `Model` | llm+plain, plain, markdown, latex, any JSON, png, jpeg, webp, gif, html, svg |
    /// | `Web` | plotly, vega-lite, vega, html, markdown, latex, svg, png, jpeg, webp, gif, javascript, plain, any JSON |
    ///
    /// Then any other type, in the kernel's order. Blank values never win. A `text/plain` that only names an object
    /// (`<Figure size 640x480 with 1 Axes>`) ranks last, because every other representation says more; alone it is
    /// still returned. JavaScript is for the web: elsewhere it is only returned if there is nothing else.
    pub fn richest_for(&self, audience: Audience) -> Option<(&str, &Value)> {
        self.0
            .iter()
            .enumerate()
            .filter(|(_, (_, value))| !is_blank(value))
            .min_by_key(|(place, (mime, value))| (rank(audience, mime, value), *place))
            .map(|(_, (mime, value))| (mime.as_str(), value))
    }

    /// MIME types and values in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(mime, value)| (mime.as_str(), value))
    }

    /// The number of representations.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no representations.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bundle as a JSON object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The same, owned.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// Joins values that are arrays of strings into one string, the in-memory form of notebooks. JSON types are left
    /// alone: there an array is an array.
    pub fn join_lines(&mut self) {
        for (mime, value) in &mut self.0 {
            if !is_json(mime)
                && let Some(Cow::Owned(text)) = joined(value)
            {
                *value = Value::String(text);
            }
        }
    }
}

impl From<Map<String, Value>> for MimeBundle {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

impl<K: Into<String>, V: Into<Value>> FromIterator<(K, V)> for MimeBundle {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        Self(
            items
                .into_iter()
                .map(|(mime, value)| (mime.into(), value.into()))
                .collect(),
        )
    }
}

impl IntoIterator for MimeBundle {
    type Item = (String, Value);
    type IntoIter = serde_json::map::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Whether values of `mime` are JSON rather than text: `^application/(.*\+)?json$`
/// (nbformat schema, `mimebundle`).
pub fn is_json(mime: &str) -> bool {
    mime.strip_prefix("application/")
        .is_some_and(|rest| rest == "json" || rest.ends_with("+json"))
}

/// Whether values of `mime` are images in base64.
pub fn is_base64_image(mime: &str) -> bool {
    mime.starts_with("image/") && mime != IMAGE_SVG
}

/// A string, or an array of strings joined (`multiline_string` of the nbformat schema). Borrowed if nothing had to be
/// joined.
pub fn joined(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Array(lines) => lines
            .iter()
            .map(Value::as_str)
            .collect::<Option<String>>()
            .map(Cow::Owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The name of a value's JSON type, for messages.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// In a preference order: every type that [`is_json`]. An entry that ends in a full stop is a prefix; all others are
/// exact.
const ANY_JSON: &str = "+json";

// Ranks behind every preference order.
const ANYTHING_ELSE: usize = 100;
const ONLY_A_NAME: usize = 101;
const USELESS_HERE: usize = 102;

const FOR_TERMINAL: [&str; 10] = [
    IMAGE_PNG,
    IMAGE_JPEG,
    IMAGE_WEBP,
    IMAGE_GIF,
    TEXT_PLAIN,
    TEXT_MARKDOWN,
    TEXT_LATEX,
    TEXT_HTML,
    IMAGE_SVG,
    ANY_JSON,
];
const FOR_MODEL: [&str; 11] = [
    TEXT_LLM,
    TEXT_PLAIN,
    TEXT_MARKDOWN,
    TEXT_LATEX,
    ANY_JSON,
    IMAGE_PNG,
    IMAGE_JPEG,
    IMAGE_WEBP,
    IMAGE_GIF,
    TEXT_HTML,
    IMAGE_SVG,
];
const FOR_WEB: [&str; 14] = [
    PLOTLY_PREFIX,
    VEGALITE_PREFIX,
    VEGA_PREFIX,
    TEXT_HTML,
    TEXT_MARKDOWN,
    TEXT_LATEX,
    IMAGE_SVG,
    IMAGE_PNG,
    IMAGE_JPEG,
    IMAGE_WEBP,
    IMAGE_GIF,
    APPLICATION_JAVASCRIPT,
    TEXT_PLAIN,
    ANY_JSON,
];

fn rank(audience: Audience, mime: &str, value: &Value) -> usize {
    if mime == TEXT_PLAIN && only_names_an_object(value) {
        return ONLY_A_NAME;
    }
    if mime == APPLICATION_JAVASCRIPT && audience != Audience::Web {
        return USELESS_HERE;
    }
    let order: &[&str] = match audience {
        Audience::Terminal => &FOR_TERMINAL,
        Audience::Model => &FOR_MODEL,
        Audience::Web => &FOR_WEB,
    };
    order
        .iter()
        .position(|wanted| match *wanted {
            ANY_JSON => is_json(mime),
            prefix if prefix.ends_with('.') => mime.starts_with(prefix),
            exact => mime == exact,
        })
        .unwrap_or(ANYTHING_ELSE)
}

/// `<IPython.core.display.HTML object>`, `<Figure size 640x480 with 1 Axes>`; also Altair's, whose
/// first line is such a name and the rest advice about front ends.
fn only_names_an_object(value: &Value) -> bool {
    joined(value).is_some_and(|text| {
        let first = text.trim().lines().next().unwrap_or_default().trim_end();
        first.starts_with('<') && first.ends_with('>') && !first.starts_with("<class ")
    })
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn decode(mime: &str, value: &Value) -> Result<Vec<u8>, MimeError> {
    let Some(text) = joined(value) else {
        return Err(MimeError::NotText {
            mime: mime.to_owned(),
            found: json_type(value),
        });
    };
    // Python's `encodebytes` breaks lines; copy only if there is white space.
    let compact: Cow<'_, [u8]> = if text.bytes().any(|byte| byte.is_ascii_whitespace()) {
        let kept = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
        Cow::Owned(kept.collect())
    } else {
        Cow::Borrowed(text.as_bytes())
    };
    STANDARD_PAD_INDIFFERENT
        .decode(compact)
        .map_err(|error| MimeError::NotBase64 {
            mime: mime.to_owned(),
            reason: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bundle(value: &Value) -> MimeBundle {
        MimeBundle::from(value.as_object().unwrap().clone())
    }

    #[test]
    fn keeps_the_order_of_the_kernel() {
        let text = r#"{"text/html":"<b>","image/png":"","text/plain":"x"}"#;
        let read: MimeBundle = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn text_is_a_string_or_strings_joined() {
        let bundle = bundle(&json!({"a/a": "one", "a/b": ["one\n", "two"], "a/c": [1], "a/d": {}}));
        let read = |mime| bundle.text_of(mime).map(Cow::into_owned);
        assert_eq!(
            ["a/a", "a/b", "a/c", "a/d", "a/e"].map(read),
            [
                Some("one".to_owned()),
                Some("one\ntwo".to_owned()),
                None,
                None,
                None
            ]
        );
    }

    #[test]
    fn base64_with_line_breaks_and_without_padding() {
        let cases = [
            (json!("aGVsbG8="), Some(Ok(b"hello".to_vec()))),
            (json!("aGVs\nbG8=\n"), Some(Ok(b"hello".to_vec()))),
            (json!(["aGVs\r\n", " bG8"]), Some(Ok(b"hello".to_vec()))),
            (
                json!(7),
                Some(Err(MimeError::NotText {
                    mime: "image/png".to_owned(),
                    found: "a number",
                })),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(
                MimeBundle::new().with(IMAGE_PNG, value).png_bytes(),
                expected
            );
        }
        assert_eq!(MimeBundle::new().png_bytes(), None);
        assert!(matches!(
            MimeBundle::new().with(IMAGE_PNG, "no!").png_bytes(),
            Some(Err(MimeError::NotBase64 { .. }))
        ));
        assert_eq!(
            MimeBundle::png(b"hello").png_bytes(),
            Some(Ok(b"hello".to_vec()))
        );
    }

    #[test]
    fn json_types() {
        let json = [
            "application/json",
            "application/vnd.plotly.v1+json",
            "application/+json",
        ];
        let not = [
            "text/json",
            "application/xjson",
            "application/json5",
            "json",
            "text/vnd+json",
        ];
        assert_eq!(json.map(is_json), [true; 3]);
        assert_eq!(not.map(is_json), [false; 5]);
    }

    #[test]
    fn the_richest_for_each_audience() {
        let figure =
            json!({"text/plain": "<Figure size 640x480 with 1 Axes>", "image/png": "AA=="});
        let frame = json!({"text/html": "<table>", "text/plain": "   a\n0  1"});
        let plotly = json!({
            "application/vnd.plotly.v1+json": {"data": []},
            "text/html": "<div>",
            "text/plain": "Figure({})",
        });
        let markdown = json!({
            "text/plain": "<IPython.core.display.Markdown object>",
            "text/markdown": "# hi",
        });
        let script = json!({"application/javascript": "1", "text/plain": "<Javascript object>"});
        let class = json!({"text/html": "<i>int</i>", "text/plain": "<class 'int'>"});
        let altair = json!({
            "application/vnd.vegalite.v5+json": {},
            "text/plain": "<VegaLite 5 object>\n\nIf you see this message, read on",
        });
        let blank = json!({"text/html": "", "text/plain": null, "x/y": "z"});
        let cases = [
            (figure, ["image/png", "image/png", "image/png"]),
            (frame, ["text/plain", "text/plain", "text/html"]),
            (
                plotly,
                ["text/plain", "text/plain", "application/vnd.plotly.v1+json"],
            ),
            (markdown, ["text/markdown"; 3]),
            (
                script,
                ["text/plain", "text/plain", "application/javascript"],
            ),
            (class, ["text/plain", "text/plain", "text/html"]),
            (altair, ["application/vnd.vegalite.v5+json"; 3]),
            (blank, ["x/y"; 3]),
            // A data frame of R: its Markdown is meant for web pages.
            (
                json!({
                    "text/html": "<table>",
                    "text/markdown": "| a &lt;dbl&gt; |\n|---|\n| 1 |",
                    "text/latex": "\\begin{tabular}",
                    "text/plain": "  a\n1 1",
                }),
                ["text/plain", "text/plain", "text/html"],
            ),
        ];
        for (value, expected) in cases {
            let bundle = bundle(&value);
            let found = [Audience::Terminal, Audience::Model, Audience::Web]
                .map(|audience| bundle.richest_for(audience).unwrap().0);
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(MimeBundle::new().richest_for(Audience::Web), None);
    }

    #[test]
    fn joining_leaves_json_and_odd_values_alone() {
        let mut joined = bundle(&json!({
            "text/plain": ["a\n", "b"],
            "image/png": [],
            "application/json": ["a", "b"],
            "text/html": ["a", 1],
        }));
        joined.join_lines();
        let expected = bundle(&json!({
            "text/plain": "a\nb",
            "image/png": "",
            "application/json": ["a", "b"],
            "text/html": ["a", 1],
        }));
        assert_eq!(joined, expected);
    }
}
