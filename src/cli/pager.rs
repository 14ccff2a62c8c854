//! Shows long text a screen at a time, in the person's pager.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use super::print;
use super::style::{is_interactive, rows};
use crate::error::Failure;

/// Options of `less` unless LESS is set: keep colours, no paging if the text fits on the screen, leave the text there.
const LESS: &str = "FRX";
/// A shell's exit code when it did not find the program.
const NOT_FOUND: i32 = 127;

/// Shows `text`, in a pager if it is longer than the screen and a person is at the terminal.
///
/// # Errors
/// stdout accepts no more output.
pub(super) fn show(text: &str) -> Result<(), Failure> {
    let fits = text.lines().count() < usize::try_from(rows()).unwrap_or(24);
    if fits || !is_interactive() || !matches!(paged(text), Ok(true)) {
        return print(text);
    }
    Ok(())
}

/// Shows it in a pager; returns whether there was one.
fn paged(text: &str) -> io::Result<bool> {
    let named = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let pager = named("SPONDE_PAGER").or_else(|| named("PAGER"));
    let pager = pager.unwrap_or_else(|| "less".to_owned());
    // Through a shell, because PAGER may have arguments.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec $0", &pager])
        .stdin(Stdio::piped());
    if named("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The person may quit before the end.
        let _ = stdin.write_all(text.as_bytes());
    }
    Ok(child.wait()?.code() != Some(NOT_FOUND))
}
