//! Charts of specifications; those that the libraries write are in `tests/fixtures/programs/charts.toml`.

use serde_json::{Value, json};

use super::{CHART, keep, of};
use crate::jupyter::mime::MimeBundle;

const PLOTLY: &str = "application/vnd.plotly.v1+json";
const VEGA_LITE: &str = "application/vnd.vegalite.v6+json";

fn chart(mime: &str, figure: Value) -> Value {
    of(&MimeBundle::new().with(mime, figure)).unwrap()
}

#[test]
fn packed_values_and_two_kinds_in_one_plot() {
    let figure = json!({
        "data": [
            {"type": "bar", "name": "rain", "x": ["a", "b"], "y": {"dtype": "i2", "bdata": "AQACAA=="}},
            {"mode": "lines", "name": "mean", "y": {"dtype": "f8", "bdata": "AAAAAAAA+D8="}},
        ],
        "layout": {"title": {"text": "Rain"}, "yaxis": {"title": "mm"}},
    });
    let labels = json!({"x_label": null, "y_label": "mm", "x_unit": null, "y_unit": null});
    let with = |mut chart: Value| {
        let labels = labels.as_object().unwrap().clone();
        chart.as_object_mut().unwrap().extend(labels);
        chart
    };
    assert_eq!(
        chart(PLOTLY, figure),
        json!({"type": "superchart", "title": "Rain", "elements": [
            with(json!({"type": "bar", "title": null, "elements": [
                {"label": "a", "group": "rain", "value": 1}, {"label": "b", "group": "rain", "value": 2},
            ]})),
            with(json!({
                "type": "line", "title": null, "elements": [{"label": "mean", "points": [[0, 1.5]]}],
                "x_ticks": [], "x_tick_labels": [], "x_scale": "linear",
                "y_ticks": [], "y_tick_labels": [], "y_scale": "linear",
            })),
        ]})
    );
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let unknown = json!({"type": "unknown", "title": null, "elements": []});
    for (mime, figure) in [
        (PLOTLY, json!({})),
        (PLOTLY, json!({"data": 1, "layout": []})),
        (PLOTLY, json!({"data": [{"type": "heatmap", "z": [[1]]}]})),
        (
            PLOTLY,
            json!({"data": [{"type": "bar", "y": {"dtype": "f8", "bdata": "AAA"}}]}),
        ),
        (
            PLOTLY,
            json!({"data": [{"type": "bar", "y": {"dtype": "\u{e9}8", "bdata": ""}}]}),
        ),
        (PLOTLY, json!({"data": [{"xaxis": "\u{e9}", "x": []}]})),
        (
            VEGA_LITE,
            json!({"mark": "bar", "data": {"url": "x.csv"}, "encoding": {}}),
        ),
        (VEGA_LITE, json!({"mark": "rect", "data": {"values": [{}]}})),
        (
            VEGA_LITE,
            json!({"mark": "bar", "data": {"values": [{"a": 1}]}, "transform": [{"filter": "a"}]}),
        ),
        (VEGA_LITE, json!({"mark": "bar", "data": {"values": [1]}})),
    ] {
        assert_eq!(chart(mime, figure.clone()), unknown, "{figure}");
    }
    assert_eq!(of(&MimeBundle::text("x")), None);
}

#[test]
fn a_large_chart_is_not_kept() {
    let mut data = MimeBundle::text("x");
    keep(json!("x".repeat(super::KEPT)), &mut data);
    assert_eq!(data, MimeBundle::text("x"));
    keep(json!({"type": "pie"}), &mut data);
    assert_eq!(of(&data), Some(json!({"type": "pie"})));
    assert!(data.contains(CHART));
}
