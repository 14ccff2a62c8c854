//! The source of a figure of matplotlib: a vector graphic, its chart, and the data of its lines, bars and points. It arrives
//! beside the picture under a MIME type of Sponde's; graphic and data are kept in files of their own.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use crate::jupyter::mime::MimeBundle;

/// Maximum series described in words.
const TOLD: usize = 6;
/// Maximum characters of a title or a name in words.
const NAME: usize = 60;

/// MIME type of the source.
pub const PLOT: &str = "application/vnd.sponde.plot+json";

/// The source of a figure.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PlotSource {
    /// The figure as a vector graphic, unless it has too many points for one.
    pub svg: Option<String>,
    /// The figure as typed data (`session::chart`).
    pub chart: Option<Value>,
    /// What could not be found of it, and why.
    pub problems: Vec<String>,
    series: Vec<Series>,
}

/// A line, the bars of one colour, or a scatter plot's points.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Series {
    axes: u32,
    title: String,
    x_label: String,
    y_label: String,
    kind: String,
    name: String,
    x: Vec<Value>,
    y: Vec<Value>,
}

impl PlotSource {
    /// Removes the source from an output.
    pub fn take_from(data: &mut MimeBundle) -> Option<Self> {
        serde_json::from_value(data.remove(PLOT)?).ok()
    }

    /// The data as CSV, one row per point; `None` for a plot without points.
    pub fn csv(&self) -> Option<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let head = [
            "axes", "title", "kind", "series", "x_label", "y_label", "x", "y",
        ];
        writer.write_record(head).ok()?;
        let mut is_empty = true;
        for series in &self.series {
            for (x, y) in series.x.iter().zip(&series.y) {
                is_empty = false;
                let row = [
                    series.axes.to_string(),
                    cell(&series.title),
                    cell(&series.kind),
                    cell(&series.name),
                    cell(&series.x_label),
                    cell(&series.y_label),
                    value(x),
                    value(y),
                ];
                writer.write_record(&row).ok()?;
            }
        }
        let bytes = writer.into_inner().ok()?;
        String::from_utf8(bytes).ok().filter(|_| !is_empty)
    }
}

impl PlotSource {
    /// Describes the figure with a sentence per series, for models that cannot see it; `None` for a plot without
    /// points.
    pub fn words(&self) -> Option<String> {
        let told: Vec<String> = self.series.iter().take(TOLD).map(Series::words).collect();
        if told.is_empty() {
            return None;
        }
        let more = match self.series.len() - told.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        Some(told.join("; ") + &more)
    }
}

impl Series {
    /// `"Rain": bar "Oslo", 12 of month, mm from 1.2 to 8.9 (at Jul)`.
    fn words(&self) -> String {
        let mut text = String::new();
        if !self.title.is_empty() {
            let _ = write!(text, "{:?}: ", short(&self.title));
        }
        text += &short(&self.kind);
        if !self.name.is_empty() {
            let _ = write!(text, " {:?}", short(&self.name));
        }
        let _ = write!(text, ", {}", self.y.len());
        let name = |label: &str, usual: &str| match label {
            "" => usual.to_owned(),
            label => short(label),
        };
        let _ = write!(text, " of {}", name(&self.x_label, "x"));
        if let (Some(first), Some(last)) = (self.x.first(), self.x.last())
            && self.x.len() > 1
        {
            let _ = write!(
                text,
                " ({} to {})",
                short(&value(first)),
                short(&value(last))
            );
        }
        let numbers = self.y.iter().zip(&self.x);
        let numbers = numbers.filter_map(|(y, x)| Some((y.as_f64()?, x)));
        let by_size = |one: &(f64, _), other: &(f64, _)| one.0.total_cmp(&other.0);
        if let (Some((low, at_low)), Some((high, at_high))) =
            (numbers.clone().min_by(by_size), numbers.max_by(by_size))
        {
            let at = |it: &Value| short(&value(it));
            let _ = write!(
                text,
                ", {} from {} (at {}) to {} (at {})",
                name(&self.y_label, "y"),
                number(low),
                at(at_low),
                number(high),
                at(at_high)
            );
        }
        text
    }
}

/// A text of the figure, shortened to one line.
fn short(text: &str) -> String {
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

/// The number with at most six significant digits.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// A value as text, of which no spreadsheet makes a formula.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        Value::Number(number) => match number.as_f64() {
            // Kernels send whole numbers as floats too.
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => format!("{whole:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// Text that no spreadsheet reads as a formula.
pub(super) fn cell(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        return format!("'{text}");
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_data_of_a_figure_is_a_table() {
        let plot = json!({"svg": "<svg/>", "series": [
            {"axes": 1, "title": "Rain", "kind": "bar", "name": "=cmd()", "x_label": "city", "y_label": "mm", "x": ["Oslo", null], "y": [1.5, 2]},
        ]});
        let mut data = MimeBundle::text("x").with(PLOT, plot);
        let source = PlotSource::take_from(&mut data).unwrap();
        assert_eq!(data, MimeBundle::text("x"));
        assert_eq!(
            source.csv().unwrap(),
            "axes,title,kind,series,x_label,y_label,x,y\n\
             1,Rain,bar,'=cmd(),city,mm,Oslo,1.5\n\
             1,Rain,bar,'=cmd(),city,mm,,2\n"
        );
        assert_eq!(PlotSource::default().csv(), None);
        assert_eq!(
            source.words().unwrap(),
            "\"Rain\": bar \"=cmd()\", 2 of city (Oslo to ), mm from 1.5 (at Oslo) to 2 (at )"
        );
        assert_eq!(PlotSource::default().words(), None);
    }
}
