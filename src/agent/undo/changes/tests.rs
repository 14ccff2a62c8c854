//! Real files, changed in every possible way.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn watched(&self) -> Watched {
        let root = self.dir.path().to_owned();
        Watched::new(root.clone(), vec![root.join("session.ipynb")])
    }

    fn changes(&self, change: impl FnOnce(&Path)) -> FilesChanged {
        let before = self.watched().look();
        change(self.dir.path());
        before.changes(&self.watched().look())
    }
}

fn paths(files: &[ChangedFile]) -> Vec<&str> {
    files.iter().map(|file| &*file.path).collect()
}

#[test]
fn what_is_new_other_and_gone_is_named() {
    let fixture = Fixture::new();
    for path in [
        "same.txt", "data.csv", "old.txt", "gone/a", "gone/b/c", "mode", "sub/x",
    ] {
        fixture.write(path, "one");
    }
    symlink("same.txt", fixture.dir.path().join("link")).unwrap();
    fixture.write("node_modules/x/index.js", "");
    let changes = fixture.changes(|dir| {
        fixture.write("data.csv", "another");
        fixture.write("out.csv", "12345");
        fixture.write("plots/one.png", "123");
        fixture.write("plots/deep/two.png", "4567");
        fixture.write("session.ipynb", "ours");
        fixture.write("session_files/a.png", "ours");
        fixture.write("__pycache__/a.pyc", "a cache");
        fixture.write("node_modules/y/index.js", "looked at by nobody");
        std::fs::remove_file(dir.join("old.txt")).unwrap();
        std::fs::remove_dir_all(dir.join("gone")).unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.join("mode"), mode).unwrap();
        std::fs::remove_file(dir.join("link")).unwrap();
        symlink("/etc", dir.join("link")).unwrap();
    });
    let file = |path: &str, bytes| ChangedFile {
        path: path.to_owned(),
        bytes,
        ..ChangedFile::default()
    };
    assert_eq!(
        changes,
        FilesChanged {
            created: vec![
                file("out.csv", Some(5)),
                ChangedFile {
                    files: Some(2),
                    ..file("plots/", Some(7))
                },
            ],
            changed: vec![
                file("data.csv", Some(7)),
                file("link", None),
                file("mode", Some(3)),
            ],
            deleted: vec!["gone/".to_owned(), "old.txt".to_owned()],
            more: 0,
            incomplete: false,
        }
    );
    assert!(fixture.changes(|_| {}).is_empty());
}

#[test]
fn what_runs_later_is_pointed_out_wherever_it_is() {
    let fixture = Fixture::new();
    fixture.write("tests/conftest.py", "one");
    let changes = fixture.changes(|dir| {
        fixture.write("a.csv", "");
        fixture.write("new/deep/sitecustomize.py", "");
        fixture.write("new/deep/plain.py", "");
        fixture.write("tests/conftest.py", "other");
        fixture.write("SPONDE.md", "do as I say");
        fixture.write(".venv/pyvenv.cfg", "");
        fixture.write("env/pyvenv.cfg", "");
        std::fs::create_dir(dir.join(".git")).unwrap();
        fixture.write("sub/.vscode/tasks.json", "");
    });
    // The new directory `sub` stands for the ordinary files in it.
    assert_eq!(
        paths(&changes.created),
        [
            "SPONDE.md",
            "new/deep/sitecustomize.py",
            "sub/.vscode/tasks.json",
            ".git/",
            ".venv/",
            "env/",
            "a.csv",
            "new/",
            "sub/"
        ]
    );
    assert_eq!(changes.running_later().count(), 7);
    assert_eq!(paths(&changes.changed), ["tests/conftest.py"]);
}

#[test]
fn links_out_of_the_directory_are_not_followed() {
    let (fixture, outside) = (Fixture::new(), Fixture::new());
    symlink(outside.dir.path(), fixture.dir.path().join("out")).unwrap();
    let changes = fixture.changes(|_| outside.write("new.txt", ""));
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn a_list_is_bounded_and_says_so() {
    let fixture = Fixture::new();
    for number in 0..100 {
        fixture.write(&format!("old{number}"), "");
    }
    let changes = fixture.changes(|dir| {
        for number in 0..100 {
            fixture.write(&format!("new{number:03}"), "");
            std::fs::remove_file(dir.join(format!("old{number}"))).unwrap();
        }
        fixture.write("zz.pth", "");
    });
    assert_eq!((changes.created.len(), changes.deleted.len()), (NAMED, 0));
    assert_eq!(changes.created[0].path, "zz.pth");
    assert_eq!(changes.more, 201 - NAMED);
}

#[test]
fn a_huge_directory_takes_no_longer_than_a_large_one() {
    let fixture = Fixture::new();
    for dir in 0..3 {
        std::fs::create_dir(fixture.dir.path().join(format!("d{dir}"))).unwrap();
        for number in 0..ENTRIES {
            std::fs::File::create(fixture.dir.path().join(format!("d{dir}/{number}"))).unwrap();
        }
    }
    let before = fixture.watched().look();
    assert!(!before.0.unseen.is_empty());
    assert!(before.0.entries.len() <= 2 * ENTRIES);
    fixture.write("seen.csv", "1");
    let changes = before.changes(&fixture.watched().look());
    assert_eq!(
        (paths(&changes.created), changes.incomplete),
        (vec!["seen.csv"], true)
    );
}
