//! Files of a session, in a directory of their own.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Map;

use super::*;
use crate::jupyter::content::Stream;
use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::{Cell, CellType, Output, random_cell_id, validate};
use crate::kernel::{OutputEvent, Verdict};
use crate::llm::types::{Cost, Native, Usage};
use crate::session::journal::{KernelChoice, VERSION};
use crate::session::limits::Whole;
use crate::session::transcript::{Author, Spent};
use crate::session::{CodeStatus, OutputLimits};

impl Store {
    fn journal_mut(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }
}

const NOW: &str = "2026-11-22T00:00:00Z";

fn begin(dir: &Path, id: &str) -> Begin {
    Begin {
        version: VERSION,
        id: id.to_owned(),
        at: NOW.to_owned(),
        cwd: dir.to_owned(),
        notebook: dir.join(format!("{id}.ipynb")),
        kernel: KernelChoice::default(),
        forked_from: None,
        sandbox: None,
        databases: Vec::new(),
    }
}

/// A session, and a transcript beside it.
struct Session {
    dir: PathBuf,
    store: Store,
    transcript: Transcript,
}

impl Session {
    fn new(dir: &Path) -> Self {
        let opened = Opened::new(dir, begin(dir, "s"), OutputLimits::default());
        Self::of(dir, opened)
    }

    fn open(dir: &Path) -> Self {
        let opened = Opened::open(dir, "s", OutputLimits::default(), NOW).unwrap();
        Self::of(dir, opened)
    }

    fn of(dir: &Path, opened: Opened) -> Self {
        Self {
            dir: dir.to_owned(),
            store: opened.store,
            transcript: opened.transcript,
        }
    }

    fn edit(&mut self, edit: Edit) {
        self.store.log(&edit);
        self.transcript.apply(edit).unwrap();
    }

    fn say(&mut self, cell: &str) {
        self.edit(Edit::Say {
            cell: cell.to_owned(),
            text: format!("question {cell}"),
        });
    }

    fn emit(&mut self, cell: &str, output: OutputEvent) {
        let cell = cell.to_owned();
        self.edit(Edit::Emit { cell, output });
    }

    fn print(&mut self, cell: &str, text: &str) {
        self.emit(
            cell,
            OutputEvent::Stream(Stream {
                name: "stdout".to_owned(),
                text: text.to_owned(),
            }),
        );
    }

    /// A cell that has run and printed its name.
    fn run(&mut self, cell: &str) {
        self.edit(Edit::Propose {
            cell: cell.to_owned(),
            author: Author::Person,
            language: None,
            source: format!("print('{cell}')"),
        });
        self.print(cell, &format!("{cell}\n"));
        self.edit(Edit::Finish {
            cell: cell.to_owned(),
            status: CodeStatus::Finished(Verdict::Ok),
            at: NOW.to_owned(),
        });
    }

    fn save(&mut self) -> Outcome {
        let change = self.store.change(&self.transcript, false, true);
        let mut outcome = self.store.save(&change);
        if outcome == Outcome::WantsAll {
            let change = self.store.change(&self.transcript, true, true);
            outcome = self.store.save(&change);
        }
        if matches!(outcome, Outcome::Saved(_)) {
            self.transcript.settle();
        }
        outcome
    }

    fn assert_saved(&mut self) {
        assert_eq!(self.save(), Outcome::Saved(None));
        self.assert_is_whole();
    }

    /// Asserts that the file equals a full rewrite, byte for byte.
    fn assert_is_whole(&self) {
        let mut expected = crate::session::notebook::render(&self.transcript);
        mark(&mut expected, "s");
        assert_eq!(validate(&expected), []);
        let found = std::fs::read_to_string(self.dir.join("s.ipynb")).unwrap();
        assert!(found == expected.to_json(), "{found}");
    }

    fn first_written(&self) -> usize {
        self.store.change(&self.transcript, false, false).first
    }

    fn journal(&self) -> PathBuf {
        self.dir.join("s.journal")
    }
}

#[test]
fn in_place_and_whole_are_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.assert_saved();
    for number in 0..30 {
        session.run(&format!("c{number}"));
        assert_eq!(session.first_written(), number + 1);
        session.assert_saved();
    }
    // Only the metadata changed, and became shorter.
    session.edit(Edit::SetModel("a/long-name".to_owned()));
    session.assert_saved();
    session.edit(Edit::SetModel("b".to_owned()));
    assert_eq!(session.first_written(), 31);
    session.assert_saved();
    // An earlier cell.
    session.edit(Edit::Hint {
        cell: "c3".to_owned(),
        text: "look".to_owned(),
    });
    assert_eq!(session.first_written(), 4);
    session.assert_saved();
    // The first cell has no comma before it.
    session.edit(Edit::AddKernel(
        crate::session::transcript::KernelIdentity {
            name: "r".to_owned(),
            display_name: "R".to_owned(),
            language: "r".to_owned(),
            language_info: Map::new(),
        },
    ));
    assert_eq!(session.first_written(), 0);
    session.assert_saved();
    // Cells written before this process started can only be appended to.
    session.store.close(NOW.to_owned());
    drop(session);
    let mut session = Session::open(dir.path());
    session.run("d0");
    assert_eq!(session.first_written(), 31);
    session.assert_saved();
    session.edit(Edit::Hint {
        cell: "c5".to_owned(),
        text: "look".to_owned(),
    });
    assert_eq!(session.first_written(), 0);
    session.assert_saved();
}

#[test]
fn a_change_far_up_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    for cell in ["a", "b"] {
        session.run(cell);
        let picture = OutputEvent::Display {
            data: MimeBundle::png(&vec![7; 900_000]),
            metadata: Map::new(),
            display_id: Some(cell.to_owned()),
        };
        session.emit(cell, picture);
        session.assert_saved();
    }
    session.run("c");
    session.assert_saved();
    let update = OutputEvent::Update {
        data: MimeBundle::text("done"),
        metadata: Map::new(),
        display_id: "a".to_owned(),
    };
    session.emit("c", update);
    assert_eq!(session.first_written(), 0);
    session.assert_saved();
}

#[test]
fn a_session_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    // Nothing worth a file.
    session.edit(Edit::SetModel("m".to_owned()));
    assert_eq!(session.save(), Outcome::Saved(None));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    session.say("u");
    session.run("a");
    session.assert_saved();
    let mode = std::fs::metadata(session.journal()).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    // Killed before saving, with half a line written.
    session.run("b");
    assert_eq!(session.store.flush(), Outcome::Saved(None));
    let pid = std::process::id();
    let taken = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap_err();
    assert_eq!(
        taken.to_string(),
        format!("session `s` is open in another process ({pid})")
    );
    let before = session.transcript.clone();
    drop(session);
    let session = Session::open(dir.path());
    assert_eq!(session.transcript, before);
}

#[test]
fn what_was_cut_off_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.run("a");
    session.assert_saved();
    session.edit(Edit::AppendText {
        cell: "t".to_owned(),
        step: 1,
        text: "let me".to_owned(),
    });
    for cell in ["r", "p"] {
        session.edit(Edit::Propose {
            cell: cell.to_owned(),
            author: Author::Person,
            language: None,
            source: "1".to_owned(),
        });
    }
    session.edit(Edit::Start {
        cell: "r".to_owned(),
        at: NOW.to_owned(),
    });
    assert_eq!(session.store.flush(), Outcome::Saved(None));
    let mut bytes = std::fs::read(session.journal()).unwrap();
    let good = bytes.len();
    drop(session);
    bytes.extend_from_slice(b"12345678 {\"edit\":");
    std::fs::write(dir.path().join("s.journal"), &bytes).unwrap();
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    let expected = Mended {
        was_killed: true,
        torn: true,
        running: Some("r".to_owned()),
        ..Mended::default()
    };
    assert_eq!(opened.mended, expected);
    let status = |cell: &str| opened.transcript.code(cell).unwrap().status.clone();
    assert_eq!(status("r"), CodeStatus::Finished(Verdict::Interrupted));
    assert!(matches!(status("p"), CodeStatus::NotRun(_)));
    let mut session = Session::of(dir.path(), opened);
    session.assert_saved();
    let bytes = std::fs::read(session.journal()).unwrap();
    assert!(!bytes[good..].starts_with(b"12345678"));
    // The repaired state is found again.
    let before = session.transcript.clone();
    session.store.close(NOW.to_owned());
    drop(session);
    let again = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert_eq!(again.mended, Mended::default());
    assert_eq!(again.transcript, before);
}

#[test]
fn what_another_program_wrote_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.ipynb");
    let mut session = Session::new(dir.path());
    session.say("u");
    session.assert_saved();
    let theirs = std::fs::read_to_string(&path)
        .unwrap()
        .replace("question", "remark");
    std::fs::write(&path, &theirs).unwrap();
    session.run("a");
    let aside = dir.path().join("s.changed-1.ipynb");
    let Outcome::Saved(Some(words)) = session.save() else {
        panic!("it was changed without a word")
    };
    assert!(words.contains(&*aside.to_string_lossy()), "{words}");
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), theirs);
    session.assert_is_whole();
    // The file was removed, and moved away: it is written again.
    std::fs::remove_file(&path).unwrap();
    session.run("b");
    session.assert_saved();
    session.store.close(NOW.to_owned());
    drop(session);
    // While no process had it open.
    std::fs::write(&path, &theirs).unwrap();
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert!(opened.mended.notebook_changed);
    let mut session = Session::of(dir.path(), opened);
    session.run("c");
    assert!(matches!(session.save(), Outcome::Saved(Some(_))));
    session.assert_is_whole();
    let second = dir.path().join("s.changed-2.ipynb");
    assert_eq!(std::fs::read_to_string(second).unwrap(), theirs);
    session.store.close(NOW.to_owned());
    drop(session);
    // Another modification time with the same content is not a change.
    let text = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, text).unwrap();
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert_eq!(opened.mended, Mended::default());
}

#[test]
fn a_file_that_we_left_half_written_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.ipynb");
    let mut session = Session::new(dir.path());
    session.say("u");
    session.assert_saved();
    session.run("a");
    session.store.note(&Entry::Extending { from: 100 });
    assert_eq!(session.store.flush(), Outcome::Saved(None));
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..120]).unwrap();
    drop(session);
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert!(!opened.mended.notebook_changed);
    let mut session = Session::of(dir.path(), opened);
    session.assert_saved();
    assert!(!dir.path().join("s.changed-1.ipynb").exists());
}

#[test]
fn a_link_or_pipe_in_the_place_of_the_notebook_is_another_file() {
    for kind in ["link", "pipe"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.ipynb");
        let mut session = Session::new(dir.path());
        session.say("u");
        session.assert_saved();
        session.run("a");
        session.store.note(&Entry::Extending { from: 100 });
        assert_eq!(session.store.flush(), Outcome::Saved(None));
        drop(session);
        let elsewhere = dir.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        if kind == "link" {
            std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        } else {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .unwrap();
        }
        let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
        assert!(opened.mended.notebook_changed, "{kind}");
    }
}

#[test]
fn a_journal_of_much_that_is_gone_gets_short_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.run("a");
    let much = "x".repeat(1 << 16);
    for _ in 0..70 {
        session.emit("a", OutputEvent::Clear { wait: false });
        session.emit(
            "a",
            OutputEvent::Stream(Stream {
                name: "stdout".to_owned(),
                text: much.clone(),
            }),
        );
        assert_eq!(session.store.flush(), Outcome::Saved(None));
    }
    session.store.note(&Entry::Title("mine".to_owned()));
    session.assert_saved();
    let length = std::fs::metadata(session.journal()).unwrap().len();
    assert!(length < 1 << 18, "{length}");
    let before = session.transcript.clone();
    session.run("b");
    session.assert_saved();
    drop(session);
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert_eq!(opened.transcript.cells()[..2], *before.cells());
    assert_eq!(opened.store.summary.title.as_deref(), Some("mine"));
}

/// Most of the output is kept nowhere, not even in the journal; and the process may be killed at any time.
#[test]
fn a_journal_stays_short_while_a_cell_prints() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.run("a");
    session.assert_saved();
    session.edit(Edit::Propose {
        cell: "b".to_owned(),
        author: Author::Person,
        language: None,
        source: "while True: print('x')".to_owned(),
    });
    session.edit(Edit::Start {
        cell: "b".to_owned(),
        at: NOW.to_owned(),
    });
    let limits = OutputLimits {
        cell_text: 1 << 10,
        ..OutputLimits::default()
    };
    session.transcript = {
        let mut limited = Transcript::new(limits);
        for edit in session.transcript.snapshot() {
            limited.apply(edit).unwrap();
        }
        limited
    };
    let much = "x".repeat(1 << 16);
    for number in 0..70 {
        session.print("b", &much);
        session.edit(Edit::Cut {
            cell: "b".to_owned(),
            whole: Whole::Nowhere(None),
        });
        session.print("b", &format!("\n{number}\n"));
        let kept = match session.store.outgrown(&session.transcript) {
            Some(lines) => session.store.rewrite(&lines),
            None => session.store.flush(),
        };
        assert_eq!(kept, Outcome::Saved(None));
        let length = std::fs::metadata(session.journal()).unwrap().len();
        assert!(length < 2 * SPARE + (1 << 18), "{length}");
    }
    let before = session.transcript.code("b").unwrap().outputs.clone();
    drop(session);
    let opened = Opened::open(dir.path(), "s", limits, NOW).unwrap();
    let expected = Mended {
        was_killed: true,
        running: Some("b".to_owned()),
        ..Mended::default()
    };
    assert_eq!(opened.mended, expected);
    assert_eq!(opened.transcript.code("b").unwrap().outputs, before);
    let mut session = Session::of(dir.path(), opened);
    session.assert_saved();
}

/// The outputs of somebody else's notebook are in the journal, but not in the limits.
#[test]
fn a_large_notebook_is_in_the_journal_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut cell = Cell::code("theirs", "print('x' * 10**6 * 5)");
    cell.kind = CellType::Code {
        execution_count: Some(1),
        outputs: vec![Output::stream("stdout", "x".repeat(5 << 20))],
    };
    let mut notebook = Notebook::new();
    notebook.cells.push(cell);
    std::fs::write(dir.path().join("s.ipynb"), notebook.to_json()).unwrap();
    let transcript = crate::session::open::open(notebook, OutputLimits::default()).transcript;
    assert_eq!(transcript.bytes(), 0);
    let opened = Opened::continuing(dir.path(), begin(dir.path(), "s"), transcript);
    let mut session = Session::of(dir.path(), opened);
    session.say("u");
    for cell in ["a", "b"] {
        session.run(cell);
        let change = session.store.change(&session.transcript, false, false);
        assert!(change.journal.is_none());
        assert_eq!(session.save(), Outcome::Saved(None));
    }
    let length = std::fs::metadata(session.journal()).unwrap().len();
    assert!(length > 2 * SPARE, "{length}");
}

/// A disk that stays full for hours.
#[test]
fn what_waits_for_a_full_disk_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.run("a");
    session.assert_saved();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut failed = 0;
    session.store.journal_mut().file.stand_in(full);
    for _ in 0..100 {
        session.print("a", &"x".repeat(1 << 16));
        failed += usize::from(session.store.flush() != Outcome::Saved(None));
        let journal = session.store.journal_mut();
        assert!(journal.waiting.len() < MOST_WAITING + (1 << 17));
    }
    assert!(failed > 0);
    let journal = session.store.journal_mut();
    assert!(journal.incomplete && journal.waiting.is_empty() && journal.last.is_none());
    // There is space again: nothing is missing.
    let words = "the session is saved again".to_owned();
    assert_eq!(session.save(), Outcome::Saved(Some(words)));
    session.run("b");
    session.assert_saved();
    let before = session.transcript.clone();
    drop(session);
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert_eq!(opened.transcript, before);
}

#[test]
fn somebody_removed_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.assert_saved();
    std::fs::remove_file(session.journal()).unwrap();
    session.run("a");
    session.assert_saved();
    let before = session.transcript.clone();
    drop(session);
    let opened = Opened::open(dir.path(), "s", OutputLimits::default(), NOW).unwrap();
    assert_eq!(opened.transcript, before);
}

#[test]
fn a_fork_begins_as_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(dir.path());
    session.say("u");
    session.run("a");
    let cost = Usage {
        cost: Some(Cost::dollars(2.0)),
        ..Usage::default()
    };
    session.edit(Edit::SetModel("a/one".to_owned()));
    session.edit(Edit::Spend(cost));
    session.run("b");
    let reply = Native::new("undone".into());
    for step in [1, 2] {
        session.edit(Edit::AppendText {
            cell: format!("answer-{step}"),
            step,
            text: "so".to_owned(),
        });
        session.edit(Edit::Keep {
            step,
            native: reply.clone(),
        });
    }
    session.edit(Edit::SetModel("b/two".to_owned()));
    session.assert_saved();
    let fork = Fork {
        from: "s",
        cells: Some(2),
        id: "f",
        at: NOW,
    };
    let forked = Opened::fork(dir.path(), fork, OutputLimits::default()).unwrap();
    let Opened {
        store,
        transcript: forked,
        ..
    } = forked;
    drop(store);
    assert_eq!(forked.cells(), &session.transcript.cells()[..2]);
    // `--max-cost` starts from zero.
    assert_eq!(forked.spent(), Spent::default());
    assert_eq!(forked.models(), [("a/one".to_owned(), 1)]);
    assert_eq!(forked.native(1), None);
    let opened = Opened::open(dir.path(), "f", OutputLimits::default(), NOW).unwrap();
    assert_eq!(opened.begin.forked_from.as_deref(), Some("s"));
    assert_eq!(opened.transcript.cells(), &session.transcript.cells()[..2]);
    let text = std::fs::read(dir.path().join("f.ipynb")).unwrap();
    let notebook = Notebook::read(&text, &mut random_cell_id).unwrap().notebook;
    assert_eq!(validate(&notebook), []);
}
