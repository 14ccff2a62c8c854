//! Every kind of entry, whole and torn.

use std::collections::BTreeSet;

use serde_json::{Map, json};

use super::*;
use crate::jupyter::content::{ErrorContent, Stream};
use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::{Cell as NotebookCell, Notebook};
use crate::kernel::{ExitReason, OutputEvent, Verdict};
use crate::llm::types::Native;
use crate::session::carried::{Carried, CarriedFile, Shape};
use crate::session::compaction::{Compaction, Measure, Writer};
use crate::session::limits::{OutputFolderPath, OutputLimits, Whole};
use crate::session::transcript::{Author, Cell, CellKind, CodeStatus, KernelIdentity, Reading};

fn stream(text: &str) -> OutputEvent {
    OutputEvent::Stream(Stream {
        name: "stdout".to_owned(),
        text: text.to_owned(),
    })
}

fn emit(cell: &str, output: OutputEvent) -> Edit {
    Edit::Emit {
        cell: cell.to_owned(),
        output,
    }
}

/// A session with every variant of [`Edit`] and of the types inside it.
#[expect(clippy::too_many_lines, reason = "a list")]
fn session() -> Vec<Edit> {
    let id = |id: &str| id.to_owned();
    let kernel = |language: &str| KernelIdentity {
        name: format!("{language}-kernel"),
        display_name: language.to_owned(),
        language: language.to_owned(),
        language_info: Map::from_iter([("version".to_owned(), json!(3.5))]),
    };
    let propose = |cell: &str, author, language: Option<&str>| Edit::Propose {
        cell: id(cell),
        author,
        language: language.map(str::to_owned),
        source: "1 +\n1".to_owned(),
    };
    let model = |broken: Option<&str>| Author::Model {
        step: 1,
        call_id: id("call"),
        broken: broken.map(str::to_owned),
    };
    let finish = |cell: &str, status| Edit::Finish {
        cell: id(cell),
        status,
        at: id("2026-11-22T00:00:01Z"),
    };
    let shown = OutputEvent::Display {
        data: MimeBundle::png(b"png").with("application/json", json!({"b": 1.0e-7, "a": [null]})),
        metadata: Map::from_iter([("image/png".to_owned(), json!({"width": 1}))]),
        display_id: Some(id("d")),
    };
    let place = OutputFolderPath {
        beside_notebook: id("a.outputs/c"),
        for_code: id("/tmp/a.outputs/c"),
    };
    let mut edits = vec![
        Edit::SetModel(id("local/x")),
        Edit::SetKernel(kernel("python")),
        Edit::AddKernel(kernel("r")),
        Edit::Spend(Usage {
            input: 3,
            cached: 2,
            output: 1,
            ..Usage::default()
        }),
        Edit::Note {
            cell: id("n"),
            text: id("facts"),
        },
        Edit::Say {
            cell: id("u"),
            text: "why\u{2028}?\n\u{1}".to_owned(),
        },
        Edit::AppendText {
            cell: id("a"),
            step: 1,
            text: id("be"),
        },
        Edit::AppendText {
            cell: id("a"),
            step: 1,
            text: id("cause"),
        },
        propose("c", model(None), None),
        Edit::Change {
            cell: id("c"),
            source: id("2"),
        },
        Edit::Start {
            cell: id("c"),
            at: id("2026-11-22T00:00:00Z"),
        },
        Edit::Number {
            cell: id("c"),
            count: 7,
        },
        emit("c", stream("50%\r")),
        emit("c", stream("100%\r")),
        emit("c", shown),
        emit(
            "c",
            OutputEvent::Result {
                data: MimeBundle::text("2"),
                metadata: Map::new(),
                count: Some(7),
                display_id: None,
            },
        ),
        emit("c", OutputEvent::Lost(id("much"))),
        Edit::Hint {
            cell: id("c"),
            text: id("look"),
        },
        finish("c", CodeStatus::Finished(Verdict::Ok)),
        propose("e", Author::Person, Some("r")),
        emit(
            "e",
            OutputEvent::Update {
                data: MimeBundle::text("new"),
                metadata: Map::new(),
                display_id: id("d"),
            },
        ),
        emit(
            "e",
            OutputEvent::Error(ErrorContent {
                ename: id("E"),
                evalue: id("v"),
                traceback: vec![id("t")],
            }),
        ),
        emit("e", OutputEvent::Clear { wait: true }),
        propose("x", model(Some("{")), None),
        finish("x", CodeStatus::NotRun(id("broken"))),
    ];
    for (number, status) in [
        CodeStatus::Declined(None),
        CodeStatus::Declined(Some(id("no"))),
        CodeStatus::Running,
        CodeStatus::Finished(Verdict::Error {
            ename: id("E"),
            evalue: id("v"),
        }),
        CodeStatus::Finished(Verdict::Interrupted),
        CodeStatus::Finished(Verdict::TimedOut),
        CodeStatus::Finished(Verdict::Aborted),
        CodeStatus::Finished(Verdict::KernelDied(ExitReason::Exited(1))),
        CodeStatus::Finished(Verdict::KernelDied(ExitReason::Gone(id("away")))),
    ]
    .into_iter()
    .enumerate()
    {
        let cell = format!("s{number}");
        edits.push(propose(&cell, Author::Person, None));
        edits.push(emit(&cell, stream(&"x".repeat(5000))));
        for whole in [
            Whole::Files(place.clone()),
            Whole::Partly(place.clone(), id("full")),
            Whole::Nowhere(Some(id("full"))),
        ] {
            edits.push(Edit::Cut {
                cell: cell.clone(),
                whole,
            });
        }
        edits.push(finish(&cell, status));
    }
    edits.extend(seldom(place));
    edits
}

/// Edits that are rarer in a session.
fn seldom(place: OutputFolderPath) -> Vec<Edit> {
    let id = |id: &str| id.to_owned();
    let some = || Map::from_iter([("k".to_owned(), json!({"a": [1, null]}))]);
    let say = |cell: &str, step| Edit::AppendText {
        cell: id(cell),
        step,
        text: id("let me"),
    };
    let compact = |cell: &str, measure| Edit::Compact {
        cell: id(cell),
        text: id("# Before\n- it was said"),
        compaction: Compaction {
            through: id("a"),
            measure,
            before: 9000,
            after: 70,
        },
    };
    let summary = |by| Measure::Summary {
        by,
        work: id("much"),
    };
    let spent = json!({
        "requests": 2,
        "usage": Usage { input: 3, cached: 2, output: 1, ..Usage::default() },
        "milliseconds": 70,
    });
    let accounts = json!({"session": spent, "turns": {"u": spent}});
    let mut theirs = Notebook::new();
    theirs.metadata = some();
    theirs
        .cells
        .push(NotebookCell::markdown("theirs", "of somebody\n"));
    vec![
        say("cut", 1),
        Edit::CutOff {
            cell: id("cut"),
            reason: id("no network"),
        },
        Edit::Pictures {
            cell: id("c"),
            places: vec![None, Some(place)],
        },
        Edit::Files {
            cell: id("c"),
            files: serde_json::from_value(json!({
                "created": [{"path": "a.csv", "bytes": 3}, {"path": ".git/", "runs": "later"}],
                "changed": [{"path": "b"}],
                "deleted": ["d/"],
                "more": 1,
                "incomplete": true,
            }))
            .unwrap(),
        },
        Edit::Read {
            cell: id("read"),
            arguments: id("{\"cell\": \"c\"}"),
            reading: Reading {
                step: 1,
                call_id: id("call-2"),
                answer: id("```text"),
                is_error: true,
            },
        },
        compact("k1", Measure::Outputs),
        compact("k2", summary(Writer::Model)),
        compact("k3", summary(Writer::Rules)),
        say("gone", 2),
        Edit::TakeBack { cell: id("gone") },
        Edit::EndTurn { milliseconds: 70 },
        Edit::Accounts(Box::new(serde_json::from_value(accounts).unwrap())),
        Edit::Models(vec![(id("a/y"), 1), (id("local/x"), 2)]),
        Edit::Restore(Box::new(Cell {
            id: id("carried"),
            kind: CellKind::Note,
            source: id("text"),
            carried: Some(Box::new(Carried {
                shape: Some(Shape::Other {
                    cell_type: id("chart"),
                    has_source: true,
                }),
                metadata: some(),
                attachments: Some(some()),
                extra: some(),
            })),
        })),
        Edit::Reload(Box::new(theirs)),
        Edit::Carry(Box::new(CarriedFile {
            is_foreign: true,
            metadata: some(),
            ours: some(),
            extra: some(),
            minor: 7,
        })),
        Edit::Keep {
            step: 1,
            native: Native::new(json!({"content": [{"signature": "c2ln"}]})),
        },
    ]
}

/// Number of variants.
const VARIANTS: usize = 28;

/// A new variant needs the next number here, a larger [`VARIANTS`], and an edit in [`session`] or [`seldom`].
fn number(edit: &Edit) -> usize {
    match edit {
        Edit::Say { .. } => 0,
        Edit::Note { .. } => 1,
        Edit::AppendText { .. } => 2,
        Edit::CutOff { .. } => 3,
        Edit::Propose { .. } => 4,
        Edit::Change { .. } => 5,
        Edit::Hint { .. } => 6,
        Edit::Start { .. } => 7,
        Edit::Number { .. } => 8,
        Edit::Emit { .. } => 9,
        Edit::Cut { .. } => 10,
        Edit::Pictures { .. } => 11,
        Edit::Read { .. } => 12,
        Edit::Compact { .. } => 13,
        Edit::Finish { .. } => 14,
        Edit::TakeBack { .. } => 15,
        Edit::SetKernel(_) => 16,
        Edit::AddKernel(_) => 17,
        Edit::SetModel(_) => 18,
        Edit::Models(_) => 19,
        Edit::Keep { .. } => 20,
        Edit::Spend(_) => 21,
        Edit::EndTurn { .. } => 22,
        Edit::Accounts(_) => 23,
        Edit::Restore(_) => 24,
        Edit::Carry(_) => 25,
        Edit::Reload(_) => 26,
        Edit::Files { .. } => 27,
    }
}

#[test]
fn no_variant_is_forgotten() {
    let found: BTreeSet<usize> = session().iter().map(number).collect();
    assert_eq!(found, (0..VARIANTS).collect());
}

fn limits() -> OutputLimits {
    OutputLimits {
        cell_text: 1000,
        ..OutputLimits::default()
    }
}

fn transcript(edits: impl IntoIterator<Item = Edit>) -> Transcript {
    let mut transcript = Transcript::new(limits());
    for edit in edits {
        transcript.apply(edit).unwrap();
    }
    transcript
}

fn lines(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        write(entry, &mut bytes);
    }
    bytes
}

fn read_all(bytes: &[u8]) -> (Vec<Entry>, Read) {
    let mut entries = Vec::new();
    let read = read(bytes, |entry, _| entries.push(entry)).unwrap();
    (entries, read)
}

#[test]
fn every_edit_comes_back() {
    let entries: Vec<Entry> = session().into_iter().map(Entry::Edit).collect();
    let bytes = lines(&entries);
    let (found, read) = read_all(&bytes);
    assert_eq!(found, entries);
    assert_eq!(
        (read.good, read.end),
        (bytes.len() as u64, bytes.len() as u64)
    );
    for edit in session() {
        let mut borrowed = Vec::new();
        write_edit(&edit, &mut borrowed);
        assert_eq!(borrowed, lines(&[Entry::Edit(edit)]));
    }
}

#[test]
fn a_snapshot_is_the_same_session() {
    let whole = transcript(session());
    let edits: Vec<Edit> = whole.snapshot().collect();
    let again = transcript(edits.clone());
    assert_eq!(again, whole);
    let (found, _) = read_all(&lines(
        &edits.iter().cloned().map(Entry::Edit).collect::<Vec<_>>(),
    ));
    let found = found.into_iter().map(|entry| match entry {
        Entry::Edit(edit) => edit,
        other => panic!("{other:?}"),
    });
    let found = transcript(found);
    assert_eq!(found, whole);
    assert_eq!(found.bytes(), whole.bytes());
    // The shortened session continues like the first: displays are found by name.
    let update = emit(
        "e",
        OutputEvent::Update {
            data: MimeBundle::text("newest"),
            metadata: Map::new(),
            display_id: "d".to_owned(),
        },
    );
    let (mut one, mut other) = (whole, found);
    one.apply(update.clone()).unwrap();
    other.apply(update).unwrap();
    assert_eq!(one, other);
}

#[test]
fn whatever_is_torn_off_the_rest_is_there() {
    let entries: Vec<Entry> = session().into_iter().take(12).map(Entry::Edit).collect();
    let bytes = lines(&entries);
    for cut in 0..=bytes.len() {
        let (found, read) = read_all(&bytes[..cut]);
        let whole = bytes[..cut].split(|&byte| byte == b'\n').count() - 1;
        assert_eq!(found, entries[..whole]);
        let good = lines(&entries[..whole]).len();
        assert_eq!((read.good, read.end), (good as u64, cut as u64));
        assert_eq!((read.damaged, read.unknown), (0, 0));
    }
}

#[test]
fn a_damaged_line_costs_itself() {
    let entries: Vec<Entry> = session().into_iter().take(5).map(Entry::Edit).collect();
    let one = lines(&entries[..1]).len();
    let mut bytes = lines(&entries);
    bytes[one + 20] ^= 1;
    let (found, read) = read_all(&bytes);
    let mut rest = entries.clone();
    rest.remove(1);
    assert_eq!(found, rest);
    assert_eq!((read.damaged, read.good), (1, bytes.len() as u64));
    // At the end it is torn.
    let mut bytes = lines(&entries);
    let good = lines(&entries[..4]).len() as u64;
    let last = bytes.len() - 2;
    bytes[last] ^= 1;
    let (found, read) = read_all(&bytes);
    assert_eq!(found, entries[..4]);
    assert_eq!((read.damaged, read.good), (0, good));
}

#[test]
fn what_a_newer_version_says_is_left_out() {
    let json = r#"{"edit":{"levitate":{"cell":"c"}}}"#;
    let mut bytes = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes();
    let entry = Entry::Title("t".to_owned());
    write(&entry, &mut bytes);
    let (found, read) = read_all(&bytes);
    assert_eq!(found, [entry]);
    assert_eq!((read.unknown, read.good), (1, bytes.len() as u64));
}

#[test]
fn joined_edits_come_to_the_same() {
    let mut joined: Vec<Edit> = Vec::new();
    for edit in session() {
        let rest = match joined.last_mut() {
            Some(last) => join(last, edit),
            None => Some(edit),
        };
        joined.extend(rest);
    }
    assert!(joined.len() < session().len());
    assert_eq!(transcript(joined), transcript(session()));
}

#[test]
fn a_closed_session_is_known_by_its_last_line() {
    let title = Entry::Title("mine".to_owned());
    let permit = Permit {
        finding: "delete".to_owned(),
        language: "python".to_owned(),
    };
    let mut entries: Vec<Entry> = session().into_iter().map(Entry::Edit).collect();
    entries.push(title);
    entries.push(Entry::Permitted(permit.clone()));
    let gathered = gather(lines(&entries).as_slice()).unwrap();
    let expected = Summary {
        at: "2026-11-22T00:00:01Z".to_owned(),
        title: Some("mine".to_owned()),
        question: Some("why ?".to_owned()),
        questions: 1,
        code_cells: 12,
        model: Some("local/x".to_owned()),
        usage: Usage {
            input: 3,
            cached: 2,
            output: 1,
            ..Usage::default()
        },
        kernels: Vec::new(),
        permits: vec![permit],
        moved: None,
    };
    assert_eq!(gathered, expected);
    assert_eq!(summary(&lines(&entries)), None);
    entries.push(Entry::Closed(gathered.clone()));
    let bytes = lines(&entries);
    assert_eq!(summary(&bytes), Some(gathered.clone()));
    assert_eq!(summary(&bytes[100..]), Some(gathered));
}
