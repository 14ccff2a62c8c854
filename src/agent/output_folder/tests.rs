//! The content of the files, and links that are not followed.

use serde_json::Map;

use super::*;
use crate::jupyter::content::{ErrorContent, Stream};
use crate::session::OutputLimits;

const LIMITS: OutputLimits = OutputLimits {
    cell_text: 400,
    cell_rich: 4000,
    cell_outputs: 20,
    cell_images: 4,
    session: 100_000,
    files: 10_000,
};

fn text(text: &str) -> OutputEvent {
    OutputEvent::Stream(Stream {
        name: "stdout".to_owned(),
        text: text.to_owned(),
    })
}

fn display(data: MimeBundle, id: Option<&str>) -> OutputEvent {
    OutputEvent::Display {
        data,
        metadata: Map::new(),
        display_id: id.map(str::to_owned),
    }
}

/// A cell and its files.
struct Bench {
    dir: tempfile::TempDir,
    folder: OutputFolder,
    outputs: Outputs,
}

impl Bench {
    fn new(files: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = OutputFolder::beside(&dir.path().join("a.ipynb"), dir.path(), files);
        Self {
            dir,
            folder,
            outputs: Outputs::default(),
        }
    }

    fn take(&mut self, event: &OutputEvent) {
        let limits = LIMITS.of_cell(0);
        self.outputs.apply(event);
        let over = self.outputs.is_over(&limits);
        let (is_cut, all) = (self.outputs.is_cut(), over.then_some(&self.outputs));
        if let Some(whole) = self.folder.take("c/1", is_cut, all, event) {
            self.outputs.cut(&limits, whole);
        }
    }

    /// Names and contents.
    fn files(&self) -> Vec<(String, String)> {
        let dir = self.dir.path().join("a.outputs/c1");
        let Ok(entries) = std::fs::read_dir(dir) else {
            return Vec::new();
        };
        let mut files: Vec<_> = entries
            .map(|entry| {
                let entry = entry.unwrap();
                let name = entry.file_name().into_string().unwrap();
                (
                    name,
                    String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap()).into_owned(),
                )
            })
            .collect();
        files.sort();
        files
    }

    fn files_are(&self, expected: &[(&str, &str)]) {
        let expected: Vec<_> = expected
            .iter()
            .map(|&(name, content)| (name.to_owned(), content.to_owned()))
            .collect();
        assert_eq!(self.files(), expected);
    }
}

#[test]
fn a_cell_under_its_limits_writes_nothing() {
    let mut bench = Bench::new(10_000);
    bench.take(&text("a\n"));
    bench.take(&display(MimeBundle::text("b"), None));
    bench.folder.close("c/1");
    assert_eq!(std::fs::read_dir(bench.dir.path()).unwrap().count(), 0);
    assert_eq!(bench.outputs.whole(), &Whole::Here);
}

#[test]
fn everything_from_the_first_byte_is_in_the_files() {
    let mut bench = Bench::new(1_000_000);
    bench.take(&text("start\n10%\r"));
    bench.take(&display(MimeBundle::text("plain"), None));
    bench.take(&display(
        MimeBundle::png(b"png").with("text/html", "<b>"),
        Some("d"),
    ));
    let mut all = "start\n10%".to_owned();
    for n in 0..100 {
        let line = format!("\nline {n}");
        all.push_str(&line);
        bench.take(&text(&line));
    }
    // A redrawn progress bar leaves its last state.
    for percent in 0..10_000 {
        bench.take(&text(&format!("\r{percent}")));
    }
    let end = all.rfind('\n').unwrap() + 1;
    all.replace_range(end.., "9999");
    let new = MimeBundle::png(b"new");
    bench.take(&OutputEvent::Update {
        data: new,
        metadata: Map::new(),
        display_id: "d".to_owned(),
    });
    bench.take(&display(MimeBundle::text("late"), None));
    bench.take(&OutputEvent::Error(ErrorContent {
        ename: "E".to_owned(),
        evalue: "v".to_owned(),
        traceback: vec!["t1".to_owned(), "t2".to_owned()],
    }));
    bench.folder.close("c/1");
    bench.files_are(&[
        ("1.html", "<b>"),
        ("1.png", "new"),
        ("displays.txt", "plain\nlate\n"),
        ("error.txt", "t1\nt2\n"),
        ("stdout.txt", &all),
    ]);
    let place = OutputFolderPath {
        beside_notebook: "a.outputs/c1".to_owned(),
        for_code: "a.outputs/c1".to_owned(),
    };
    assert_eq!(bench.outputs.whole(), &Whole::Files(place));
    assert_eq!(bench.folder.trouble(), None);
}

#[test]
fn cleared_outputs_take_their_files_with_them() {
    let mut bench = Bench::new(10_000);
    for _ in 0..20 {
        bench.take(&text(&"x".repeat(5000)));
        bench.take(&OutputEvent::Clear { wait: true });
    }
    bench.take(&text("end\n"));
    bench.folder.close("c/1");
    assert_eq!(std::fs::read_dir(bench.dir.path()).unwrap().count(), 0);
    assert_eq!((bench.folder.left, bench.folder.trouble()), (10_000, None));
}

#[test]
fn files_are_bounded_and_what_is_missing_is_told_once() {
    let mut bench = Bench::new(10_000);
    for _ in 0..100 {
        bench.take(&text(&("x".repeat(499) + "\n")));
    }
    assert_eq!(
        bench.folder.trouble().as_deref(),
        Some(
            "large outputs are not kept whole in `a.outputs/c1`: the limit for files of a session is reached"
        )
    );
    bench.take(&text("more\n"));
    assert_eq!(bench.folder.trouble(), None);
    assert!(matches!(bench.outputs.whole(), Whole::Partly(..)));
    assert_eq!(bench.files()[0].1.len(), 10_000);
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let mut bench = Bench::new(10_000);
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), bench.dir.path().join("a.outputs")).unwrap();
    bench.take(&text(&"x\n".repeat(500)));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(
        bench.outputs.whole(),
        &Whole::Nowhere(Some("the folder is a link or a file".to_owned()))
    );
    assert!(bench.folder.trouble().is_some());
    // A link to a file.
    let mut bench = Bench::new(10_000);
    let dir = bench.dir.path().join("a.outputs/c1");
    std::fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("f"), dir.join("stdout.txt")).unwrap();
    bench.take(&text(&"x\n".repeat(500)));
    assert!(!elsewhere.path().join("f").exists());
    assert!(matches!(bench.outputs.whole(), Whole::Nowhere(Some(_))));
}

#[test]
fn files_are_not_removed_through_a_link() {
    let mut bench = Bench::new(10_000);
    bench.take(&text(&"x\n".repeat(500)));
    let dir = bench.dir.path().join("a.outputs");
    let elsewhere = tempfile::tempdir().unwrap();
    let theirs = elsewhere.path().join("c1/stdout.txt");
    std::fs::create_dir(elsewhere.path().join("c1")).unwrap();
    std::fs::write(&theirs, "theirs").unwrap();
    assert!(dir.join("c1/stdout.txt").is_file());
    std::fs::rename(&dir, bench.dir.path().join("old")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &dir).unwrap();
    bench.folder.cells.remove("c/1").unwrap().remove(&mut 0);
    assert!(theirs.exists());
}

#[test]
fn without_a_notebook_nothing_is_written() {
    let mut folder = OutputFolder::none();
    let mut outputs = Outputs::default();
    outputs.apply(&text(&"x".repeat(5000)));
    assert_eq!(
        folder.take("c", outputs.is_cut(), Some(&outputs), &text("")),
        Some(Whole::Nowhere(None))
    );
}
