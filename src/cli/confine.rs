//! Our own program as the first process of a sandbox, and the line that says how code is confined.

use super::eprint;
use super::style::{BAD, DIM, WARN, paint, stderr_colours};
use crate::agent::approval::Approval;
use crate::app::sandbox::{self, SandboxLine};
use crate::cli::exit::Exit;

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

/// Says what code of a session's model may do, and when a person is asked before it runs.
pub(super) fn tell(line: &SandboxLine, approval: Approval) {
    let style = match line {
        SandboxLine::NotOurs | SandboxLine::OfGateway => WARN,
        SandboxLine::Full => BAD,
        SandboxLine::Confined(_) => DIM,
    };
    let (approval_style, approval) = match approval {
        Approval::Always => (DIM, "approval: always, you are asked before each cell"),
        Approval::OnRisk => (
            DIM,
            "approval: on-risk, you are asked before code that may do what the sandbox does not stop",
        ),
        Approval::Never => (WARN, "approval: never, code runs without a question"),
    };
    for (style, words) in [(style, line.words()), (approval_style, approval)] {
        eprint(&format!("{}\n", paint(style, words, stderr_colours())));
    }
}
