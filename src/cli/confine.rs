//! Our own program as the first process of a sandbox, and the line that says how code is confined.

use super::eprint;
use super::style::{BAD, DIM, WARN, paint, stderr_colours};
use crate::app::sandbox::{self, SandboxLine};
use crate::error::Exit;

/// If this process was started to confine a kernel: does so, and says how it ended.
pub(super) fn answer() -> Option<Exit> {
    Some(match sandbox::answer(std::env::args_os().skip(1))? {
        Ok(true) => Exit::Done,
        Ok(false) => Exit::Failed,
        Err(reason) => {
            eprint(&format!("sandbox: {reason}\n"));
            Exit::Failed
        }
    })
}

/// Says what code of a session's model may do.
pub(super) fn tell(line: &SandboxLine) {
    let style = match line {
        SandboxLine::NotOurs | SandboxLine::OfGateway => WARN,
        SandboxLine::Full => BAD,
        SandboxLine::Confined(_) => DIM,
    };
    let words = paint(style, line.words(), stderr_colours());
    eprint(&format!("{words}\n"));
}
