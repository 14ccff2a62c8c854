//! Charts of Vega-Lite, which Altair writes: rows, and what stands along which axis.
//!
//! What Vega-Lite would compute first (transforms, bins, rows behind an address) is not computed here: such a chart is unknown.

use serde_json::{Map, Value};

use super::{
    Axes, Axis, Bar, Chart, Mark, Points, Scale, VALUES, box_of, interpolated, slices, word,
};

/// How deep charts of charts are read.
const DEPTH: usize = 8;

type Row = Map<String, Value>;

/// The chart of a specification.
pub(super) fn chart(specification: &Value) -> Chart {
    let mut all = Vec::new();
    let given = Given {
        datasets: specification.get("datasets"),
        data: None,
        encoding: Map::new(),
    };
    read(specification, &given, DEPTH, &mut all);
    Chart::of_axes(title(specification.get("title")), all)
}

/// What a chart has from those around it.
#[derive(Clone)]
struct Given<'a> {
    datasets: Option<&'a Value>,
    data: Option<&'a Value>,
    encoding: Map<String, Value>,
}

fn read(view: &Value, given: &Given<'_>, depth: usize, all: &mut Vec<Axes>) {
    if depth == 0 || view.get("transform").is_some() {
        return;
    }
    let mut given = given.clone();
    given.data = view.get("data").or(given.data);
    if let Some(own) = view.get("encoding").and_then(Value::as_object) {
        given.encoding.extend(own.clone());
    }
    let several = ["hconcat", "vconcat", "concat"];
    let several = several.iter().find_map(|key| view.get(key)?.as_array());
    for part in several.into_iter().flatten() {
        read(part, &given, depth - 1, all);
    }
    if let Some(layers) = view.get("layer").and_then(Value::as_array) {
        let mut inside = Vec::new();
        for layer in layers {
            read(layer, &given, depth - 1, &mut inside);
        }
        all.extend(merged(title(view.get("title")), inside));
    }
    if view.get("mark").is_some() {
        all.extend(of_mark(view, &given));
    }
}

/// Layers share their axes.
fn merged(title: Option<String>, layers: Vec<Axes>) -> Option<Axes> {
    let mut layers = layers.into_iter();
    let mut first = layers.next()?;
    first.title = title.or(first.title);
    first.marks.extend(layers.flat_map(|it| it.marks));
    Some(first)
}

/// A chart of one mark, or one for each value that it is split by.
fn of_mark(view: &Value, given: &Given<'_>) -> Vec<Axes> {
    let Some(rows) = rows(given) else {
        return Vec::new();
    };
    let mark = view.get("mark").and_then(|mark| {
        let kind = mark.get("type").unwrap_or(mark);
        kind.as_str()
    });
    let splits = ["facet", "row", "column"];
    let split = splits.iter().find_map(|it| given.encoding.get(*it));
    let own = title(view.get("title"));
    let Some(split) = split.and_then(|it| it.get("field")?.as_str()) else {
        let axes = axes(mark, own, &given.encoding, &rows);
        return axes.into_iter().collect();
    };
    let parts = groups(&rows, Some(split)).into_iter();
    parts
        .filter_map(|(name, rows)| axes(mark, Some(name), &given.encoding, &rows))
        .collect()
}

fn axes(
    mark: Option<&str>,
    title: Option<String>,
    encoding: &Map<String, Value>,
    rows: &[&Row],
) -> Option<Axes> {
    let (x, y) = (channel(encoding, "x"), channel(encoding, "y"));
    let colour = field(encoding, "color").or_else(|| field(encoding, "detail"));
    let mut axes = Axes {
        title,
        x: x.axis(),
        y: y.axis(),
        marks: Vec::new(),
    };
    if x.is_computed() || y.is_computed() {
        return None;
    }
    match mark? {
        kind @ ("line" | "trail" | "area" | "point" | "circle" | "square") => {
            let is_line = matches!(kind, "line" | "trail" | "area");
            for (label, rows) in groups(rows, colour) {
                let mut points = pairs(&x, &y, &rows)?;
                if is_line {
                    points.sort_by(|one, other| order(&one.0, &other.0));
                }
                let points = Points { label, points };
                axes.marks.push(if is_line {
                    Mark::Line(points)
                } else {
                    Mark::Scatter(points)
                });
            }
        }
        "bar" => {
            let lies = x.is_measured() && !y.is_measured();
            let (along, across) = if lies { (&y, &x) } else { (&x, &y) };
            for (group, rows) in groups(rows, colour) {
                let bars = pairs(along, across, &rows)?.into_iter();
                let bars = bars.map(|(place, value)| Bar {
                    label: word(&place),
                    group: group.clone(),
                    value,
                });
                axes.marks.push(Mark::Bars(bars.collect()));
            }
        }
        "arc" => {
            let theta = channel(encoding, "theta");
            let mut parts = Vec::new();
            for (label, rows) in groups(rows, colour) {
                let sums = pairs(&Channel::default(), &theta, &rows)?;
                let sum = sums.iter().filter_map(|(_, value)| value.as_f64()).sum();
                parts.push((label, sum));
            }
            axes.marks.push(Mark::Slices(slices(parts)));
        }
        "boxplot" => {
            let lies = x.is_measured() && !y.is_measured();
            let (along, across) = if lies { (&y, &x) } else { (&x, &y) };
            let boxes = groups(rows, along.field)
                .into_iter()
                .filter_map(|(label, rows)| {
                    let values = rows.iter().filter_map(|row| across.of(row).as_f64());
                    box_of(label, values.collect(), quantile)
                });
            axes.marks.push(Mark::Boxes(boxes.collect()));
        }
        _ => return None,
    }
    Some(axes)
}

/// What stands along an axis, or is an angle.
#[derive(Default)]
struct Channel<'a> {
    given: Option<&'a Value>,
    field: Option<&'a str>,
    aggregate: Option<&'a str>,
}

fn channel<'a>(encoding: &'a Map<String, Value>, name: &str) -> Channel<'a> {
    let given = encoding.get(name);
    let text = |key: &str| given.and_then(|it| it.get(key)?.as_str());
    Channel {
        given,
        field: text("field"),
        aggregate: text("aggregate"),
    }
}

fn field<'a>(encoding: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    encoding.get(name)?.get("field")?.as_str()
}

impl Channel<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.given.and_then(|it| it.get(key))
    }

    fn kind(&self) -> Option<&str> {
        self.get("type").and_then(Value::as_str)
    }

    fn is_measured(&self) -> bool {
        self.kind() == Some("quantitative") || self.aggregate.is_some()
    }

    /// Whether Vega-Lite computes what stands there in a way that is not known here.
    fn is_computed(&self) -> bool {
        let is_set = |key| {
            self.get(key)
                .is_some_and(|it| !it.is_null() && it != &Value::Bool(false))
        };
        let known = ["count", "sum", "mean", "average", "median", "min", "max"];
        is_set("bin")
            || is_set("timeUnit")
            || self.aggregate.is_some_and(|it| !known.contains(&it))
            || self.get("aggregate").is_some_and(Value::is_object)
    }

    fn axis(&self) -> Axis {
        let scale = self.get("scale").and_then(|it| it.get("type")?.as_str());
        let of_axis = self.get("axis").and_then(|it| it.get("title"));
        let label = match (self.get("title").or(of_axis), self.field, self.aggregate) {
            (Some(own), _, _) => title(Some(own)),
            (None, _, Some("count")) => Some("Count of Records".to_owned()),
            (None, Some(field), Some(aggregate)) => {
                let mut name = aggregate.to_owned();
                if let Some(first) = name.get_mut(..1) {
                    first.make_ascii_uppercase();
                }
                Some(format!("{name} of {field}"))
            }
            (None, field, _) => field.map(str::to_owned),
        };
        Axis {
            label,
            scale: match (self.kind(), scale) {
                (_, Some("log")) => Scale::Log,
                (_, Some("symlog")) => Scale::Symlog,
                (Some("temporal"), _) => Scale::Datetime,
                (Some("nominal" | "ordinal"), _) => Scale::Categorical,
                (Some("quantitative") | None, _) => Scale::Linear,
                (Some(_), _) => Scale::Unknown,
            },
            ..Axis::default()
        }
    }

    fn of(&self, row: &Row) -> Value {
        let value = self.field.and_then(|field| row.get(field));
        value.cloned().unwrap_or(Value::Null)
    }

    fn total(&self, rows: &[&Row]) -> Value {
        let mut numbers: Vec<f64> = rows
            .iter()
            .filter_map(|row| self.of(row).as_f64())
            .collect();
        numbers.sort_by(f64::total_cmp);
        let sum: f64 = numbers.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "the length of a list in memory")]
        let mean = sum / numbers.len() as f64;
        match self.aggregate {
            Some("count") => rows.len().into(),
            Some("sum") => sum.into(),
            Some("mean" | "average") => mean.into(),
            Some("median") => quantile(&numbers, 0.5).into(),
            Some("min") => numbers.first().copied().into(),
            Some("max") => numbers.last().copied().into(),
            Some(_) | None => Value::Null,
        }
    }
}

/// Places with their values; one a row, or one a place where values are put together. `None`: there are too many.
fn pairs(along: &Channel<'_>, across: &Channel<'_>, rows: &[&Row]) -> Option<Vec<(Value, Value)>> {
    if rows.len() > VALUES {
        return None;
    }
    if across.aggregate.is_some() {
        let groups = groups_by(rows, |row| along.of(row)).into_iter();
        return Some(groups.map(|(at, rows)| (at, across.total(&rows))).collect());
    }
    if along.aggregate.is_some() {
        let groups = groups_by(rows, |row| across.of(row)).into_iter();
        return Some(groups.map(|(at, rows)| (along.total(&rows), at)).collect());
    }
    let pair = |row: &&Row| (along.of(row), across.of(row));
    Some(rows.iter().map(pair).collect())
}

/// Rows by what they have in `field`, in the order in which that comes first; all of them without one.
fn groups<'a>(rows: &[&'a Row], field: Option<&str>) -> Vec<(String, Vec<&'a Row>)> {
    let Some(field) = field else {
        return vec![(String::new(), rows.to_vec())];
    };
    let of = |row: &Row| row.get(field).cloned().unwrap_or(Value::Null);
    let groups = groups_by(rows, of).into_iter();
    groups.map(|(name, rows)| (word(&name), rows)).collect()
}

fn groups_by<'a>(rows: &[&'a Row], of: impl Fn(&Row) -> Value) -> Vec<(Value, Vec<&'a Row>)> {
    let mut known = std::collections::HashMap::new();
    let mut groups: Vec<(Value, Vec<&'a Row>)> = Vec::new();
    for row in rows {
        let value = of(row);
        let at = *known.entry(value.to_string()).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, group)) => group.push(row),
            None => groups.push((value, vec![row])),
        }
    }
    groups
}

/// The rows of a chart; `None` if they lie elsewhere.
fn rows<'a>(given: &Given<'a>) -> Option<Vec<&'a Row>> {
    let data = given.data?;
    let values = match data.get("name").and_then(Value::as_str) {
        Some(name) => given.datasets?.get(name)?,
        None => data.get("values")?,
    };
    values.as_array()?.iter().map(Value::as_object).collect()
}

/// As Vega has it.
#[expect(clippy::cast_precision_loss, reason = "the length of a list in memory")]
fn quantile(sorted: &[f64], at: f64) -> f64 {
    interpolated(sorted, at * sorted.len().saturating_sub(1) as f64)
}

fn order(one: &Value, other: &Value) -> std::cmp::Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => word(one).cmp(&word(other)),
    }
}

/// Words, lines of words, or an object with them.
fn title(given: Option<&Value>) -> Option<String> {
    let given = given?;
    let given = given.get("text").unwrap_or(given);
    match given {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Array(lines) => Some(lines.iter().map(word).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}
