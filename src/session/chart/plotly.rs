//! Figures of Plotly: traces over a layout, as plotly.js takes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{
    Axes, Axis, Bar, Chart, Mark, Points, Scale, VALUES, box_of, interpolated, scale_of, slices,
    word,
};

/// The chart of a figure.
pub(super) fn chart(figure: &Value) -> Chart {
    let layout = figure.get("layout").unwrap_or(&Value::Null);
    let traces = figure.get("data").and_then(Value::as_array);
    let mut all: Vec<((String, String), Axes)> = Vec::new();
    for trace in traces.into_iter().flatten() {
        let place = place(trace);
        if !all.iter().any(|(known, _)| *known == place) {
            let axes = Axes {
                x: axis(layout, &place.0),
                y: axis(layout, &place.1),
                ..Axes::default()
            };
            all.push((place.clone(), axes));
        }
        let axes = all.iter_mut().find(|(known, _)| *known == place);
        if let (Some((_, axes)), Some(mark)) = (axes, mark(trace)) {
            if let Mark::Line(Points { points, .. }) | Mark::Scatter(Points { points, .. }) = &mark
            {
                let (x, y): (Vec<Value>, Vec<Value>) = points.iter().cloned().unzip();
                infer(&mut axes.x, &x);
                infer(&mut axes.y, &y);
            }
            axes.marks.push(mark);
        }
    }
    let mut all: Vec<Axes> = all.into_iter().map(|(_, axes)| axes).collect();
    // `make_subplots` writes titles as annotations, in the order of the plots.
    let titles = layout.get("annotations").and_then(Value::as_array);
    if let Some(titles) = titles.filter(|it| it.len() == all.len() && all.len() > 1) {
        for (axes, title) in all.iter_mut().zip(titles) {
            axes.title = text(title.get("text"));
        }
    }
    Chart::of_axes(titled(layout), all)
}

fn mark(trace: &Value) -> Option<Mark> {
    let name = text(trace.get("name")).unwrap_or_default();
    let lies = trace.get("orientation").and_then(Value::as_str) == Some("h");
    let of = |key: &str| trace.get(key).and_then(values);
    let (along, across) = if lies {
        (of("y"), of("x"))
    } else {
        (of("x"), of("y"))
    };
    match trace.get("type").and_then(Value::as_str) {
        None | Some("scatter" | "scattergl") => {
            let (x, y) = (of("x"), of("y")?);
            let x = x.unwrap_or_else(|| (0..y.len()).map(Value::from).collect());
            let points: Vec<_> = x.into_iter().zip(y).collect();
            let is_line = match trace.get("mode").and_then(Value::as_str) {
                Some(mode) => mode.contains("lines"),
                None => true,
            };
            let points = Points {
                label: name,
                points,
            };
            Some(if is_line {
                Mark::Line(points)
            } else {
                Mark::Scatter(points)
            })
        }
        Some("bar") => {
            let lengths = across?;
            let places = along.unwrap_or_else(|| (0..lengths.len()).map(Value::from).collect());
            let bars = places.iter().zip(lengths).map(|(place, value)| Bar {
                label: word(place),
                group: name.clone(),
                value,
            });
            Some(Mark::Bars(bars.collect()))
        }
        Some("pie") => {
            let values = of("values");
            let labels = of("labels")?;
            let numbers: Vec<f64> = match values {
                Some(values) => values
                    .iter()
                    .map(|it| it.as_f64().unwrap_or(0.0).max(0.0))
                    .collect(),
                // Each label counts.
                None => vec![1.0; labels.len()],
            };
            let labels = labels.iter().map(word);
            Some(Mark::Slices(slices(labels.zip(numbers).collect())))
        }
        Some("box") => {
            let measured = across?;
            let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
            for (at, value) in measured.iter().enumerate() {
                let label = match &along {
                    Some(places) => word(places.get(at)?),
                    None => name.clone(),
                };
                let Some(value) = value.as_f64() else {
                    continue;
                };
                match groups.iter_mut().find(|(known, _)| *known == label) {
                    Some((_, group)) => group.push(value),
                    None => groups.push((label, vec![value])),
                }
            }
            let boxes = groups
                .into_iter()
                .filter_map(|(label, group)| box_of(label, group, quantile));
            Some(Mark::Boxes(boxes.collect()))
        }
        Some(_) => None,
    }
}

/// Which axes the traces of a figure are drawn in.
#[derive(Default)]
pub(super) struct AxesNames(Vec<(String, String)>);

impl AxesNames {
    /// The number of a trace's axes, from 1, and their labels.
    pub(super) fn of(&mut self, trace: &Value, layout: &Value) -> (usize, String, String) {
        let place = place(trace);
        let known = self.0.iter().position(|it| *it == place);
        let at = known.unwrap_or_else(|| {
            self.0.push(place.clone());
            self.0.len() - 1
        });
        let label = |name: &str| axis(layout, name).label.unwrap_or_default();
        (at + 1, label(&place.0), label(&place.1))
    }
}

/// The names of a trace's axes. What has no axes has a place of its own.
fn place(trace: &Value) -> (String, String) {
    match trace.get("domain") {
        Some(domain) => (domain.to_string(), String::new()),
        None => (name_of_axis(trace, 'x'), name_of_axis(trace, 'y')),
    }
}

/// As plotly.js has it: half a value before the first.
#[expect(clippy::cast_precision_loss, reason = "the length of a list in memory")]
fn quantile(sorted: &[f64], at: f64) -> f64 {
    interpolated(sorted, at * sorted.len() as f64 - 0.5)
}

/// `x`, `x2`, .. of a trace.
fn name_of_axis(trace: &Value, axis: char) -> String {
    let named = trace.get(format!("{axis}axis")).and_then(Value::as_str);
    named.map_or_else(|| axis.to_string(), str::to_owned)
}

/// An axis of the layout: `x2` is `xaxis2` there.
fn axis(layout: &Value, name: &str) -> Axis {
    let Some(letter) = name.get(..1).filter(|it| matches!(*it, "x" | "y")) else {
        return Axis::default();
    };
    let number = name.get(1..).unwrap_or_default();
    let Some(given) = layout.get(format!("{letter}axis{number}")) else {
        return Axis::default();
    };
    let labels = given.get("ticktext").and_then(values);
    Axis {
        label: titled(given),
        scale: match given.get("type").and_then(Value::as_str) {
            Some("log") => Scale::Log,
            Some("date") => Scale::Datetime,
            Some("category" | "multicategory") => Scale::Categorical,
            _ => Scale::Linear,
        },
        ticks: given.get("tickvals").and_then(values).unwrap_or_default(),
        tick_labels: labels.unwrap_or_default().iter().map(word).collect(),
    }
}

/// An axis without a type has that of its values.
fn infer(axis: &mut Axis, values: &[Value]) {
    if axis.scale == Scale::Linear {
        axis.scale = scale_of(values);
    }
}

/// A title: words, or an object with words.
pub(super) fn titled(of: &Value) -> Option<String> {
    let title = of.get("title")?;
    text(title.get("text").or(Some(title)))
}

pub(super) fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// A list, also one that is packed as `{"dtype": "f8", "bdata": "..."}`.
fn values(given: &Value) -> Option<Vec<Value>> {
    values_up_to(given, VALUES)
}

/// The same with another limit.
pub(super) fn values_up_to(given: &Value, most: usize) -> Option<Vec<Value>> {
    if let Some(list) = given.as_array() {
        return (list.len() <= most).then(|| list.clone());
    }
    let packed = STANDARD.decode(given.get("bdata")?.as_str()?).ok()?;
    let kind = given.get("dtype")?.as_str()?;
    let size = kind.get(1..)?.parse::<usize>().ok();
    let size = size.filter(|it| matches!(it, 1 | 2 | 4 | 8))?;
    if packed.len() / size > most {
        return None;
    }
    let read = |bytes: &[u8]| -> Option<Value> {
        Some(match kind {
            "i1" => i8::from_le_bytes(bytes.try_into().ok()?).into(),
            "u1" => u8::from_le_bytes(bytes.try_into().ok()?).into(),
            "i2" => i16::from_le_bytes(bytes.try_into().ok()?).into(),
            "u2" => u16::from_le_bytes(bytes.try_into().ok()?).into(),
            "i4" => i32::from_le_bytes(bytes.try_into().ok()?).into(),
            "u4" => u32::from_le_bytes(bytes.try_into().ok()?).into(),
            "f4" => f32::from_le_bytes(bytes.try_into().ok()?).into(),
            "f8" => f64::from_le_bytes(bytes.try_into().ok()?).into(),
            _ => return None,
        })
    };
    packed.chunks_exact(size).map(read).collect()
}
