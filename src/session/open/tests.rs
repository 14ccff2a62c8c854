//! Sessions saved to files and reopened, with and without edits by others.

use serde_json::json;

use super::*;
use crate::jupyter::content::Stream;
use crate::jupyter::nbformat::Cell as FileCell;
use crate::kernel::OutputEvent;
use crate::llm::types::{Cost, Native, Usage};
use crate::session::compaction::{Compaction, Measure, Writer};
use crate::session::marks;
use crate::session::notebook::render;
use crate::session::summarize::Budget;
use crate::session::{Edit, context};

const BUDGET: Budget<'static> = Budget {
    text: 1000,
    preparer: None,
    brief: false,
    reads: true,
    said: None,
};

/// A conversation with code in every state.
fn session() -> Transcript {
    let mut transcript = Transcript::default();
    let id = |id: &str| id.to_owned();
    let propose = |cell: &str, step: u32, broken: Option<&str>| Edit::Propose {
        cell: id(cell),
        author: Author::Model {
            step,
            call_id: format!("toolu_{cell}"),
            broken: broken.map(str::to_owned),
        },
        language: (cell == "shell").then(|| id("bash")),
        source: if broken.is_some() {
            String::new()
        } else {
            format!("run({cell:?})")
        },
    };
    let finish = |cell: &str, status| Edit::Finish {
        cell: id(cell),
        status,
        at: id("2026-01-01T00:00:02Z"),
    };
    let start = |cell: &str| Edit::Start {
        cell: id(cell),
        at: id("2026-01-01T00:00:01Z"),
    };
    for edit in [
        Edit::SetModel(id("local/test")),
        Edit::AddKernel(KernelIdentity {
            name: id("my-bash"),
            display_name: id("my-bash"),
            language: id("bash"),
            language_info: Map::new(),
        }),
        Edit::Note {
            cell: id("note"),
            text: id("files:\n- a.csv\n```\nodd\n```"),
        },
        Edit::Say {
            cell: id("ask"),
            text: id("why?"),
        },
        Edit::AppendText {
            cell: id("say"),
            step: 1,
            text: id("I look."),
        },
        propose("good", 1, None),
        Edit::Change {
            cell: id("good"),
            source: id("run(\"better\")"),
        },
        start("good"),
        Edit::Number {
            cell: id("good"),
            count: 3,
        },
        Edit::Emit {
            cell: id("good"),
            output: OutputEvent::Stream(Stream {
                name: id("stdout"),
                text: id("1\n2\n"),
            }),
        },
        finish("good", CodeStatus::Finished(Verdict::Ok)),
        propose("broken", 2, Some("{\"code\": ")),
        finish(
            "broken",
            CodeStatus::NotRun(id("the arguments are not valid JSON")),
        ),
        propose("no", 3, None),
        finish("no", CodeStatus::Declined(Some(id("too slow")))),
        propose("dead", 4, None),
        start("dead"),
        finish(
            "dead",
            CodeStatus::Finished(Verdict::KernelDied(ExitReason::Signalled(9))),
        ),
        propose("shell", 5, None),
        Edit::Hint {
            cell: id("shell"),
            text: id("look again"),
        },
        start("shell"),
        finish("shell", CodeStatus::Finished(Verdict::Interrupted)),
    ]
    .into_iter()
    .chain(ending())
    {
        transcript.apply(edit).unwrap();
    }
    transcript
}

/// The model reads an output and answers, and the turn's cost is recorded.
fn ending() -> [Edit; 5] {
    let id = |id: &str| id.to_owned();
    [
        Edit::Read {
            cell: id("read"),
            arguments: id(r#"{"cell":"ok"}"#),
            reading: Reading {
                step: 6,
                call_id: id("call-read"),
                answer: id("```\nfenced\n```"),
                is_error: false,
            },
        },
        Edit::AppendText {
            cell: id("end"),
            step: 7,
            text: id("Because."),
        },
        Edit::Keep {
            step: 6,
            native: Native::new(json!({"signature": "s"})),
        },
        Edit::Spend(Usage {
            input: 10,
            cached: 4,
            written: 0,
            output: 3,
            cost: Some(Cost::dollars(0.25)),
        }),
        Edit::EndTurn { milliseconds: 1500 },
    ]
}

fn through_file(notebook: &Notebook) -> Notebook {
    let loaded = Notebook::read(notebook.to_json().as_bytes(), &mut || "new".to_owned()).unwrap();
    assert_eq!(loaded.warnings, []);
    loaded.notebook
}

fn reopened(notebook: &Notebook) -> Opened {
    open(through_file(notebook), OutputLimits::default())
}

#[test]
fn a_compacted_session_comes_back_as_short_as_it_was() {
    let measures = [
        Measure::Outputs,
        Measure::Summary {
            by: Writer::Model,
            work: "looked\n```\nfenced\n```".to_owned(),
        },
    ];
    let mut session = session();
    for (number, measure) in measures.into_iter().enumerate() {
        let whole = context::messages(&session, "run_code", BUDGET);
        session
            .apply(Edit::Compact {
                cell: format!("compact{number}"),
                text: "# What was said\n1. why?".to_owned(),
                compaction: Compaction {
                    through: "read".to_owned(),
                    measure,
                    before: 900,
                    after: 100,
                },
            })
            .unwrap();
        let notebook = render(&session);
        assert_eq!(crate::jupyter::nbformat::validate(&notebook), []);
        let Opened { transcript, .. } = reopened(&notebook);
        let short = context::messages(&session, "run_code", BUDGET);
        assert_ne!(short, whole);
        assert_eq!(context::messages(&transcript, "run_code", BUDGET), short);
        assert_eq!(render(&transcript), notebook);
    }
    // Compacting through a cell that does not exist changes nothing.
    let before = context::messages(&session, "run_code", BUDGET);
    let nothing = Compaction {
        through: "nothing".to_owned(),
        measure: Measure::Outputs,
        before: 0,
        after: 0,
    };
    let refused = session.apply(Edit::Compact {
        cell: "more".to_owned(),
        text: String::new(),
        compaction: nothing,
    });
    assert!(refused.is_err());
    assert_eq!(context::messages(&session, "run_code", BUDGET), before);
    // After undoing the compaction, the model is told everything again.
    session
        .apply(Edit::TakeBack {
            cell: "compact0".to_owned(),
        })
        .unwrap();
    assert!(context::messages(&session, "run_code", BUDGET).len() > before.len());
}

#[test]
fn a_session_comes_back_as_the_conversation_it_was() {
    let session = session();
    let notebook = render(&session);
    assert_eq!(crate::jupyter::nbformat::validate(&notebook), []);
    let Opened {
        transcript,
        changes,
        is_foreign,
    } = reopened(&notebook);
    assert_eq!((changes, is_foreign), (vec![], false));
    assert_eq!(
        context::messages(&transcript, "run_code", BUDGET),
        context::messages(&session, "run_code", BUDGET)
    );
    assert_eq!(
        (
            transcript.last_step(),
            transcript.spent(),
            transcript.model()
        ),
        (7, session.spent(), Some("local/test"))
    );
    assert_eq!(transcript.other_kernels(), session.other_kernels());
    // Opening the file does not change it.
    assert_eq!(render(&transcript).to_json(), notebook.to_json());
}

#[test]
fn what_others_did_is_named_and_stays() {
    let mut notebook = render(&session());
    let at = |notebook: &Notebook, id: &str| {
        notebook
            .cells
            .iter()
            .position(|cell| cell.id == id)
            .unwrap()
    };
    let good = at(&notebook, "good");
    notebook.cells[good].source = "run(\"best\")".to_owned();
    notebook.cells[good]
        .metadata
        .insert("tags".to_owned(), json!(["mine"]));
    notebook.cells[good]
        .metadata
        .insert("collapsed".to_owned(), json!(true));
    let end = at(&notebook, "end");
    notebook.cells.remove(end);
    let broken = at(&notebook, "broken");
    notebook.cells.remove(broken);
    let mut copy = notebook.cells[at(&notebook, "ask")].clone();
    copy.id = "copy".to_owned();
    notebook.cells.insert(2, copy);
    let mut own = FileCell::code("own", "mine()");
    own.metadata.insert("tags".to_owned(), json!(["x"]));
    notebook.cells.insert(0, own);
    notebook
        .metadata
        .insert("widgets".to_owned(), json!({"a": [1]}));
    let Opened {
        transcript,
        changes,
        ..
    } = reopened(&notebook);
    let edited = |id: &str| Change::Edited {
        id: id.to_owned(),
        source: true,
        outputs: false,
    };
    let added = |id: &str| Change::Added { id: id.to_owned() };
    let deleted = |id: &str| Change::Deleted { id: id.to_owned() };
    assert_eq!(
        changes,
        [
            added("own"),
            added("copy"),
            edited("good"),
            deleted("broken"),
            deleted("end")
        ]
    );
    assert_eq!(
        words(&changes, &transcript),
        "The user changed the notebook outside of this conversation. The cells above are the current version; changed \
         code has not been rerun in this kernel.\n\
         - A code cell was added. It is now:\nmine()\n\
         - A text cell was added. It is now:\nwhy?\n\
         - A code cell of yours was changed. It is now:\nrun(\"best\")\n\
         - 2 cells were deleted."
    );
    let again = render(&transcript);
    assert_eq!(marks::changes(&again), []);
    let metadata = |notebook: &Notebook, id: &str| {
        let mut metadata = notebook.cells[at(notebook, id)].metadata.clone();
        metadata.shift_remove("sponde");
        Value::Object(metadata)
    };
    for id in ["own", "good", "no", "shell"] {
        assert_eq!(metadata(&again, id), metadata(&notebook, id), "{id}");
    }
    assert_eq!(again.metadata["widgets"], json!({"a": [1]}));
}

#[test]
fn a_foreign_notebook_is_the_persons_and_stays_as_it_is() {
    let text = include_str!("tests/foreign.ipynb");
    let loaded = Notebook::read(text.as_bytes(), &mut || "new".to_owned()).unwrap();
    let before = loaded.notebook.to_json();
    let Opened {
        mut transcript,
        changes,
        is_foreign,
    } = open(loaded.notebook, OutputLimits::default());
    assert_eq!((changes, is_foreign), (vec![], true));
    let ours = |transcript: &Transcript| {
        let mut notebook = render(transcript);
        notebook.metadata.shift_remove("sponde");
        notebook
    };
    assert_eq!(ours(&transcript).to_json(), before);
    // The session goes on; the existing cells stay there byte for byte.
    let say = Edit::Say {
        cell: "ask".to_owned(),
        text: "why?".to_owned(),
    };
    transcript.apply(say).unwrap();
    let mut grown = render(&transcript);
    let again = reopened(&grown);
    assert_eq!((again.changes, again.is_foreign), (vec![], true));
    grown.cells.pop();
    grown.metadata.shift_remove("sponde");
    assert_eq!(grown.to_json(), before);
    // Later changes by the person are detected.
    let mut changed = render(&transcript);
    changed.cells[1].source.push('!');
    changed.cells.remove(0);
    assert_eq!(
        reopened(&changed).changes,
        [
            Change::Edited {
                id: "code".to_owned(),
                source: true,
                outputs: false
            },
            Change::Deleted {
                id: "title".to_owned()
            },
        ]
    );
}

#[test]
fn a_file_that_changed_under_us_is_merged() {
    let mut ours = session();
    // The person has the earlier notebook; meanwhile the session went on.
    let mut theirs = render(&ours);
    let at = |notebook: &Notebook, id: &str| {
        notebook
            .cells
            .iter()
            .position(|cell| cell.id == id)
            .unwrap()
    };
    let later = Edit::Say {
        cell: "later".to_owned(),
        text: "and now?".to_owned(),
    };
    ours.apply(later).unwrap();
    let waits = Edit::Propose {
        cell: "waits".to_owned(),
        author: Author::Person,
        language: None,
        source: "1".to_owned(),
    };
    ours.apply(waits).unwrap();
    let good = at(&theirs, "good");
    theirs.cells[good].source = "run(\"best\")".to_owned();
    for id in ["no", "end"] {
        let gone = at(&theirs, id);
        theirs.cells.remove(gone);
    }
    theirs.cells.push(FileCell::markdown("added", "text"));
    ours.apply(Edit::Reload(Box::new(through_file(&theirs))))
        .unwrap();
    let ids: Vec<&str> = ours.cells().iter().map(|cell| &*cell.id).collect();
    assert_eq!(
        ids,
        [
            "note", "ask", "say", "good", "broken", "dead", "shell", "read", "added", "later",
            "waits"
        ]
    );
    assert_eq!(ours.cell("good").unwrap().source, "run(\"best\")");
    assert_eq!(
        ours.code("good").unwrap().original.as_deref(),
        Some("run(\"good\")")
    );
    assert_eq!(ours.code("waits").unwrap().status, CodeStatus::Proposed);
    assert_eq!(marks::changes(&render(&ours)), []);
}
