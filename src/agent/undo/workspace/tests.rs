//! Files as a turn may change them, and restoring them.

use std::fs::FileTimes;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

fn entries(entries: usize) -> Bounds {
    Bounds {
        entries,
        until: None,
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new(bytes: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        let limits = FileLimits {
            bytes,
            ..FileLimits::default()
        };
        let workspace = Workspace::new(
            dir.path().join("w"),
            dir.path().join("store"),
            vec![dir.path().join("w/session.ipynb")],
            limits,
        );
        Self { dir, workspace }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("w").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// All entries of the workspace: permissions and content, or a link's target.
    fn all(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut dirs = vec![self.path("")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let name = path
                    .strip_prefix(self.path(""))
                    .unwrap()
                    .display()
                    .to_string();
                let metadata = std::fs::symlink_metadata(&path).unwrap();
                let mode = metadata.permissions().mode() & 0o777;
                found.push(if metadata.is_symlink() {
                    format!("{name} -> {}", std::fs::read_link(&path).unwrap().display())
                } else if metadata.is_dir() {
                    dirs.push(path.clone());
                    format!("{name}/ {mode:o}")
                } else {
                    format!(
                        "{name} {mode:o} {}",
                        std::fs::read_to_string(&path).unwrap()
                    )
                });
            }
        }
        found.sort();
        found
    }

    fn undo(&self, turns: &[Span]) -> (FilePlan, FilesUndone) {
        let plan = self.workspace.plan(turns);
        let done = self.workspace.apply(&plan, &self.dir.path().join("attic"));
        (plan, done)
    }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[expect(clippy::too_many_lines, reason = "one turn, told in order")]
#[test]
fn what_a_turn_did_is_undone() {
    let mut f = Fixture::new(1 << 20);
    for (path, text) in [
        ("same.txt", "same"),
        ("changed.txt", "old"),
        ("rewritten.txt", "old"),
        ("deleted.txt", "gone?"),
        ("deep/er/deleted.txt", "gone too?"),
        ("mode.sh", "#!/bin/sh"),
        ("becomes-dir", "file"),
        ("d/becomes-file/x", "in dir"),
        (".git/config", "git"),
        ("session.ipynb", "notebook"),
        ("session.journal", "journal"),
    ] {
        f.write(path, text);
    }
    f.mode("mode.sh", 0o755);
    f.mode("changed.txt", 0o600);
    symlink("same.txt", f.path("link")).unwrap();
    symlink("nowhere", f.path("dangling")).unwrap();
    let modified = std::fs::metadata(f.path("changed.txt"))
        .unwrap()
        .modified()
        .unwrap();
    let before = f.all();
    let start = f.workspace.take();
    // Nothing is copied twice.
    assert!(Arc::ptr_eq(&start, &f.workspace.last));
    assert_eq!(f.workspace.bytes(), {
        let texts = [
            "same",
            "old",
            "gone?",
            "gone too?",
            "#!/bin/sh",
            "file",
            "in dir",
        ];
        texts.iter().map(|text| text.len() as u64).sum::<u64>()
    });

    f.write("changed.txt", "new");
    f.mode("changed.txt", 0o644);
    std::fs::remove_file(f.path("rewritten.txt")).unwrap();
    f.write("rewritten.txt", "old");
    std::fs::remove_file(f.path("deleted.txt")).unwrap();
    std::fs::remove_dir_all(f.path("deep")).unwrap();
    f.mode("mode.sh", 0o644);
    std::fs::remove_file(f.path("becomes-dir")).unwrap();
    f.write("becomes-dir/inside", "new");
    std::fs::remove_dir_all(f.path("d/becomes-file")).unwrap();
    f.write("d/becomes-file", "new");
    f.write("made/by/the/turn.txt", "made");
    std::fs::remove_file(f.path("link")).unwrap();
    symlink("deleted.txt", f.path("link")).unwrap();
    std::fs::remove_file(f.path("dangling")).unwrap();
    symlink("/etc", f.path("outside")).unwrap();
    let end = f.workspace.look();
    // Not changed by the turn.
    f.write(".git/config", "changed");
    f.write("session.journal", "longer");
    f.write("person.txt", "mine");

    let (plan, done) = f.undo(&[(start, Some(end))]);
    assert!(plan.lost.is_empty());
    assert_eq!(done.failed, BTreeMap::new());
    assert_eq!(
        done.removed,
        paths(&[
            "outside",
            "made/by/the/turn.txt",
            "made/by/the",
            "made/by",
            "made",
            "becomes-dir/inside",
        ])
    );
    let mut expected = before;
    expected
        .retain(|line| !line.starts_with(".git/config") && !line.starts_with("session.journal"));
    let mut now = f.all();
    let mut others = Vec::new();
    now.retain(|line| {
        let is_other = [".git/config", "session.journal", "person"]
            .iter()
            .any(|name| line.starts_with(name));
        if is_other {
            others.push(line.clone());
        }
        !is_other
    });
    assert_eq!(now, expected);
    assert_eq!(
        others,
        [
            ".git/config 644 changed",
            "person.txt 644 mine",
            "session.journal 644 longer"
        ]
    );
    let again = std::fs::metadata(f.path("changed.txt"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(again, modified);
    // Nothing is lost.
    assert_eq!(done.kept_in, Some(f.dir.path().join("attic")));
    let kept = |path: &str| std::fs::read_to_string(f.dir.path().join("attic").join(path)).unwrap();
    assert_eq!(kept("changed.txt"), "new");
    assert_eq!(kept("made/by/the/turn.txt"), "made");
    assert_eq!(kept("becomes-dir/inside"), "new");
}

#[test]
fn what_a_person_did_between_two_turns_stays() {
    let mut f = Fixture::new(1 << 20);
    f.write("a.txt", "one");
    f.write("b.txt", "one");
    let first = f.workspace.take();
    f.write("a.txt", "two, by the turn");
    let first_end = f.workspace.look();
    f.write("b.txt", "three, by the person");
    f.write("c.txt", "by the person");
    let second = f.workspace.take();
    f.write("c.txt", "four, by the turn");
    f.write("d.txt", "five, by the turn");
    let second_end = f.workspace.look();
    f.write("e.txt", "after");

    let (_, done) = f.undo(&[(first, Some(first_end)), (second, Some(second_end))]);
    assert_eq!(done.restored, paths(&["a.txt", "c.txt"]));
    assert_eq!(done.removed, paths(&["d.txt"]));
    assert_eq!(
        f.all(),
        [
            "a.txt 644 one",
            "b.txt 644 three, by the person",
            "c.txt 644 by the person",
            "e.txt 644 after",
        ]
    );
}

#[test]
fn nothing_outside_is_touched() {
    let mut f = Fixture::new(1 << 20);
    std::fs::create_dir(f.dir.path().join("outside")).unwrap();
    std::fs::write(f.dir.path().join("outside/a.txt"), "outside").unwrap();
    f.write("d/a.txt", "inside");
    let start = f.workspace.take();
    std::fs::remove_dir_all(f.path("d")).unwrap();
    symlink(f.dir.path().join("outside"), f.path("d")).unwrap();
    let (_, done) = f.undo(&[(start, None)]);
    assert_eq!(done.failed, BTreeMap::new());
    assert_eq!(f.all(), ["d/ 755", "d/a.txt 644 inside"]);
    let outside = std::fs::read_to_string(f.dir.path().join("outside/a.txt")).unwrap();
    assert_eq!(outside, "outside");
    let beneath = ConfinedDir::open(&f.path("")).unwrap();
    for path in ["../outside/a.txt", "/etc/passwd", "d/../../x", ".."] {
        assert!(beneath.read(Path::new(path)).is_err(), "{path}");
    }
}

#[test]
fn what_is_too_large_is_named_only_if_it_changed() {
    let mut f = Fixture::new(100);
    f.write("small.txt", "small");
    f.write("large.bin", &"x".repeat(200));
    f.write("other.bin", &"y".repeat(200));
    let start = f.workspace.take();
    assert_eq!(f.workspace.bytes(), 5);
    f.write("small.txt", "changed");
    f.write("large.bin", &"z".repeat(201));
    let (plan, done) = f.undo(&[(start, None)]);
    assert_eq!(
        plan.lost.keys().cloned().collect::<Vec<_>>(),
        paths(&["large.bin"])
    );
    assert_eq!(done.restored, paths(&["small.txt"]));
    assert_eq!(
        std::fs::read_to_string(f.path("large.bin")).unwrap(),
        "z".repeat(201)
    );
}

#[test]
fn a_change_that_leaves_size_and_time_is_seen() {
    let mut f = Fixture::new(1 << 20);
    f.write("a.txt", "one");
    let modified = std::fs::metadata(f.path("a.txt"))
        .unwrap()
        .modified()
        .unwrap();
    let start = f.workspace.take();
    f.write("a.txt", "two");
    let file = std::fs::File::options()
        .write(true)
        .open(f.path("a.txt"))
        .unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    let (_, done) = f.undo(&[(start, None)]);
    assert_eq!(done.restored, paths(&["a.txt"]));
    assert_eq!(f.all(), ["a.txt 644 one"]);
}

#[test]
fn copies_go_when_nobody_needs_them() {
    let mut f = Fixture::new(1 << 20);
    f.write("a.txt", "one");
    let first = f.workspace.take();
    f.write("a.txt", "three");
    let second = f.workspace.take();
    assert_eq!(f.workspace.bytes(), 8);
    f.workspace
        .retain(&[Arc::clone(&first), Arc::clone(&second)]);
    assert_eq!(f.workspace.bytes(), 8);
    f.workspace.retain(&[]);
    assert_eq!(f.workspace.bytes(), 5);
    let store = f.dir.path().join("store");
    assert_eq!(std::fs::read_dir(&store).unwrap().count(), 1);
    drop(f.workspace);
    assert!(!store.exists());
}

#[test]
fn tools_directories_and_too_much_are_not_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    };
    for path in [
        "env/pyvenv.cfg",
        "env/x",
        "target/CACHEDIR.TAG",
        "node_modules/x",
        "a/1",
        "a/2",
        "b/c/1",
    ] {
        write(path);
    }
    let scan = |most| {
        let scan = Scan::of(dir.path(), &|path| path.ends_with("a/2"), entries(most));
        let names: Vec<String> = scan
            .entries
            .keys()
            .map(|path| path.display().to_string())
            .collect();
        (names.join(" "), scan.unseen)
    };
    assert_eq!(scan(100), ("a a/1 b b/c b/c/1".to_owned(), vec![]));
    assert_eq!(scan(4), ("a a/1 b b/c".to_owned(), paths(&["b/c"])));
}

#[test]
fn what_is_taken_out_does_not_go_through_a_link() {
    let mut f = Fixture::new(1 << 20);
    f.write("sub/a", "one");
    let before = f.workspace.take();
    f.write("sub/a", "two");
    let outside = f.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    // The folder itself, and one inside it.
    for link in ["attic", "attic/sub"] {
        let link = f.dir.path().join(link);
        symlink(&outside, &link).unwrap();
        let (_, done) = f.undo(&[(Arc::clone(&before), None)]);
        assert_eq!(done.failed.len(), 1, "{done:?}");
        assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
        assert_eq!(std::fs::read_to_string(f.path("sub/a")).unwrap(), "two");
        std::fs::remove_file(link).unwrap();
        let _ = std::fs::create_dir(f.dir.path().join("attic"));
    }
    let (_, done) = f.undo(&[(before, None)]);
    assert_eq!(done.restored, paths(&["sub/a"]));
}

#[test]
fn a_directory_that_became_a_link_meanwhile_is_not_looked_into() {
    let mut f = Fixture::new(1 << 20);
    f.write("a/sub/file", "mine");
    let outside = f.dir.path().join("outside");
    std::fs::create_dir_all(outside.join("sub")).unwrap();
    std::fs::write(outside.join("sub/file"), "secret").unwrap();
    // After the directory was seen, but before it is scanned.
    let (root, a) = (f.path(""), f.path("a"));
    let exchange = |path: &Path| {
        if path.ends_with("a/sub") && a.is_dir() && !a.is_symlink() {
            std::fs::rename(&a, f.dir.path().join("old")).unwrap();
            symlink(&outside, &a).unwrap();
        }
        false
    };
    let scan = Scan::of(&root, &exchange, entries(100));
    assert_eq!(scan.unseen, paths(&["a/sub"]));
    assert!(!scan.entries.contains_key(Path::new("a/sub/file")));
    // Nor are files behind it copied.
    let metadata = std::fs::metadata(outside.join("sub/file")).unwrap();
    let stamp = Stamp::of(&metadata);
    assert_eq!(f.workspace.copy(Path::new("a/sub/file"), &stamp), None);
}
