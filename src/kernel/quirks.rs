//! Kernels' deviations from the protocol, as a table instead of if-statements.
//!
//! A row is found by the `implementation` in the kernel_info_reply. Kernels without a row get [`Quirks::default`],
//! which is safe with all. The rows were measured with `sponde kernels test` (docs/kernels.md); each says what goes
//! wrong without it.
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
    /// How to interrupt it, if its kernelspec is wrong about that.
    pub interrupt: Option<InterruptMode>,
    /// The effect of an interrupt.
    pub after_interrupt: AfterInterrupt,
    /// How long outputs of a cell may still come after its last message, even after `idle`.
    pub late_outputs: Duration,
    /// Whether `text/plain` comes with terminal colours, which do not belong in a notebook.
    pub ansi_in_plain: bool,
    /// Whether code can request input.
    pub stdin: bool,
    /// Whether is_complete_request is ever answered.
    pub answers_is_complete: bool,
    /// Whether code runs in a child process of the kernel: if that ends, cells are never answered.
    pub worker: bool,
    /// The end of its output after it restarted its interpreter: all variables are lost, but the cell counts as a
    /// success.
    pub started_anew: Option<&'static str>,
    /// The name to use for errors that it sends without one.
    pub nameless_error: Option<&'static str>,
    /// From how many outputs of a cell a silent loss is likely: the kernel sends each line as a message, faster than
    /// anybody reads, and drops what its queue cannot hold.
    pub drops_beyond: Option<u32>,
    /// Code to run silently before the first cell.
    pub set_up: Option<&'static str>,
}

/// The effect of an interrupt.
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
                // `read` waits for a terminal that has no input.
                stdin: false,
                answers_is_complete: false,
                started_anew: Some("Restarting Bash"),
                // Otherwise the user would see `: 1`.
                nameless_error: Some("exit status"),
                set_up: Some(BASH_SET_UP),
                ..usual
            },
            "ijavascript" | "javascript" => Self {
                after_interrupt: AfterInterrupt::Unanswered,
                worker: true,
                // libzmq's queue. On a busy machine Node.js fills it before the sending thread runs.
                drops_beyond: Some(1000),
                ..usual
            },
            "deno kernel" | "deno" => Self {
                // SIGINT kills it.
                interrupt: Some(InterruptMode::Message),
                late_outputs: Duration::from_millis(250),
                ansi_in_plain: true,
                ..usual
            },
            // JeroMQ's queue holds 1000 messages, which the JVM fills in about twenty milliseconds.
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
                // SIGINT kills it; the message does nothing, which is the lesser harm.
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
    /// Whether this output shows that the kernel restarted its interpreter.
    pub(super) fn has_started_anew(&self, content: &Content) -> bool {
        match (self.started_anew, content) {
            (Some(words), Content::Stream(stream)) => stream.text.trim_end().ends_with(words),
            _ => false,
        }
    }
}

/// The transport of a kernel, which must be chosen before it can describe itself.
///
/// Unix sockets in a private directory are better: no port that another program can take first, and no access for other
/// users of the machine. IJavascript, Deno, JJava and evcxr support only TCP, so unknown kernels get it too.
pub(super) fn transport(spec: &KernelSpec) -> Transport {
    let program = spec.argv.first().map_or("", String::as_str);
    let file = program.rsplit('/').next().unwrap_or(program);
    // Most of these are based on ipykernel; IRkernel and xeus use plain libzmq.
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

/// Makes `read` from the terminal fail instead of waiting for ever; reading from files and pipes is unchanged.
const BASH_SET_UP: &str = r#"read() { if [ -t 0 ]; then echo "read: this kernel cannot ask for input" >&2; return 1; fi; builtin read "$@"; }"#;

/// Whether a program is named like a plain Python: `python`, `python3`, `python3.12`.
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
