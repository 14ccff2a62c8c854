//! What `scripts/release` makes of a program: it packs it, installs it, and fails where it is too large.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::Sponde;

/// Packs `program` with these limits, in bytes.
fn release(sponde: &Sponde, program: &Path, limits: [&str; 2]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new(root.join("scripts/release"))
        .arg("--program")
        .arg(program)
        .env("SPONDE_RELEASE_DIR", sponde.path("files"))
        .env("SPONDE_MOST_PROGRAM", limits[0])
        .env("SPONDE_MOST_DOWNLOAD", limits[1])
        .output()
        .unwrap()
}

#[test]
fn a_program_that_is_too_large_is_not_released() {
    let sponde = Sponde::new();
    let program = sponde.path("sponde");
    let built = sponde.command(&[]).get_program().to_owned();
    let stripped = Command::new("strip")
        .arg("-o")
        .arg(&program)
        .arg(&built)
        .status();
    assert!(stripped.unwrap().success());
    let bytes = std::fs::metadata(&program).unwrap().len();
    let failed = |output: &Output| {
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        stderr.lines().last().unwrap_or_default().to_owned()
    };
    let large = release(&sponde, &program, ["1000", "1000"]);
    let words = format!("error: the program has {bytes} bytes, and is to have less than 1000");
    assert_eq!(failed(&large), words);
    // Everything else is checked by then.
    let large = release(&sponde, &program, ["1000000000", "1000"]);
    let words = failed(&large);
    assert!(
        words.ends_with(" bytes, and is to have less than 1000"),
        "{words}"
    );
    assert!(words.contains(".tar.gz has "), "{words}");
    let told = String::from_utf8_lossy(&large.stdout);
    let begin = format!("program: {bytes} bytes unpacked (less than 1000000000), needs glibc 2.");
    assert!(told.starts_with(&begin), "{told}");
    let wheel = std::fs::read_dir(sponde.path("files"))
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .find(|name| name.contains(".whl"))
        .unwrap();
    assert!(wheel.contains("-py3-none-manylinux_2_"), "{wheel}");
}
