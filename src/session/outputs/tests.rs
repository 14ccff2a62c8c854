//! Merging of streams and displays, and what is kept beyond the limits.

use super::*;
use crate::jupyter::content::{ErrorContent, Stream};
use crate::session::limits::{OutputFolderPath, OutputLimits};

fn text(name: &str, text: &str) -> OutputEvent {
    OutputEvent::Stream(Stream {
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

fn display(value: &str, id: Option<&str>) -> OutputEvent {
    OutputEvent::Display {
        data: MimeBundle::text(value),
        metadata: Map::new(),
        display_id: id.map(str::to_owned),
    }
}

fn shown(value: &str) -> Output {
    Output::display(MimeBundle::text(value), Map::new())
}

fn fold(events: impl IntoIterator<Item = OutputEvent>) -> Vec<Output> {
    let mut outputs = Outputs::default();
    for event in events {
        outputs.apply(&event);
    }
    outputs.to_notebook()
}

#[test]
fn streams_merge_in_order() {
    assert_eq!(
        fold([
            text("stdout", "a"),
            text("stdout", "b\n"),
            text("stderr", "e"),
            text("stdout", "c")
        ]),
        [
            Output::stream("stdout", "ab\n"),
            Output::stream("stderr", "e"),
            Output::stream("stdout", "c")
        ]
    );
}

#[test]
fn carriage_returns_and_backspaces_are_folded() {
    let cases: [(&[&str], &str); 7] = [
        (&["10%\r20%\r30%"], "30%"),
        (&["10%\r", "20%", "\r30%\n"], "30%\n"),
        (&["dos\r", "\nline\r\n"], "dos\nline\n"),
        (&["kept\nbar 1\rbar 2"], "kept\nbar 2"),
        (&["abc\u{8}\u{8}d"], "ad"),
        (&["\u{8}\u{8}x\n\u{8}y"], "x\ny"),
        (&["ends\r"], "ends"),
    ];
    for (chunks, expected) in cases {
        let events = chunks.iter().map(|chunk| text("stdout", chunk));
        assert_eq!(
            fold(events),
            [Output::stream("stdout", expected)],
            "{chunks:?}"
        );
    }
}

#[test]
fn clearing_waits_when_asked() {
    let clear = |wait| OutputEvent::Clear { wait };
    assert_eq!(fold([text("stdout", "a"), clear(false)]), []);
    assert_eq!(
        fold([text("stdout", "a"), clear(true)]),
        [Output::stream("stdout", "a")]
    );
    assert_eq!(
        fold([
            text("stdout", "a"),
            clear(true),
            display("b", None),
            display("c", None)
        ]),
        [shown("b"), shown("c")]
    );
}

#[test]
fn displays_are_updated_by_id() {
    let update = OutputEvent::Update {
        data: MimeBundle::text("new"),
        metadata: Map::new(),
        display_id: "d".to_owned(),
    };
    assert_eq!(
        fold([
            display("a", Some("d")),
            display("b", None),
            display("c", Some("d")),
            update
        ]),
        [shown("new"), shown("b"), shown("new")]
    );
}

#[test]
fn errors_and_losses_are_outputs() {
    let error = OutputEvent::Error(ErrorContent {
        ename: "E".to_owned(),
        evalue: "v".to_owned(),
        traceback: vec!["t".to_owned()],
    });
    assert_eq!(
        fold([error, OutputEvent::Lost("gone".to_owned())]),
        [
            Output::error("E", "v", vec!["t".to_owned()]),
            Output::stream("stderr", "[sponde: gone]\n")
        ]
    );
}

const LIMITS: OutputLimits = OutputLimits {
    cell_text: 4000,
    cell_rich: 40_000,
    cell_outputs: 20,
    cell_images: 4,
    session: 100_000,
    files: 0,
};

/// Applies and cuts each event, as a session does.
fn fold_within(limits: OutputLimits, events: impl IntoIterator<Item = OutputEvent>) -> Outputs {
    let limits = limits.of_cell(0);
    let mut outputs = Outputs::default();
    for event in events {
        outputs.apply(&event);
        let before = outputs.clone();
        outputs.cut(&limits, Whole::Nowhere(None));
        assert_eq!(before.is_over(&limits), before != outputs);
        assert!(!outputs.is_over(&limits), "{outputs:?}");
        assert_eq!(outputs.kept, kept(&outputs));
    }
    outputs
}

fn kept(outputs: &Outputs) -> Kept {
    let mut sum = Kept::default();
    for item in &outputs.items {
        sum.add(item.kept());
    }
    sum
}

/// The number of bytes that the note says are missing.
fn missing(text: &str) -> usize {
    let (_, rest) = text.split_once("[sponde: ").unwrap();
    rest.split_once(" bytes").unwrap().0.parse().unwrap()
}

#[test]
fn a_flood_keeps_its_head_and_its_tail() {
    let chunk = "é".repeat(500);
    let mut events = vec![text("stdout", "first\n")];
    events.extend((0..200).map(|_| text("stdout", &chunk)));
    events.push(text("stdout", "\nlast\n"));
    let outputs = fold_within(LIMITS, events);
    let shown = outputs.to_notebook();
    let [Output::Stream { text, .. }] = &shown[..] else {
        panic!("{} outputs", shown.len());
    };
    assert!(
        text.starts_with("first\né") && text.ends_with("é\nlast\n"),
        "{text}"
    );
    let note = format!("\n[sponde: {} bytes not kept here]\n", missing(text));
    assert!(text.contains(&note), "{text}");
    let all = 200 * chunk.len() + "first\n\nlast\n".len();
    assert_eq!(text.len() - note.len() + missing(text), all);
    // The beginning takes half of the limit.
    assert_eq!(text.find(&note), Some(2000));
}

#[test]
fn streams_that_alternate_share_one_allowance() {
    let events = (0..2000).map(|n| text(["stdout", "stderr", "odd"][n % 3], &format!("{n} \n")));
    let outputs = fold_within(
        OutputLimits {
            cell_outputs: 10_000,
            ..LIMITS
        },
        events,
    );
    let shown = outputs.to_notebook();
    assert_eq!(shown.first(), Some(&Output::stream("stdout", "0 \n")));
    // The second of two merged outputs; `odd` is not a stream that notebooks know.
    assert_eq!(shown.last(), Some(&Output::stream("stderr", "1999 \n")));
}

#[test]
fn of_a_large_display_the_short_text_stays() {
    let large = |size: usize| OutputEvent::Display {
        data: MimeBundle::text("a table").with("text/html", "x".repeat(size)),
        metadata: Map::new(),
        display_id: None,
    };
    assert_eq!(fold_within(LIMITS, [large(10_000)]).cut, None);
    let outputs = fold_within(LIMITS, [text("stdout", "a\n"), large(100_000)]);
    assert_eq!(
        outputs.to_notebook(),
        [
            Output::stream("stdout", "a\n"),
            Output::stream("stderr", "[sponde: 100000 bytes not kept here]\n"),
            shown("a table"),
        ]
    );
    // The oldest are removed first, except the beginning.
    let outputs = fold_within(LIMITS, (0..6).map(|_| large(11_000)));
    let htmls: Vec<bool> = outputs
        .to_notebook()
        .iter()
        .filter_map(Output::data)
        .map(|data| data.contains("text/html"))
        .collect();
    assert_eq!(htmls, [true, false, false, false, true, true]);
}

#[test]
fn what_costs_much_memory_counts_as_much() {
    let display = |data: MimeBundle, metadata| OutputEvent::Display {
        data,
        metadata,
        display_id: None,
    };
    let object = |n| (0..n).map(|n: u32| (n.to_string(), Value::Null)).collect();
    let bombs = [
        // An array of zeros, an object of nulls, metadata, many types, empty lines.
        display(
            MimeBundle::new().with("application/json", vec![0; 2000]),
            Map::new(),
        ),
        display(
            MimeBundle::new().with("application/json", Value::Object(object(1000))),
            Map::new(),
        ),
        display(MimeBundle::text("x"), object(1000)),
        display(MimeBundle::from(object(1000)), Map::new()),
        display(MimeBundle::text("\n".repeat(4000)), Map::new()),
    ];
    for bomb in bombs {
        let outputs = fold_within(LIMITS, [bomb]);
        assert!(outputs.is_cut());
    }
}

#[test]
fn updates_cannot_grow_without_end() {
    let limits = LIMITS.of_cell(0);
    let mut outputs = Outputs::default();
    outputs.apply(&display("small", Some("d")));
    for size in [10, 1000, 30_000, 300_000, 30] {
        let text = "y".repeat(size);
        assert!(outputs.update("d", &MimeBundle::text(&*text), &Map::new()));
        outputs.cut(&limits, Whole::Nowhere(None));
        assert!(!outputs.is_over(&limits));
        let there = size < 40_000;
        assert_eq!(
            outputs.to_notebook().contains(&shown(&text)),
            there,
            "{size}"
        );
    }
    assert!(!outputs.update("other", &MimeBundle::text("z"), &Map::new()));
}

#[test]
fn a_huge_traceback_keeps_message_and_end() {
    let error = OutputEvent::Error(ErrorContent {
        ename: "E".to_owned(),
        evalue: "v".to_owned(),
        traceback: (0..10_000).map(|n| format!("frame {n}")).collect(),
    });
    let limits = OutputLimits {
        cell_text: 20_000,
        ..LIMITS
    };
    let outputs = fold_within(limits, [error.clone(), error]).to_notebook();
    assert_eq!(outputs.len(), 3);
    for output in outputs
        .iter()
        .filter(|output| matches!(output, Output::Error { .. }))
    {
        let Output::Error {
            ename,
            evalue,
            traceback,
            ..
        } = output
        else {
            continue;
        };
        assert_eq!((ename.as_str(), evalue.as_str()), ("E", "v"));
        assert_eq!(traceback.last().map(String::as_str), Some("frame 9999"));
    }
    assert!(
        matches!(outputs.last(), Some(Output::Error { .. })),
        "{outputs:?}"
    );
}

#[test]
fn outputs_and_pictures_are_counted() {
    let outputs = fold_within(LIMITS, (0..1000).map(|n| display(&n.to_string(), None)));
    let shown = outputs.to_notebook();
    assert!(shown.len() <= LIMITS.cell_outputs + 1);
    assert_eq!(shown.first(), Some(&self::shown("0")));
    assert_eq!(shown.last(), Some(&self::shown("999")));
    assert_eq!(outputs.items.len() + outputs.cut.unwrap().outputs, 1000);
    let picture = || OutputEvent::Display {
        data: MimeBundle::png(b"p").with("text/plain", "a plot"),
        metadata: Map::new(),
        display_id: None,
    };
    let shown = fold_within(LIMITS, (0..10).map(|_| picture())).to_notebook();
    let pictures = shown
        .iter()
        .filter_map(Output::data)
        .filter(|data| data.contains("image/png"));
    assert_eq!(pictures.count(), LIMITS.cell_images);
    assert_eq!(shown.len(), 11);
}

#[test]
fn a_full_session_keeps_a_little_of_each_cell() {
    let full = LIMITS.of_cell(LIMITS.session);
    assert_eq!((full.text, full.rich), (4000, 0));
    let mut outputs = Outputs::default();
    outputs.apply(&text("stdout", "seen\n"));
    outputs.apply(&display("a value", None));
    outputs.cut(&full, Whole::Nowhere(None));
    assert!(!outputs.is_empty());
    assert_eq!(
        outputs.to_notebook().first(),
        Some(&Output::stream("stdout", "seen\n"))
    );
}

#[test]
fn clearing_takes_the_gap_away_too() {
    let mut outputs = fold_within(LIMITS, [text("stdout", &"x".repeat(100_000))]);
    assert!(outputs.is_cut());
    outputs.apply(&OutputEvent::Clear { wait: true });
    outputs.apply(&text("stdout", "new\n"));
    assert_eq!(outputs.to_notebook(), [Output::stream("stdout", "new\n")]);
    assert_eq!(outputs.whole(), &Whole::Here);
}

#[test]
fn the_line_names_the_place() {
    let place = OutputFolderPath {
        beside_notebook: "a.outputs/c1".to_owned(),
        for_code: "sub/a.outputs/c1".to_owned(),
    };
    let mut outputs = Outputs::default();
    outputs.apply(&text("stdout", &"x".repeat(5000)));
    let limits = LIMITS.of_cell(0);
    for (whole, line) in [
        (
            Whole::Files(place.clone()),
            "; all of it is in `a.outputs/c1/`]\n",
        ),
        (
            Whole::Partly(place, "disk full".to_owned()),
            "; the first part of it is in `a.outputs/c1/` (disk full)]\n",
        ),
        (
            Whole::Nowhere(Some("disk full".to_owned())),
            "; it could not be written to a file: disk full]\n",
        ),
    ] {
        outputs.cut(&limits, whole);
        let [Output::Stream { text, .. }] = &outputs.to_notebook()[..] else {
            panic!("not one text");
        };
        assert!(text.contains(line), "{text}");
    }
}
