//! Outputs that compare equal, and outputs that do not.

use serde_json::{Map, json};

use super::*;

fn display(bundle: MimeBundle) -> Output {
    Output::display(bundle, Map::new())
}

fn differences(stored: &[Output], fresh: &[Output]) -> Vec<Difference> {
    compare(stored, fresh, &CheckOptions::default())
}

fn text(what: &str, stored: &str, fresh: &str) -> Difference {
    Difference::Text {
        what: what.to_owned(),
        stored: stored.to_owned(),
        fresh: fresh.to_owned(),
    }
}

#[test]
fn how_text_is_cut_into_pieces_does_not_count() {
    let stored = [
        Output::stream("stdout", "a\n"),
        Output::stream("stderr", "warning\n"),
        Output::stream("stdout", "10%\r100%\n"),
    ];
    let fresh = [
        Output::stream("stderr", "warning\n"),
        Output::stream("stdout", "a\n100%\n"),
    ];
    assert_eq!(differences(&stored, &fresh), []);
}

#[test]
fn text_that_differs() {
    let stored = [
        Output::stream("stdout", "total 1\n"),
        Output::result(
            Some(3),
            MimeBundle::text("<A at 0x7fffdeadbeef>"),
            Map::new(),
        ),
        Output::error("KeyError", "'a'", vec!["one traceback".to_owned()]),
    ];
    let fresh = [
        Output::stream("stdout", "total 2\n"),
        Output::result(
            Some(9),
            MimeBundle::text("<A at 0x7fff00000000>"),
            Map::new(),
        ),
        Output::error("KeyError", "'b'", vec!["another".to_owned()]),
    ];
    assert_eq!(
        differences(&stored, &fresh),
        [
            text("stdout", "total 1\n", "total 2\n"),
            text("the error", "KeyError: 'a'", "KeyError: 'b'"),
        ]
    );
    let tolerant = CheckOptions {
        tolerance: Some(1.0),
        ..CheckOptions::default()
    };
    assert_eq!(
        compare(&stored, &fresh, &tolerant),
        [text("the error", "KeyError: 'a'", "KeyError: 'b'")]
    );
}

#[test]
fn outputs_that_come_and_go() {
    let png = display(MimeBundle::png(b"x").with("text/plain", "<Figure>"));
    let failed = Output::error("ValueError", "no\nmore", Vec::new());
    let gone = |what: &str| Difference::Gone {
        what: what.to_owned(),
    };
    let new = |what: &str| Difference::New {
        what: what.to_owned(),
    };
    assert_eq!(
        differences(std::slice::from_ref(&png), &[]),
        [gone("an output of image/png")]
    );
    assert_eq!(
        differences(&[], std::slice::from_ref(&failed)),
        [new("the error ValueError: no")]
    );
    assert_eq!(
        differences(std::slice::from_ref(&png), std::slice::from_ref(&failed)),
        [
            gone("an output of image/png"),
            new("the error ValueError: no")
        ]
    );
    assert_eq!(
        differences(
            &[display(MimeBundle::text("1").with("text/html", "<b>1</b>"))],
            &[display(MimeBundle::text("1").with("text/latex", "1"))],
        ),
        [gone("text/html of output 1"), new("text/latex of output 1")]
    );
}

#[test]
fn what_names_things_of_one_run() {
    let view = |id: &str| {
        display(MimeBundle::text("Label()").with(
            "application/vnd.jupyter.widget-view+json",
            json!({"model_id": id}),
        ))
    };
    assert_eq!(differences(&[view("a")], &[view("b")]), []);
    let styled = |id: &str| {
        display(MimeBundle::new().with("text/html", format!("<td id=\"T_{id}_row0\">1</td>")))
    };
    assert_eq!(differences(&[styled("ab12f")], &[styled("00c4d")]), []);
}

#[test]
fn charts_are_compared_as_json() {
    let chart = |value: f64| {
        display(MimeBundle::new().with(
            "application/vnd.vegalite.v5+json",
            json!({"mark": "bar", "data": [value]}),
        ))
    };
    assert_eq!(differences(&[chart(1.0)], &[chart(1.0)]), []);
    let tolerant = CheckOptions {
        tolerance: Some(1e-6),
        ..CheckOptions::default()
    };
    assert_eq!(
        compare(&[chart(1.0)], &[chart(1.000_000_01)], &tolerant),
        []
    );
    assert_eq!(differences(&[chart(1.0)], &[chart(2.0)]).len(), 1);
}

#[test]
fn pictures_that_cannot_be_read_differ() {
    let png = |bytes: &[u8]| display(MimeBundle::png(bytes));
    assert_eq!(differences(&[png(b"x")], &[png(b"x")]), []);
    assert_eq!(
        differences(&[png(b"x")], &[png(b"y")]),
        [Difference::Picture {
            what: "image/png of output 1".to_owned(),
            distance: 1.0,
            stored: ("image/png", b"x".to_vec()),
            fresh: ("image/png", b"y".to_vec()),
        }]
    );
}
