//! Kernels whose code runs in a process below their own ([`Quirks::worker`](crate::kernel::quirks::Quirks::worker)):
//! when that one ends (`process.exit()`), the kernel lives on and never answers a cell again.

use std::time::Duration;

use crate::kernel::quirks::Quirks;

/// How often a running cell's process is looked at.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// Watches the process below a kernel's own. Linux only; elsewhere nothing is ever missed.
#[derive(Debug)]
pub(super) struct Worker {
    kernel: u32,
    seen: bool,
    missed: bool,
}

impl Worker {
    /// For the kernel with this process, if it has such a worker.
    pub(super) fn of(quirks: &Quirks, kernel: Option<u32>) -> Option<Self> {
        let kernel = kernel.filter(|_| quirks.worker)?;
        Some(Self {
            kernel,
            seen: false,
            missed: false,
        })
    }

    /// Whether there was one and none has taken its place: missed twice, for an interrupt makes a new one.
    pub(super) fn is_gone(&mut self) -> bool {
        let there = has_child(self.kernel);
        self.seen |= there;
        let missed = self.seen && !there;
        std::mem::replace(&mut self.missed, missed) && missed
    }
}

/// Whether a process has a child (proc(5), `/proc/pid/task/tid/children`); one that has ended and was not waited for
/// does not count.
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
    // The name, in parentheses, can have any characters in it.
    let (_, after_name) = stat.rsplit_once(')')?;
    let state = after_name.split_whitespace().next()?;
    Some(!matches!(state, "Z" | "X"))
}
