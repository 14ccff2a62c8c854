//! Describes charts and other JSON: kind, title, marks, amount of data, columns. Never the data itself, which makes up
//! most of a chart's JSON and is still in the kernel.
//!
//! Formats: Vega-Lite and Vega specifications, Plotly figures, GeoJSON (RFC 7946), Jupyter widgets. Anything else is
//! described by its shape ([`super::shape`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::jupyter::mime::{self, MimeBundle};

/// Maximum traces, layers and columns named; beyond it only their number is given.
const NAMED: usize = 8;
/// Maximum characters of a title or a name.
const NAME: usize = 80;
/// Maximum characters of a widget's text.
const SHORT: usize = 500;
/// Maximum nesting of layers followed.
const DEPTH: usize = 6;

/// Describes the chart or widget among the representations.
pub(super) fn of_bundle(data: &MimeBundle) -> Option<String> {
    data.iter().find_map(|(mime, value)| {
        let object = value.as_object()?;
        if mime.starts_with(mime::VEGALITE_PREFIX) {
            Some(vega_lite(object))
        } else if mime.starts_with(mime::VEGA_PREFIX) {
            Some(vega(object))
        } else if mime.starts_with(mime::PLOTLY_PREFIX) {
            Some(plotly(object))
        } else if mime == "application/geo+json" {
            Some(geojson(object))
        } else if mime.starts_with("application/vnd.jupyter.widget-view") {
            let words = data.text_of(mime::TEXT_PLAIN).unwrap_or_default();
            let words = words.trim();
            Some(if words.is_empty() {
                "[widget that the user does not see]".to_owned()
            } else {
                format!("[widget; the user sees this text] {}", cut(words, SHORT))
            })
        } else {
            None
        }
    })
}

fn vega_lite(spec: &Map<String, Value>) -> String {
    let mut text = "[Vega-Lite chart shown to the user".to_owned();
    push_title(&mut text, spec.get("title"));
    let mut layers = Vec::new();
    collect_layers(spec, &mut layers, DEPTH);
    let more = layers.len().saturating_sub(NAMED);
    for layer in layers.iter().take(NAMED) {
        let _ = write!(text, "; {layer}");
    }
    if more > 0 {
        let _ = write!(text, "; {more} more layers");
    }
    for (rows, columns) in tables(spec) {
        let _ = write!(text, "; data: {rows} rows");
        push_names(&mut text, " of ", &columns);
    }
    text.push(']');
    text
}

/// Collects one line per mark, through nested layers and concatenations.
fn collect_layers(spec: &Map<String, Value>, found: &mut Vec<String>, depth: usize) {
    let mark = spec
        .get("mark")
        .and_then(|mark| mark.as_str().or_else(|| mark.get("type")?.as_str()));
    if let Some(mark) = mark {
        let mut line = cut(mark, NAME);
        let channels = spec.get("encoding").and_then(Value::as_object);
        let channels = channels
            .into_iter()
            .flatten()
            .filter_map(|(channel, encoding)| {
                let field = match encoding.get("field") {
                    Some(Value::String(field)) => cut(field, NAME),
                    Some(other) => cut(&other.to_string(), NAME),
                    None => String::new(),
                };
                let aggregate = encoding.get("aggregate").and_then(Value::as_str);
                let unit = encoding.get("timeUnit").and_then(Value::as_str);
                let binned = encoding
                    .get("bin")
                    .is_some_and(|bin| *bin != Value::Bool(false));
                let of = match (aggregate, unit) {
                    (Some(how), _) | (None, Some(how)) => format!("{how}({field})"),
                    (None, None) if binned => format!("bin({field})"),
                    (None, None) if field.is_empty() => return None,
                    (None, None) => field,
                };
                Some(format!("{channel}={of}"))
            });
        let channels: Vec<String> = channels.take(NAMED).collect();
        if !channels.is_empty() {
            let _ = write!(line, " with {}", channels.join(", "));
        }
        found.push(line);
    }
    if depth == 0 {
        return;
    }
    for key in ["layer", "hconcat", "vconcat", "concat"] {
        for inner in spec
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if let Some(inner) = inner.as_object() {
                collect_layers(inner, found, depth - 1);
            }
        }
    }
    if let Some(inner) = spec.get("spec").and_then(Value::as_object) {
        let before = found.len();
        collect_layers(inner, found, depth - 1);
        for line in &mut found[before..] {
            line.push_str(" (repeated or in facets)");
        }
    }
}

/// Row counts and columns of the data embedded in a specification.
fn tables(spec: &Map<String, Value>) -> Vec<(usize, Vec<String>)> {
    let named = spec.get("datasets").and_then(Value::as_object);
    let named = named.into_iter().flat_map(Map::values);
    let inline = spec.get("data").and_then(|data| data.get("values"));
    named.chain(inline).filter_map(table).take(NAMED).collect()
}

fn table(values: &Value) -> Option<(usize, Vec<String>)> {
    let rows = values.as_array()?;
    let columns = rows.first().and_then(Value::as_object);
    let columns = columns.map(|row| row.keys().cloned().collect());
    Some((rows.len(), columns.unwrap_or_default()))
}

fn vega(spec: &Map<String, Value>) -> String {
    let mut text = "[Vega chart shown to the user".to_owned();
    push_title(&mut text, spec.get("title"));
    let mut marks = BTreeMap::new();
    count_marks(spec, &mut marks, DEPTH);
    let marks: Vec<String> = marks
        .into_iter()
        .map(|(mark, count)| format!("{count} {mark}"))
        .collect();
    if !marks.is_empty() {
        let _ = write!(text, "; marks: {}", marks.join(", "));
    }
    for data in spec
        .get("data")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(NAMED)
    {
        let name = data
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("unnamed");
        let _ = write!(text, "; data {}", cut(name, NAME));
        if let Some((rows, columns)) = data.get("values").and_then(table) {
            let _ = write!(text, ": {rows} rows");
            push_names(&mut text, " of ", &columns);
        }
    }
    text.push(']');
    text
}

fn count_marks(spec: &Map<String, Value>, marks: &mut BTreeMap<String, usize>, depth: usize) {
    for mark in spec
        .get("marks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let Some(mark) = mark.as_object() else {
            continue;
        };
        let kind = mark.get("type").and_then(Value::as_str).unwrap_or("mark");
        if kind == "group" && depth > 0 {
            count_marks(mark, marks, depth - 1);
        } else {
            *marks.entry(cut(kind, NAME)).or_default() += 1;
        }
    }
}

fn plotly(figure: &Map<String, Value>) -> String {
    let mut text = "[Plotly figure shown to the user".to_owned();
    let layout = figure.get("layout");
    let of_layout = |key: &str| layout.and_then(|layout| layout.get(key));
    push_title(&mut text, of_layout("title"));
    for axis in ["xaxis", "yaxis"] {
        if let Some(title) = of_layout(axis).and_then(|axis| title(axis.get("title"))) {
            let _ = write!(text, "; {axis} \"{title}\"");
        }
    }
    let traces = figure
        .get("data")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    for trace in traces.iter().take(NAMED) {
        let word = |key: &str| {
            trace
                .get(key)
                .and_then(Value::as_str)
                .map(|word| cut(word, NAME))
        };
        let _ = write!(
            text,
            "; {}",
            word("type").unwrap_or_else(|| "scatter".to_owned())
        );
        if let Some(mode) = word("mode") {
            let _ = write!(text, " ({mode})");
        }
        if let Some(name) = word("name").filter(|name| !name.is_empty()) {
            let _ = write!(text, " \"{name}\"");
        }
        let columns = [
            "x",
            "y",
            "z",
            "labels",
            "values",
            "lat",
            "lon",
            "locations",
            "r",
            "theta",
        ];
        for (key, series) in columns
            .iter()
            .filter_map(|key| Some((key, series(trace.get(key)?)?)))
        {
            let _ = write!(text, ", {key}: {series}");
        }
    }
    if traces.len() > NAMED {
        let _ = write!(text, "; {} more traces", traces.len() - NAMED);
    }
    text.push(']');
    text
}

/// The number of values and their range.
fn series(values: &Value) -> Option<String> {
    let numbers = match values {
        Value::Array(values) if values.is_empty() => return None,
        Value::Array(values) => {
            if values.iter().any(Value::is_array) {
                return Some(format!("{} rows", values.len()));
            }
            let numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
            if numbers.is_empty() {
                let ends = [values.first(), values.last()];
                let [first, last] = ends.map(|end| match end {
                    Some(Value::String(word)) => cut(word, 30),
                    Some(other) => cut(&other.to_string(), 30),
                    None => String::new(),
                });
                return Some(format!("{} from {first} to {last}", values.len()));
            }
            numbers
        }
        // Plotly 6's encoding of numpy arrays: `{"dtype": "f8", "bdata": "..."}`.
        Value::Object(array) => {
            let kind = array.get("dtype")?.as_str()?;
            let bytes = STANDARD.decode(array.get("bdata")?.as_str()?).ok()?;
            typed(kind, &bytes)?
        }
        _ => return None,
    };
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(match numbers.len() {
        0 => return None,
        count if low.is_finite() && high.is_finite() => {
            format!("{count} from {} to {}", short(low), short(high))
        }
        count => format!("{count} values"),
    })
}

fn typed(kind: &str, bytes: &[u8]) -> Option<Vec<f64>> {
    fn read<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let (chunks, _) = bytes.as_chunks::<N>();
        chunks.iter().map(|chunk| number(*chunk)).collect()
    }
    Some(match kind {
        "f8" => read(bytes, f64::from_le_bytes),
        "f4" => read(bytes, |b| f64::from(f32::from_le_bytes(b))),
        "i1" => read(bytes, |b| f64::from(i8::from_le_bytes(b))),
        "u1" => read(bytes, |b| f64::from(u8::from_le_bytes(b))),
        "i2" => read(bytes, |b| f64::from(i16::from_le_bytes(b))),
        "u2" => read(bytes, |b| f64::from(u16::from_le_bytes(b))),
        "i4" => read(bytes, |b| f64::from(i32::from_le_bytes(b))),
        "u4" => read(bytes, |b| f64::from(u32::from_le_bytes(b))),
        _ => return None,
    })
}

/// About four significant digits.
fn short(number: f64) -> String {
    if number.fract().abs() < f64::EPSILON && number.abs() < 1e15 {
        return format!("{number}");
    }
    let magnitude = number.abs();
    if (1e-4..1e6).contains(&magnitude) {
        let digits = if magnitude >= 1000.0 { 1 } else { 4 };
        let text = format!("{number:.digits$}");
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    format!("{number:.3e}")
}

fn geojson(object: &Map<String, Value>) -> String {
    let kind = object
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("object");
    let mut text = format!("[GeoJSON {} shown to the user", cut(kind, NAME));
    let single = std::slice::from_ref(object);
    let features: Vec<&Map<String, Value>> = match object.get("features").and_then(Value::as_array)
    {
        Some(features) => features.iter().filter_map(Value::as_object).collect(),
        None => single.iter().collect(),
    };
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for feature in &features {
        let geometry = feature
            .get("geometry")
            .and_then(|geometry| geometry.get("type"));
        if let Some(kind) = geometry.and_then(Value::as_str) {
            *kinds.entry(cut(kind, NAME)).or_default() += 1;
        }
    }
    if object.contains_key("features") {
        let _ = write!(text, ": {} features", features.len());
    }
    let kinds: Vec<String> = kinds
        .into_iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    if !kinds.is_empty() {
        let _ = write!(text, ": {}", kinds.join(", "));
    }
    let properties = features
        .first()
        .and_then(|feature| feature.get("properties")?.as_object());
    let names: Vec<String> = properties
        .into_iter()
        .flat_map(Map::keys)
        .cloned()
        .collect();
    push_names(&mut text, "; properties: ", &names);
    text.push(']');
    text
}

/// A title: a string, or the text of an object.
fn title(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" "),
        Value::Object(title) => return self::title(title.get("text")),
        _ => return None,
    };
    Some(cut(&super::html::text(&text), NAME)).filter(|text| !text.is_empty())
}

fn push_title(text: &mut String, value: Option<&Value>) {
    if let Some(title) = title(value) {
        let _ = write!(text, ", titled \"{title}\"");
    }
}

fn push_names(text: &mut String, before: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    let first: Vec<String> = names
        .iter()
        .take(NAMED * 3)
        .map(|name| cut(name, NAME))
        .collect();
    let _ = write!(text, "{before}{}", first.join(", "));
    if names.len() > first.len() {
        let _ = write!(text, " and {} more", names.len() - first.len());
    }
}

pub(super) fn cut(text: &str, most: usize) -> String {
    let text = super::text::plain(text).replace('\n', " ");
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(mime: &str, value: Value) -> String {
        of_bundle(
            &MimeBundle::new()
                .with(mime, value)
                .with("text/plain", "<Chart>"),
        )
        .unwrap()
    }

    #[test]
    fn charts_are_named_not_quoted() {
        let rain = json!([{"month": "May", "rain": 1.0}, {"month": "June", "rain": 2.0}]);
        let layered = json!({
            "title": {"text": "Rain"},
            "datasets": {"d1": rain},
            "layer": [
                {"mark": {"type": "bar"}, "encoding": {"x": {"field": "month", "type": "nominal"}, "y": {"aggregate": "mean", "field": "rain"}}},
                {"mark": "rule", "encoding": {"y": {"datum": 1}}},
            ],
        });
        let vega = json!({
            "title": "Rain",
            "data": [{"name": "table", "values": rain}, {"name": "other", "url": "x.csv"}],
            "marks": [{"type": "group", "marks": [{"type": "rect"}, {"type": "text"}]}, {"type": "rect"}],
        });
        let figure = json!({
            "data": [
                {"type": "scatter", "mode": "lines", "name": "2019", "x": ["2019-01-01", "2019-12-31"], "y": [0.0, 55.9]},
                // numpy arrays of Plotly 6: 1.5 and -2.0 as f8
                {"type": "bar", "x": {"dtype": "f8", "bdata": "AAAAAAAA+D8AAAAAAAAAwA=="}, "y": {"dtype": "c16", "bdata": ""}},
            ],
            "layout": {"title": {"text": "<b>Rain</b> a day"}, "xaxis": {"title": {"text": "day"}}, "template": {"x": 1}},
        });
        let map = json!({
            "type": "FeatureCollection",
            "features": [
                {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]}, "properties": {"name": "a", "pop": 7}},
                {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": []}, "properties": {}},
            ],
        });
        for (mime, value, expected) in [
            (
                "application/vnd.vegalite.v5+json",
                layered,
                "[Vega-Lite chart shown to the user, titled \"Rain\"; bar with x=month, y=mean(rain); rule; data: 2 rows of month, rain]",
            ),
            (
                "application/vnd.vega.v5+json",
                vega,
                "[Vega chart shown to the user, titled \"Rain\"; marks: 2 rect, 1 text; data table: 2 rows of month, rain; data other]",
            ),
            (
                "application/vnd.plotly.v1+json",
                figure,
                "[Plotly figure shown to the user, titled \"Rain a day\"; xaxis \"day\"; scatter (lines) \"2019\", x: 2 from 2019-01-01 to 2019-12-31, y: 2 from 0 to 55.9; bar, x: 2 from -2 to 1.5]",
            ),
            (
                "application/geo+json",
                map,
                "[GeoJSON FeatureCollection shown to the user: 2 features: 1 Point, 1 Polygon; properties: name, pop]",
            ),
            (
                "application/vnd.jupyter.widget-view+json",
                json!({"model_id": "x"}),
                "[widget; the user sees this text] <Chart>",
            ),
        ] {
            assert_eq!(said(mime, value), expected);
        }
    }

    #[test]
    fn charts_that_are_none_are_no_trouble() {
        for mime in [
            "application/vnd.vegalite.v5+json",
            "application/vnd.vega.v5+json",
            "application/vnd.plotly.v1+json",
            "application/geo+json",
        ] {
            for value in [
                json!({}),
                json!({"data": 7, "layer": {}, "marks": [7], "title": [], "features": [1], "mark": [], "layout": []}),
                json!({"data": [7, {"x": [[1]], "y": {"dtype": 1}}], "encoding": [], "mark": "bar", "title": {"text": {}}}),
            ] {
                let text = said(mime, value);
                assert!(text.starts_with('[') && text.ends_with(']'), "{text}");
            }
        }
        assert_eq!(
            of_bundle(&MimeBundle::new().with("application/vnd.plotly.v1+json", "text")),
            None
        );
    }
}
