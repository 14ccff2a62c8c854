//! What a figure was drawn from: the same as a vector graphic, and the data of its lines, bars and points. It comes beside the
//! picture, in a type of ours, and is kept in files of its own.

use serde::Deserialize;
use serde_json::Value;

use crate::jupyter::mime::MimeBundle;

/// How it comes.
pub const PLOT: &str = "application/vnd.sponde.plot+json";

/// What a figure was drawn from.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PlotSource {
    /// The figure as a vector graphic, unless it has too many points for one.
    pub svg: Option<String>,
    series: Vec<Series>,
}

/// A line, the bars of one colour, a cloud of points.
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
    /// Takes it out of an output.
    pub fn take_from(data: &mut MimeBundle) -> Option<Self> {
        serde_json::from_value(data.remove(PLOT)?).ok()
    }

    /// The data as CSV, one row for each point; `None` for a plot without points.
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

fn value(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cell(text),
        other => other.to_string(),
    }
}

/// A text that no spreadsheet takes for a formula.
fn cell(text: &str) -> String {
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
    }
}
