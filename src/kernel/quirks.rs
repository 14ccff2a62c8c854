//! Where kernels depart from the protocol, as a table and not as if-statements.
//!
//! A row is looked up by the `implementation` that a kernel names in its kernel_info_reply. What is not in the table
//! gets [`Quirks::default`], which is safe with everything. The rows were measured with `sponde kernels test`
//! (docs/kernels.md); each says what goes wrong without it.
//!
//! Deliberately not here: how kernels are installed (`kernelspecs/`).

use std::time::Duration;

use crate::jupyter::connection::Transport;
use crate::jupyter::content::Content;
use crate::jupyter::kernelspec::{InterruptMode, KernelSpec};

/// How one implementation behaves.
#[expect(clippy::struct_excessive_bools, reason = "a table of yes and no")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// How to interrupt it, where its kernelspec is wrong about that.
    pub interrupt: Option<InterruptMode>,
    /// What an interrupt leaves behind.
    pub after_interrupt: AfterInterrupt,
    /// Outputs of a cell may come this long after the last sign of it, although it has said `idle`.
    pub late_outputs: Duration,
    /// `text/plain` comes with terminal colours, which do not belong into a notebook.
    pub ansi_in_plain: bool,
    /// Whether code can ask for a line of input.
    pub stdin: bool,
    /// Whether is_complete_request is ever answered.
    pub answers_is_complete: bool,
    /// Whether code runs in a process below the kernel's own: when that one ends, cells are never answered.
    pub worker: bool,
    /// What its output ends with when it has started its interpreter anew: all variables are lost, and it tells the
    /// cell's success.
    pub started_anew: Option<&'static str>,
    /// The name of errors that it sends without one.
    pub nameless_error: Option<&'static str>,
    /// It sends each line by itself, faster than anybody reads, and drops what its queue cannot hold without a word: from
    /// how many outputs of a cell on that must be reckoned with.
    pub drops_beyond: Option<u32>,
    /// Code that runs silently before the first cell.
    pub set_up: Option<&'static str>,
}

/// What an interrupt leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterInterrupt {
    /// The cell ends with an error or `aborted`; variables are kept.
    Kept,
    /// The cell ends, and all variables are lost.
    Lost,
    /// All variables are lost, and the cell never gets an answer.
    Unanswered,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            interrupt: None,
            after_interrupt: AfterInterrupt::Kept,
            late_outputs: Duration::ZERO,
            ansi_in_plain: false,
            stdin: true,
            answers_is_complete: true,
            worker: false,
            started_anew: None,
            nameless_error: None,
            drops_beyond: None,
            set_up: None,
        }
    }
}

impl Quirks {
    /// The row of an implementation (`kernel_info_reply.implementation`).
    pub fn of(implementation: &str) -> Self {
        let usual = Self::default();
        match implementation.to_ascii_lowercase().as_str() {
            "bash_kernel" | "bash" => Self {
                // `read` waits for a terminal that nobody types into.
                stdin: false,
                answers_is_complete: false,
                started_anew: Some("Restarting Bash"),
                // Else a person reads `: 1`.
                nameless_error: Some("exit status"),
                set_up: Some(BASH_SET_UP),
                ..usual
            },
            "ijavascript" | "javascript" => Self {
                after_interrupt: AfterInterrupt::Unanswered,
                worker: true,
                // libzmq's queue, which Node.js fills before the thread that sends gets its turn on a busy machine.
                drops_beyond: Some(1000),
                ..usual
            },
            "deno kernel" | "deno" => Self {
                // SIGINT ends it.
                interrupt: Some(InterruptMode::Message),
                late_outputs: Duration::from_millis(250),
                ansi_in_plain: true,
                ..usual
            },
            // JeroMQ's queue holds 1000 messages, which the JVM fills in some twenty milliseconds.
            "jjava" | "java" => Self {
                drops_beyond: Some(1000),
                ..usual
            },
            "evcxr_jupyter" | "evcxr" => Self {
                after_interrupt: AfterInterrupt::Lost,
                stdin: false,
                ..usual
            },
            "xeus-python" | "xpython" => Self {
                // SIGINT ends it; the message does nothing, which costs less.
                interrupt: Some(InterruptMode::Message),
                ..usual
            },
            "tslab" | "jslab" => Self {
                stdin: false,
                ..usual
            },
            _ => usual,
        }
    }
}

impl Quirks {
    /// Whether this output says that the kernel has started its interpreter anew.
    pub(super) fn has_started_anew(&self, content: &Content) -> bool {
        match (self.started_anew, content) {
            (Some(words), Content::Stream(stream)) => stream.text.trim_end().ends_with(words),
            _ => false,
        }
    }
}

/// Over what a kernel is talked to, which must be known before it can say what it is.
///
/// Unix sockets in a private directory are better: no port that another program takes first, nothing that other people
/// on the machine can connect to. IJavascript, Deno, JJava and evcxr only know TCP; what we do not know gets it too.
pub(super) fn transport(spec: &KernelSpec) -> Transport {
    let program = spec.argv.first().map_or("", String::as_str);
    let file = program.rsplit('/').next().unwrap_or(program);
    // Nearly all of these are made with ipykernel; IRkernel and xeus use libzmq as it is.
    let knows_ipc = is_bare_python(file)
        || file.starts_with("xpython")
        || spec
            .argv
            .iter()
            .any(|argument| argument.contains("IRkernel::main"));
    if knows_ipc {
        Transport::Ipc
    } else {
        Transport::Tcp
    }
}

/// `read` from the terminal fails instead of waiting for ever; from files and pipes it works as always.
const BASH_SET_UP: &str = r#"read() { if [ -t 0 ]; then echo "read: this kernel cannot ask for input" >&2; return 1; fi; builtin read "$@"; }"#;

/// Whether a program is called like a plain Python: `python`, `python3`, `python3.12`.
pub(super) fn is_bare_python(program: &str) -> bool {
    program
        .strip_prefix("python")
        .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kernels_get_safe_defaults() {
        assert_eq!(Quirks::of("something new"), Quirks::default());
        assert_eq!(Quirks::of("ipython"), Quirks::default());
        assert_eq!(Quirks::of("Deno kernel"), Quirks::of("deno"));
        assert_ne!(Quirks::of("deno"), Quirks::default());
    }
}
