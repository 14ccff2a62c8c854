//! Figures as typed data, in the schema of E2B's charts: what is drawn, with its labels and scales.
//!
//! A figure of matplotlib brings its own (`kernel/figures.py`). One of Plotly or Altair is in the output as the JSON that a page
//! draws it from, so its chart is read from that, whatever language it was made in. Figures, names and values are the
//! code's: nothing here trusts them.

mod plotly;
mod rows;
#[cfg(test)]
mod tests;
mod vega_lite;

pub use rows::csv;
use serde::Serialize;
use serde_json::Value;

use crate::jupyter::mime::{CHART, MimeBundle, PLOTLY_PREFIX, VEGALITE_PREFIX};

/// Values of a figure. Series beyond that are left out.
const VALUES: usize = 100_000;
/// Bytes of a chart that is kept in an output; of a larger one there is the file with its data.
const KEPT: usize = 256 << 10;

/// A chart of E2B's schema.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Chart {
    Line(PointChart),
    Scatter(PointChart),
    Bar(LabelledChart<Bar>),
    Pie(PlainChart<Slice>),
    BoxAndWhisker(LabelledChart<BoxAndWhisker>),
    Superchart(PlainChart<Chart>),
    Unknown(PlainChart<Chart>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct PlainChart<T> {
    title: Option<String>,
    elements: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct LabelledChart<T> {
    title: Option<String>,
    x_label: Option<String>,
    y_label: Option<String>,
    x_unit: Option<String>,
    y_unit: Option<String>,
    elements: Vec<T>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct PointChart {
    #[serde(flatten)]
    labelled: LabelledChart<Points>,
    x_ticks: Vec<Value>,
    x_tick_labels: Vec<String>,
    x_scale: Scale,
    y_ticks: Vec<Value>,
    y_tick_labels: Vec<String>,
    y_scale: Scale,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Points {
    label: String,
    points: Vec<(Value, Value)>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Bar {
    label: String,
    group: String,
    value: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Slice {
    label: String,
    angle: f64,
    radius: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct BoxAndWhisker {
    label: String,
    min: f64,
    first_quartile: f64,
    median: f64,
    third_quartile: f64,
    max: f64,
    outliers: Vec<f64>,
}

/// What stands along an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Scale {
    #[default]
    Linear,
    Log,
    Symlog,
    Datetime,
    Categorical,
    Unknown,
}

/// An axis of a figure.
#[derive(Debug, Clone, Default, PartialEq)]
struct Axis {
    label: Option<String>,
    scale: Scale,
    ticks: Vec<Value>,
    tick_labels: Vec<String>,
}

/// A pair of axes, and what is drawn in it.
#[derive(Debug, Clone, Default, PartialEq)]
struct Axes {
    title: Option<String>,
    x: Axis,
    y: Axis,
    marks: Vec<Mark>,
}

/// What is drawn, of one name and kind.
#[derive(Debug, Clone, PartialEq)]
enum Mark {
    Line(Points),
    Scatter(Points),
    Bars(Vec<Bar>),
    Slices(Vec<Slice>),
    Boxes(Vec<BoxAndWhisker>),
}

/// The chart of an output: what its figure brought, or what a page would draw. `None`: it is no figure.
pub fn of(data: &MimeBundle) -> Option<Value> {
    if let Some(kept) = data.get(CHART) {
        return Some(kept.clone());
    }
    let chart = data.iter().find_map(|(mime, figure)| {
        if mime.starts_with(PLOTLY_PREFIX) {
            Some(plotly::chart(figure))
        } else if mime.starts_with(VEGALITE_PREFIX) {
            Some(vega_lite::chart(figure))
        } else {
            None
        }
    });
    serde_json::to_value(chart?).ok()
}

/// Keeps a chart in its output.
pub fn keep(chart: Value, data: &mut MimeBundle) {
    if chart.to_string().len() <= KEPT {
        data.insert(CHART, chart);
    }
}

impl Axes {
    /// A chart for each kind of marks: the schema has one kind a chart.
    fn charts(self) -> Vec<Chart> {
        let (mut lines, mut clouds) = (Vec::new(), Vec::new());
        let (mut bars, mut slices, mut boxes) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = VALUES;
        for mark in self.marks {
            let Some(rest) = left.checked_sub(mark.values()) else {
                continue;
            };
            left = rest;
            match mark {
                Mark::Line(points) => lines.push(points),
                Mark::Scatter(points) => clouds.push(points),
                Mark::Bars(some) => bars.extend(some),
                Mark::Slices(some) => slices.extend(some),
                Mark::Boxes(some) => boxes.extend(some),
            }
        }
        let (title, x, y) = (self.title, self.x, self.y);
        let mut charts = Vec::new();
        if !slices.is_empty() {
            let title = title.clone();
            charts.push(Chart::Pie(PlainChart {
                title,
                elements: slices,
            }));
        }
        if !bars.is_empty() {
            charts.push(Chart::Bar(labelled(title.as_ref(), &x, &y, bars)));
        }
        if !boxes.is_empty() {
            let chart = labelled(title.as_ref(), &x, &y, boxes);
            charts.push(Chart::BoxAndWhisker(chart));
        }
        if !lines.is_empty() {
            charts.push(Chart::Line(pointed(title.as_ref(), &x, &y, lines)));
        }
        if !clouds.is_empty() {
            charts.push(Chart::Scatter(pointed(title.as_ref(), &x, &y, clouds)));
        }
        charts
    }
}

impl Mark {
    fn values(&self) -> usize {
        match self {
            Self::Line(points) | Self::Scatter(points) => points.points.len(),
            Self::Bars(bars) => bars.len(),
            Self::Slices(slices) => slices.len(),
            Self::Boxes(boxes) => boxes.iter().map(|it| it.outliers.len() + 5).sum(),
        }
    }
}

impl Chart {
    /// A figure of several axes.
    fn of_axes(title: Option<String>, all: Vec<Axes>) -> Self {
        let mut elements: Vec<Self> = all.into_iter().flat_map(Axes::charts).collect();
        if elements.len() > 1 {
            return Self::Superchart(PlainChart { title, elements });
        }
        let Some(mut only) = elements.pop() else {
            return Self::Unknown(PlainChart { title, elements });
        };
        let own = only.title();
        if own.is_none() {
            *own = title;
        }
        only
    }

    fn title(&mut self) -> &mut Option<String> {
        match self {
            Self::Line(chart) | Self::Scatter(chart) => &mut chart.labelled.title,
            Self::Bar(chart) => &mut chart.title,
            Self::Pie(chart) => &mut chart.title,
            Self::BoxAndWhisker(chart) => &mut chart.title,
            Self::Superchart(chart) | Self::Unknown(chart) => &mut chart.title,
        }
    }
}

fn labelled<T>(title: Option<&String>, x: &Axis, y: &Axis, elements: Vec<T>) -> LabelledChart<T> {
    LabelledChart {
        title: title.cloned(),
        x_unit: unit(x.label.as_deref()),
        y_unit: unit(y.label.as_deref()),
        x_label: x.label.clone(),
        y_label: y.label.clone(),
        elements,
    }
}

fn pointed(title: Option<&String>, x: &Axis, y: &Axis, points: Vec<Points>) -> PointChart {
    PointChart {
        labelled: labelled(title, x, y, points),
        x_ticks: x.ticks.clone(),
        x_tick_labels: x.tick_labels.clone(),
        x_scale: x.scale,
        y_ticks: y.ticks.clone(),
        y_tick_labels: y.tick_labels.clone(),
        y_scale: y.scale,
    }
}

/// What stands in parentheses.
fn unit(label: Option<&str>) -> Option<String> {
    let (_, behind) = label?.split_once('(')?;
    let (unit, _) = behind.split_once(')')?;
    Some(unit.to_owned())
}

/// Parts of a circle for values.
fn slices(values: Vec<(String, f64)>) -> Vec<Slice> {
    let mut merged: Vec<(String, f64)> = Vec::new();
    for (label, value) in values {
        let same = merged.iter_mut().find(|(known, _)| *known == label);
        match same {
            Some((_, sum)) => *sum += value,
            None => merged.push((label, value)),
        }
    }
    let whole: f64 = merged.iter().map(|(_, value)| value).sum();
    let slice = |(label, value): (String, f64)| Slice {
        label,
        angle: (value / whole * 360.0 * 1e4).round() / 1e4,
        radius: 1.0,
    };
    if whole > 0.0 {
        merged.into_iter().map(slice).collect()
    } else {
        Vec::new()
    }
}

/// The box of some values; `quantile` is the library's way to interpolate between sorted ones. `None`: there are no values.
fn box_of(
    label: String,
    mut values: Vec<f64>,
    quantile: fn(&[f64], f64) -> f64,
) -> Option<BoxAndWhisker> {
    values.retain(|it| it.is_finite());
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    let [low, median, high] = [0.25, 0.5, 0.75].map(|at| quantile(&values, at));
    let reach = 1.5 * (high - low);
    let is_inside = |it: &f64| *it >= low - reach && *it <= high + reach;
    Some(BoxAndWhisker {
        label,
        min: values.iter().copied().find(is_inside).unwrap_or(first),
        first_quartile: low,
        median,
        third_quartile: high,
        max: values.iter().copied().rfind(is_inside).unwrap_or(last),
        outliers: values.into_iter().filter(|it| !is_inside(it)).collect(),
    })
}

/// Between the sorted values at the index `at`, which may lie between two.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "an index between 0 and the length of a list in memory"
)]
fn interpolated(sorted: &[f64], at: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let at = at.clamp(0.0, last as f64);
    let (below, above) = (at.floor() as usize, (at.ceil() as usize).min(last));
    let value = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
    value(below) + (at - at.floor()) * (value(above) - value(below))
}

/// A value as a label.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            // 2.0 is called 2.
            Some(value) if value.fract() == 0.0 && value.abs() < 1e15 => format!("{value:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// What values stand for, where nothing says it.
fn scale_of(values: &[Value]) -> Scale {
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    let is_date = |text: &&str| {
        let mut date = text.get(..10).unwrap_or_default().split('-');
        let mut has = |digits: usize| {
            date.next().is_some_and(|it| {
                it.len() == digits && it.bytes().all(|byte| byte.is_ascii_digit())
            })
        };
        has(4) && has(2) && has(2)
    };
    if texts.is_empty() {
        Scale::Linear
    } else if texts.iter().all(is_date) {
        Scale::Datetime
    } else {
        Scale::Categorical
    }
}
