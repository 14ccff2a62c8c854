//! Kernels that run code in a child process ([`Quirks::worker`](crate::kernel::quirks::Quirks::worker)): when the child
//! exits (`process.exit()`), the kernel lives on and never answers a cell again.

use std::time::Duration;

use crate::kernel::quirks::Quirks;

/// How often the worker is checked while a cell runs.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// Watches a kernel's child process. Linux only; elsewhere it never reports a loss.
#[derive(Debug)]
pub(super) struct Worker {
    kernel: u32,
    seen: bool,
    missed: bool,
}

impl Worker {
    /// For the kernel with this process id, if it has such a worker.
    pub(super) fn of(quirks: &Quirks, kernel: Option<u32>) -> Option<Self> {
        let kernel = kernel.filter(|_| quirks.worker)?;
        Some(Self {
            kernel,
            seen: false,
            missed: false,
        })
    }

    /// Whether the worker ended and was not replaced. It must be missing twice, because an interrupt starts a new one.
    pub(super) fn is_gone(&mut self) -> bool {
        let there = has_child(self.kernel);
        self.seen |= there;
        let missed = self.seen && !there;
        std::mem::replace(&mut self.missed, missed) && missed
    }
}

/// Whether a process has a living child (proc(5), `/proc/pid/task/tid/children`); zombies do not count.
fn has_child(process: u32) -> bool {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    children.is_ok_and(|children| {
        children
            .split_whitespace()
            .any(|child| is_alive(child).unwrap_or(false))
    })
}

fn is_alive(process: &str) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, can contain any characters.
    let (_, after_name) = stat.rsplit_once(')')?;
    let state = after_name.split_whitespace().next()?;
    Some(!matches!(state, "Z" | "X"))
}
