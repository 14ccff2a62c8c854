//! The sessions in `notebooks/`: made by real runs of a local model (`scripts/make-notebooks`), and still right.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Sponde, assert_is_valid_notebook};

fn notebooks() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("notebooks");
    let mut found: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "ipynb")
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn they_give_the_same_outputs() {
    let all = notebooks();
    assert_eq!(all.len(), 3);
    let sponde = Sponde::new();
    let mut arguments = vec!["run", "--check", "--tolerance", "1e-9", "-j", "2"];
    arguments.extend(all.iter().map(|path| path.to_str().unwrap()));
    let ended = sponde.run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended}");
}

#[test]
fn they_are_sessions_of_a_real_model() {
    for path in notebooks() {
        assert_is_valid_notebook(&path);
        let text = std::fs::read_to_string(&path).unwrap();
        let notebook: Value = serde_json::from_str(&text).unwrap();
        let session = &notebook["metadata"]["sponde"];
        assert_eq!(
            session["model"],
            "local/qwen2.5-coder-1.5b",
            "{}",
            path.display()
        );
        assert!(
            session["usage"]["output_tokens"].as_u64() > Some(0),
            "{}",
            path.display()
        );
        for home in ["/home/", "/root/", "/work/"] {
            assert!(!text.contains(home), "{} names {home}", path.display());
        }
    }
}
