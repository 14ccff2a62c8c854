//! `scripts/soak` in short: clients that ask, run, kill and reconnect, and a server that is killed in the middle of a cell. Nothing
//! is lost, hangs or is left; memory is judged by the long run.

use std::path::Path;
use std::process::Command;

use crate::support::tools;

#[test]
fn a_minute_of_many_clients_loses_nothing_and_leaves_nothing() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/soak");
    let output = Command::new("python3")
        .arg(script)
        .args(["--minutes", "1", "--clients", "6", "--sessions", "2"])
        .args(["--memory", "ignored"])
        .arg(crate::sandbox::program())
        .env("SPONDE_TEST_TOOLS", tools())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{errors}");
    // Something was done, and it was looked at.
    for what in ["'asked'", "'ran'", "'notebooks checked'", "'sessions'"] {
        assert!(told.contains(what), "{told}");
    }
}
