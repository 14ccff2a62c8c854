//! Finding, naming and removing sessions.

use super::*;
use crate::agent::store::Opened;
use crate::session::journal::{KernelChoice, VERSION};
use crate::session::{Edit, OutputLimits};

const NOW: &str = "2026-11-22T00:00:00Z";

fn make(dir: &Path, id: &str, question: &str, closed: bool) {
    let begin = Begin {
        version: VERSION,
        id: id.to_owned(),
        at: NOW.to_owned(),
        cwd: dir.to_owned(),
        notebook: dir.join(format!("{id}.ipynb")),
        kernel: KernelChoice::default(),
        forked_from: None,
        sandbox: None,
        databases: Vec::new(),
    };
    let mut opened = Opened::new(dir, begin, OutputLimits::default());
    let edit = Edit::Say {
        cell: "u".to_owned(),
        text: question.to_owned(),
    };
    opened.store.log(&edit);
    opened.transcript.apply(edit).unwrap();
    let change = opened.store.change(&opened.transcript, true, false);
    opened.store.save(&change);
    if closed {
        opened.store.close(NOW.to_owned());
    }
}

#[test]
fn sessions_are_found_by_what_a_person_types() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, "20261121-k7m2", "Why is revenue falling?", true);
    make(dir, "20261122-k7mx", "plot\n  the rain", false);
    std::fs::remove_file(dir.join("20261121-k7m2.ipynb")).unwrap();
    std::fs::copy(
        dir.join("20261122-k7mx.ipynb"),
        dir.join("0192-aaaa-abcdef.ipynb"),
    )
    .unwrap();
    rename(dir, "20261121-k7m2", "Revenue").unwrap();
    let all = list(dir);
    let mut seen: Vec<(&str, Option<&str>, bool)> = all
        .iter()
        .map(|it| (&*it.id, it.summary.name(), it.closed))
        .collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [
            ("0192-aaaa-abcdef", Some("plot the rain"), true),
            ("20261121-k7m2", Some("Revenue"), true),
            ("20261122-k7mx", Some("plot the rain"), false),
        ]
    );
    let id = |wanted: &str| find(&all, wanted).map(|found| &*found.id);
    assert_eq!(id("k7m2"), Ok("20261121-k7m2"));
    assert_eq!(id("20261122"), Ok("20261122-k7mx"));
    assert_eq!(id("reven"), Ok("20261121-k7m2"));
    let path = dir.join("20261122-k7mx.ipynb");
    assert_eq!(id(path.to_str().unwrap()), Ok("20261122-k7mx"));
    assert_eq!(id("nothing"), Err(FindError::None("nothing".to_owned())));
    assert!(matches!(id("k7"), Err(FindError::Several { ids, .. }) if ids.len() == 2));
    assert_eq!(short("20261121-k7m2", &all), "k7m2");
    assert_eq!(short("0192-aaaa-abcdef", &all), "abcd");
}

#[test]
fn a_new_title_is_no_news() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, "a", "one", true);
    make(dir, "b", "two", true);
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for file in ["a.journal", "a.ipynb"] {
        let file = File::options().append(true).open(dir.join(file)).unwrap();
        file.set_modified(old).unwrap();
    }
    let before = look(dir, "a").unwrap().modified;
    rename(dir, "a", "the first").unwrap();
    let all = list(dir);
    let ids: Vec<&str> = all.iter().map(|found| &*found.id).collect();
    assert_eq!((ids, all[1].modified), (vec!["b", "a"], before));
    assert_eq!(all[1].summary.name(), Some("the first"));
}

/// Ids of one day are unordered, and two sessions of the same second are common.
#[test]
fn sessions_of_one_second_are_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let second = std::time::UNIX_EPOCH + std::time::Duration::from_hours(500_000);
    for (id, nanoseconds) in [("z", 1_000), ("m", 3_000), ("a", 2_000)] {
        make(dir, id, "one", true);
        for file in [format!("{id}.journal"), format!("{id}.ipynb")] {
            let file = File::options().append(true).open(dir.join(file)).unwrap();
            let at = second + std::time::Duration::from_nanos(nanoseconds);
            file.set_modified(at).unwrap();
        }
    }
    let ids: Vec<String> = list(dir).into_iter().map(|found| found.id).collect();
    assert_eq!(ids, ["m", "a", "z"]);
}

#[test]
fn the_journal_knows_whether_there_was_a_notebook() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, "a", "one", true);
    assert!(was_saved(dir, "a"));
    let journal = std::fs::read_to_string(dir.join("a.journal")).unwrap();
    let unsaved = journal.lines().filter(|line| !line.contains("\"saved\""));
    let unsaved: String = unsaved.flat_map(|line| [line, "\n"]).collect();
    std::fs::write(dir.join("b.journal"), unsaved).unwrap();
    assert!(!was_saved(dir, "b"));
}

#[test]
fn removing_takes_all_that_is_ours() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, "a", "one", true);
    std::fs::create_dir(dir.join("a.outputs")).unwrap();
    std::fs::write(dir.join("a.outputs/stdout.txt"), "text").unwrap();
    std::fs::create_dir_all(dir.join("a.undone/1")).unwrap();
    std::fs::write(dir.join("a.undone/1/data.csv"), "taken back").unwrap();
    let found = look(dir, "a").unwrap();
    assert_eq!(remove(dir, dir, &found).unwrap(), found.bytes);
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
    // A notebook that the person keeps elsewhere stays.
    let elsewhere = tempfile::tempdir().unwrap();
    make(dir, "b", "two", true);
    let found = Found {
        notebook: elsewhere.path().join("mine.ipynb"),
        ..look(dir, "b").unwrap()
    };
    std::fs::write(&found.notebook, "{}").unwrap();
    remove(dir, dir, &found).unwrap();
    assert!(found.notebook.exists() && !dir.join("b.journal").exists());
}

#[test]
fn a_session_that_is_open_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    make(dir, "a", "one", true);
    let opened = Opened::open(dir, "a", OutputLimits::default(), NOW).unwrap();
    let found = look(dir, "a").unwrap();
    let me = Some(std::process::id());
    assert_eq!(found.open, Some(Holder { pid: me }));
    assert!(matches!(
        remove(dir, dir, &found),
        Err(OpenError::Taken { pid: Some(_), .. })
    ));
    assert!(matches!(
        rename(dir, "a", "x"),
        Err(OpenError::Taken { .. })
    ));
    drop(opened);
    assert_eq!(look(dir, "a").unwrap().open, None);
}
