//! Describes outputs that are not a known chart: vector graphics by size and text, JSON by its shape.

use std::fmt::Write as _;

use serde_json::Value;

use super::chart::cut;

/// Maximum fields named.
const NAMED: usize = 8;
/// Maximum characters of a name.
const NAME: usize = 80;
/// JSON up to this length is quoted; also the maximum characters of a graphic's text.
const SHORT: usize = 500;

/// Any other JSON: itself if short, else its shape.
pub(super) fn json(mime: &str, value: &Value) -> String {
    let text = value.to_string();
    if text.len() <= SHORT {
        format!("[{mime}] {text}")
    } else {
        format!(
            "[{mime} of {} bytes shown to the user: {}]",
            text.len(),
            shape(value, 0)
        )
    }
}

/// Describes a vector graphic: its size, shapes and text.
pub(super) fn svg(source: &str) -> String {
    let tag = |name: &str| source.matches(&format!("<{name}")).count();
    let shapes: usize = [
        "path", "rect", "circle", "line", "polyline", "polygon", "ellipse", "use",
    ]
    .into_iter()
    .map(tag)
    .sum();
    let head = source
        .split_once("<svg")
        .map_or("", |(_, rest)| rest.split('>').next().unwrap_or(""));
    let attribute = |name: &str| {
        let (_, value) = head.split_once(&format!(" {name}=\""))?;
        value.split('"').next().map(|value| cut(value, 40))
    };
    let size = match (
        attribute("width"),
        attribute("height"),
        attribute("viewBox"),
    ) {
        (Some(width), Some(height), _) => format!(", {width} x {height}"),
        (_, _, Some(view)) => format!(", view box {view}"),
        _ => String::new(),
    };
    // The HTML reader extracts the text between the tags.
    let mut page = source.replacen("<svg", "<div", 1);
    for end in ["</text>", "</tspan>", "</title>", "</desc>"] {
        page = page.replace(end, "<br>");
    }
    let words = super::html::text(&page);
    let words: Vec<&str> = words
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let mut text = format!(
        "[vector graphic shown to the user{size}, {shapes} shapes; it is not drawn for you"
    );
    if !words.is_empty() {
        let _ = write!(text, "; words in it: {}", cut(&words.join(", "), SHORT));
    }
    text.push(']');
    text
}

/// `an object with a (12 values), b (text)`, two levels deep.
fn shape(value: &Value, depth: usize) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) if text.len() <= 40 => format!("{text:?}"),
        Value::String(text) => format!("text of {} bytes", text.len()),
        Value::Array(values) => match values.first() {
            Some(first) if depth < 2 => format!(
                "{} values, the first {}",
                values.len(),
                shape(first, depth + 1)
            ),
            _ => format!("{} values", values.len()),
        },
        Value::Object(object) if depth < 2 => {
            let fields: Vec<String> = object
                .iter()
                .take(NAMED)
                .map(|(key, value)| format!("{} ({})", cut(key, NAME), shape(value, depth + 1)))
                .collect();
            let more = object.len() - fields.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("an object with {}{more}", fields.join(", "))
        }
        Value::Object(object) => format!("an object with {} fields", object.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn other_json_is_quoted_or_told_by_its_shape() {
        assert_eq!(
            json("application/json", &json!({"a": 1})),
            "[application/json] {\"a\":1}"
        );
        let long = json!({"rows": vec![json!({"a": 1, "b": "x"}); 100], "name": "t", "n": null});
        assert_eq!(
            json("application/json", &long),
            "[application/json of 1630 bytes shown to the user: an object with rows (100 values, the first an object with 2 fields), name (\"t\"), n (null)]"
        );
    }

    #[test]
    fn a_vector_graphic_is_its_size_and_its_words() {
        let source = "<?xml version=\"1.0\"?><svg xmlns=\"x\" width=\"300pt\" height=\"200pt\"><title>Rain</title>\
                      <path d=\"M0\"/><path d=\"M1\"/><text x=\"1\">May</text><text>June</text></svg>";
        assert_eq!(
            svg(source),
            "[vector graphic shown to the user, 300pt x 200pt, 2 shapes; it is not drawn for you; words in it: Rain, May, June]"
        );
    }
}
