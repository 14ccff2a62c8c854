//! The values of a chart of Plotly or Vega as CSV, as far as they are in the output: the table that lies beside the chart's file.
//!
//! A figure of Plotly has a row per point, under the head that a figure of matplotlib has (`session::plot_data`), and a column
//! for each list of its traces. One of Vega has the rows of its data as they are, before Vega computes with them.

use serde_json::{Map, Value};

use super::plotly::{self, AxesNames};
use crate::jupyter::mime::{MimeBundle, PLOTLY_PREFIX, VEGA_PREFIX, VEGALITE_PREFIX};
use crate::session::plot_data::{cell, value};

/// Values of a table. There is no table of a chart with more.
const CELLS: usize = 2_000_000;
/// Columns of a table.
const COLUMNS: usize = 1_000;
/// How deep charts of charts are read.
const DEPTH: usize = 8;
/// The lists of a trace that are columns, in their order.
const LISTS: [&str; 24] = [
    "x",
    "y",
    "z",
    "labels",
    "values",
    "parents",
    "ids",
    "locations",
    "lat",
    "lon",
    "r",
    "theta",
    "a",
    "b",
    "c",
    "open",
    "high",
    "low",
    "close",
    "q1",
    "median",
    "q3",
    "base",
    "text",
];

/// The table of a chart; `None` if it is none, or its values are elsewhere or too many.
pub fn csv(data: &MimeBundle) -> Option<String> {
    data.iter().find_map(|(mime, figure)| {
        if mime.starts_with(PLOTLY_PREFIX) {
            of_plotly(figure)
        } else if mime.starts_with(VEGALITE_PREFIX) || mime.starts_with(VEGA_PREFIX) {
            of_vega(figure)
        } else {
            None
        }
    })
}

fn of_plotly(figure: &Value) -> Option<String> {
    let traces = figure.get("data")?.as_array()?;
    let layout = figure.get("layout").unwrap_or(&Value::Null);
    let title = plotly::titled(layout).unwrap_or_default();
    let mut axes = AxesNames::default();
    let mut blocks = Vec::new();
    let mut left = CELLS;
    for trace in traces {
        let lists = lists(trace, left)?;
        let length = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
        left = left.checked_sub(length * lists.len())?;
        let (number, x_label, y_label) = axes.of(trace, layout);
        let kind = trace
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("scatter");
        let name = plotly::text(trace.get("name")).unwrap_or_default();
        let head = [
            number.to_string(),
            title.clone(),
            kind.to_owned(),
            name,
            x_label,
            y_label,
        ];
        blocks.push((head, lists, length));
    }
    let is_used = |key: &&&str| {
        let mut all = blocks.iter().flat_map(|(_, lists, _)| lists);
        all.any(|(it, _)| it == *key)
    };
    let columns: Vec<&str> = LISTS.iter().filter(is_used).copied().collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let head = ["axes", "title", "kind", "series", "x_label", "y_label"];
    writer.write_record(head.iter().chain(&columns)).ok()?;
    let mut is_empty = true;
    for (head, lists, length) in &blocks {
        for row in 0..*length {
            is_empty = false;
            let values = columns.iter().map(|column| {
                let list = lists.iter().find(|(it, _)| it == column);
                let found = list.and_then(|(_, list)| list.get(row));
                found.map_or_else(String::new, value)
            });
            let head = head.iter().map(|it| cell(it));
            writer.write_record(head.chain(values)).ok()?;
        }
    }
    written(writer).filter(|_| !is_empty)
}

/// The lists of a trace; a matrix has a row for each of its values. `None`: there are too many.
fn lists(trace: &Value, most: usize) -> Option<Vec<(&'static str, Vec<Value>)>> {
    let mut lists = Vec::new();
    for key in LISTS {
        let Some(given) = trace.get(key) else {
            continue;
        };
        if let Some(list) = plotly::values_up_to(given, most) {
            lists.push((key, list));
        } else if given.is_array() || given.get("bdata").is_some() {
            return None;
        }
    }
    let shape = trace.get("z").and_then(|it| it.get("shape")?.as_str());
    let Some((_, z)) = lists.iter().find(|(key, _)| *key == "z") else {
        return Some(lists);
    };
    let rows: Vec<Vec<Value>> = match shape.and_then(|it| it.split_once(',')) {
        // Packed matrices say their rows and columns.
        Some((_, columns)) => {
            let columns = columns.trim().parse::<usize>().ok().filter(|it| *it > 0)?;
            z.chunks(columns).map(<[Value]>::to_vec).collect()
        }
        None if z.iter().all(Value::is_array) && !z.is_empty() => {
            let row = |it: &Value| it.as_array().cloned().unwrap_or_default();
            z.iter().map(row).collect()
        }
        None => return Some(lists),
    };
    let cells: usize = rows.iter().map(Vec::len).sum();
    if cells > most / 3 {
        return None;
    }
    let place = |key: &str, at: usize| {
        let list = lists.iter().find(|(it, _)| *it == key);
        let found = list.and_then(|(_, list)| list.get(at)).cloned();
        found.unwrap_or_else(|| Value::from(at))
    };
    let (mut x, mut y, mut flat) = (Vec::new(), Vec::new(), Vec::new());
    for (down, row) in rows.into_iter().enumerate() {
        for (across, value) in row.into_iter().enumerate() {
            x.push(place("x", across));
            y.push(place("y", down));
            flat.push(value);
        }
    }
    Some(vec![("x", x), ("y", y), ("z", flat)])
}

fn of_vega(specification: &Value) -> Option<String> {
    let mut tables: Vec<(String, &Vec<Value>)> = Vec::new();
    let named = specification.get("datasets").and_then(Value::as_object);
    for (name, rows) in named.into_iter().flatten() {
        tables.extend(rows.as_array().map(|rows| (name.clone(), rows)));
    }
    inline(specification, DEPTH, &mut tables);
    let mut columns: Vec<&str> = Vec::new();
    let mut known = std::collections::HashSet::new();
    let mut cells = 0_usize;
    for row in tables.iter().flat_map(|(_, rows)| rows.iter()) {
        let Some(row) = row.as_object() else { continue };
        for name in row.keys() {
            if known.insert(name.as_str()) {
                columns.push(name);
            }
        }
        cells += columns.len();
        if cells > CELLS || columns.len() > COLUMNS {
            return None;
        }
    }
    if columns.is_empty() {
        return None;
    }
    let is_several = tables.len() > 1;
    let mut writer = csv::Writer::from_writer(Vec::new());
    let first = is_several.then_some("dataset").into_iter();
    let head = first.chain(columns.iter().copied()).map(cell);
    writer.write_record(head).ok()?;
    for (name, rows) in &tables {
        for row in rows.iter().filter_map(Value::as_object) {
            let name = is_several.then(|| cell(name)).into_iter();
            writer
                .write_record(name.chain(fields(row, &columns)))
                .ok()?;
        }
    }
    written(writer)
}

fn fields(row: &Map<String, Value>, columns: &[&str]) -> impl Iterator<Item = String> {
    columns
        .iter()
        .map(|name| row.get(*name).map_or_else(String::new, value))
}

/// The rows that stand in the views themselves: in `data` of Vega-Lite, in each of Vega's.
fn inline<'a>(view: &'a Value, depth: usize, tables: &mut Vec<(String, &'a Vec<Value>)>) {
    if depth == 0 {
        return;
    }
    let data = view.get("data");
    let single = data.filter(|it| it.is_object()).into_iter();
    for data in single.chain(data.and_then(Value::as_array).into_iter().flatten()) {
        let name = data.get("name").and_then(Value::as_str);
        if let Some(rows) = data.get("values").and_then(Value::as_array) {
            let name = name.map_or_else(|| format!("data-{}", tables.len() + 1), str::to_owned);
            tables.push((name, rows));
        }
    }
    for key in ["hconcat", "vconcat", "concat", "layer"] {
        let parts = view.get(key).and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            inline(part, depth - 1, tables);
        }
    }
    if let Some(inside) = view.get("spec") {
        inline(inside, depth - 1, tables);
    }
}

fn written(writer: csv::Writer<Vec<u8>>) -> Option<String> {
    String::from_utf8(writer.into_inner().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(mime: &str, figure: Value) -> Option<String> {
        csv(&MimeBundle::new().with(mime, figure))
    }

    const PLOTLY: &str = "application/vnd.plotly.v1+json";
    const VEGA_LITE: &str = "application/vnd.vegalite.v6+json";

    #[test]
    fn a_figure_of_plotly_is_a_table() {
        let figure = json!({
            "data": [
                {"type": "bar", "name": "=rain", "x": ["a", "b"], "y": {"dtype": "i2", "bdata": "AQACAA=="}},
                {"mode": "lines", "name": "mean", "x": ["a"], "y": {"dtype": "f8", "bdata": "AAAAAAAA+D8="}, "yaxis": "y2"},
                {"type": "pie", "labels": ["c", "d"], "values": [1, 2], "domain": {"x": [0, 1]}},
            ],
            "layout": {"title": {"text": "Rain"}, "yaxis": {"title": "mm"}, "yaxis2": {"title": {"text": "m"}}},
        });
        assert_eq!(
            table(PLOTLY, figure).unwrap(),
            "axes,title,kind,series,x_label,y_label,x,y,labels,values\n\
             1,Rain,bar,'=rain,,mm,a,1,,\n\
             1,Rain,bar,'=rain,,mm,b,2,,\n\
             2,Rain,scatter,mean,,m,a,1.5,,\n\
             3,Rain,pie,,,,,,c,1\n\
             3,Rain,pie,,,,,,d,2\n"
        );
    }

    #[test]
    fn a_matrix_has_a_row_for_each_value() {
        let list = json!({"data": [{"type": "heatmap", "x": ["a", "b"], "z": [[1, 2], [3, 4]]}]});
        let packed = json!({"data": [{"type": "heatmap", "x": ["a", "b"],
            "z": {"dtype": "i1", "bdata": "AQIDBA==", "shape": "2, 2"}}]});
        for figure in [list, packed] {
            assert_eq!(
                table(PLOTLY, figure).unwrap(),
                "axes,title,kind,series,x_label,y_label,x,y,z\n\
                 1,,heatmap,,,,a,0,1\n1,,heatmap,,,,b,0,2\n1,,heatmap,,,,a,1,3\n1,,heatmap,,,,b,1,4\n"
            );
        }
    }

    #[test]
    fn data_of_vega_is_a_table() {
        let figure = json!({
            "data": {"name": "d"}, "mark": "bar", "datasets": {"d": [{"x": 1, "y": "=a"}, {"x": 2.5, "z": [1]}]},
        });
        assert_eq!(
            table(VEGA_LITE, figure).unwrap(),
            "x,y,z\n1,'=a,\n2.5,,[1]\n"
        );
        let several = json!({"layer": [{"data": {"values": [{"x": 1}]}}, {"data": {"values": [{"y": null}]}}]});
        assert_eq!(
            table(VEGA_LITE, several).unwrap(),
            "dataset,x,y\ndata-1,1,\ndata-2,,\n"
        );
    }

    #[test]
    fn what_is_not_in_the_output_is_no_table() {
        for (mime, figure) in [
            (PLOTLY, json!({})),
            (
                PLOTLY,
                json!({"data": [{"type": "bar", "y": {"dtype": "f8", "bdata": "??"}}]}),
            ),
            (PLOTLY, json!({"data": [{"type": "bar", "x": []}]})),
            (
                PLOTLY,
                json!({"data": [{"z": {"dtype": "i1", "bdata": "AQ==", "shape": "1,0"}}]}),
            ),
            (
                VEGA_LITE,
                json!({"data": {"url": "cars.json"}, "mark": "bar"}),
            ),
            (VEGA_LITE, json!({"datasets": 1, "layer": [1]})),
            ("text/plain", json!("x")),
        ] {
            assert_eq!(table(mime, figure.clone()), None, "{figure}");
        }
    }
}
