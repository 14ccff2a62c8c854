//! Our program as the first process of a sandbox, the lines that describe the confinement, and the person's wishes
//! about it.

use anstyle::Style;

use super::eprint;
use super::style::{BAD, DIM, WARN, paint, stderr_colours};
use crate::agent::approval::Approval;
use crate::app::sandbox::{self, SandboxLine};
use crate::cli::exit::Exit;
use crate::kernel::{LevelChoice, Network};

/// If this process was started to confine a kernel, does so and returns its exit status.
pub(super) fn answer() -> Option<Exit> {
    let answered = sandbox::answer(std::env::args_os().skip(1), std::env::vars_os());
    Some(match answered? {
        Ok(true) => Exit::Done,
        Ok(false) => Exit::Failed,
        Err(reason) => {
            eprint(&format!("sandbox: {reason}\n"));
            Exit::Failed
        }
    })
}

/// What code may do from now on; a `None` field keeps its setting.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::cli) struct SandboxWish {
    /// What code may write and read.
    pub level: Option<LevelChoice>,
    /// What code can reach.
    pub network: Option<Network>,
}

impl SandboxWish {
    /// Parses the argument of `/sandbox`: a level, a network, or both.
    ///
    /// # Errors
    /// Why it is neither.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut wish = Self::default();
        for word in text.split_whitespace() {
            if let (None, Ok(level)) = (wish.level, word.parse()) {
                wish.level = Some(level);
            } else if let (None, Ok(network)) = (&wish.network, word.parse()) {
                wish.network = Some(network);
            } else {
                return Err(format!(
                    "`/sandbox` takes read-only, workspace or full, and off, on or allow:HOST,.. for the network, not `{text}`"
                ));
            }
        }
        Ok(wish)
    }
}

/// Prints what the model's code may do, and when a person is asked before it runs.
pub(super) fn tell(line: &SandboxLine, approval: Approval) {
    eprint(&lines(line, approval));
}

/// The same, one line each.
pub(super) fn lines(line: &SandboxLine, approval: Approval) -> String {
    let style = match line {
        SandboxLine::NotOurs | SandboxLine::OfGateway => WARN,
        SandboxLine::Full => BAD,
        SandboxLine::Confined(_) => DIM,
    };
    told(style, line.words(), approval)
}

/// The same for a sandbox that is known only as text.
pub(super) fn told(style: Style, sandbox: &str, approval: Approval) -> String {
    let (approval_style, approval) = match approval {
        Approval::Always => (DIM, "approval: always, you are asked before each cell"),
        Approval::OnRisk => (
            DIM,
            "approval: on-risk, you are asked before code that may do what the sandbox does not stop",
        ),
        Approval::Never => (WARN, "approval: never, code runs without a question"),
    };
    [(style, sandbox), (approval_style, approval)]
        .map(|(style, words)| format!("{}\n", paint(style, words, stderr_colours())))
        .concat()
}
