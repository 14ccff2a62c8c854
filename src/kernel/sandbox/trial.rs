//! Runs a program to see whether it works here.

use std::process::{Command, Stdio};

/// Succeeds if the program exits with success.
///
/// # Errors
/// Its stderr, or else its exit status.
pub(super) fn run(mut command: Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("bwrap: ");
    Err(if said.is_empty() {
        output.status.to_string()
    } else {
        said.to_owned()
    })
}
