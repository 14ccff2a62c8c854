//! The files of the page: what is not ours is what it says, nothing points elsewhere, and the store makes what the server
//! has.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

/// Lines that are ours at most: who changes the page can read all of it.
const LINES: usize = 2500;

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/web")
}

#[derive(Deserialize)]
struct Vendor {
    file: Vec<File>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    package: String,
    version: String,
    from: String,
    licence: String,
    #[serde(rename = "licence_file")]
    copyright: String,
    sha256: String,
    replaced: Option<String>,
    by: Option<String>,
}

#[test]
fn what_others_wrote_is_pinned_and_has_its_licence() {
    let dir = web().join("vendor");
    let text = std::fs::read_to_string(dir.join("vendor.toml")).unwrap();
    let vendor: Vendor = toml::from_str(&text).unwrap();
    let mut known = vec!["vendor.toml".to_owned()];
    for file in vendor.file {
        let compressed = format!("{}.gz", file.name);
        let mut text = match std::fs::File::open(dir.join(&compressed)) {
            Ok(stored) => std::io::read_to_string(flate2::read::GzDecoder::new(stored)).unwrap(),
            Err(_) => std::fs::read_to_string(dir.join(&file.name)).unwrap(),
        };
        if let (Some(was), Some(is)) = (&file.replaced, &file.by) {
            assert_eq!(text.matches(is).count(), 1, "{}", file.name);
            text = text.replace(is, was);
        }
        let hash = Sha256::digest(&text);
        let hash = hash.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        assert_eq!(
            hash, file.sha256,
            "`{}` is not {} of {} {}",
            file.name, file.from, file.package, file.version
        );
        assert!(["MIT", "Apache-2.0", "BSD-3-Clause"].contains(&&*file.licence));
        let licence = std::fs::read_to_string(dir.join(&file.copyright)).unwrap();
        assert!(licence.len() > 500, "{}", file.copyright);
        known.extend([file.name, compressed, file.copyright]);
    }
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name), "vendor.toml does not know `{name}`");
    }
}

/// The files that are ours, and their texts.
fn ours() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(web()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            all.push((name, std::fs::read_to_string(path).unwrap()));
        }
    }
    all
}

#[test]
fn the_page_is_small_and_points_nowhere_else() {
    let mut lines = 0;
    for (name, text) in ours() {
        lines += text.lines().count();
        for start in ["http://", "https://", "\"//", "ws://", "wss://"] {
            let found = text.matches(start).count();
            // The name of a kind of picture, which nobody loads.
            let allowed = text.matches("http://www.w3.org/2000/svg").count();
            let allowed = if start == "http://" { allowed } else { 0 };
            assert_eq!(
                found, allowed,
                "{name} has an address that begins with {start}"
            );
        }
        for never in [
            "eval(",
            "new Function",
            "document.write",
            ".innerHTML",
            "allow-same-origin;",
        ] {
            assert!(!text.contains(never), "{name} has {never}");
        }
    }
    assert!(lines <= LINES, "the page has {lines} lines");
}

#[test]
fn the_store_makes_of_a_stream_what_the_server_has() {
    let output = Command::new("node")
        .arg("--test")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/page/store.mjs"
        ))
        .env("STORE", web().join("store.js"))
        .output()
        .expect("node is missing: scripts/test says how to get it");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("# pass 6"), "{shown}");
}
