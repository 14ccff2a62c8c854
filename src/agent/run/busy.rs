//! Handles a resumed session whose kernel was left running and is busy: reports it at once, then waits, interrupts or
//! replaces the kernel.

use super::restoring::Restoring;
use super::{AgentOptions, CodeStatus, EventKind, Instant, MAIN, Session, Verdict};
use crate::jupyter::kernelspec::InterruptMode;
use crate::kernel::reap;
use crate::session::CellKind;

/// How long a kernel that was left running may take to answer before a person is told that it is busy.
const BUSY_AFTER: std::time::Duration = std::time::Duration::from_millis(1500);

impl Session {
    /// When to report that the kernel left running is busy, if there is one.
    pub(super) fn busy_at(options: &AgentOptions) -> Option<Instant> {
        let kept = options.kernel.adopt.as_ref()?;
        reap::is_kept(&kept.connection_file, &options.kernel.socket_root)
            .then(|| Instant::now() + BUSY_AFTER)
    }

    /// The kernel does not answer.
    pub(super) fn kernel_is_busy(&mut self) {
        self.resuming.busy_at = None;
        if !matches!(self.resuming.restoring, Some(Restoring::Waiting)) {
            return;
        }
        let mut cells = self.transcript.cells().iter().rev();
        let code = cells.find_map(|cell| match &cell.kind {
            CellKind::Code(code) => Some((&code.status, &cell.source)),
            _ => None,
        });
        // Code that has ended cannot keep it busy.
        let code = code.filter(|(status, _)| {
            matches!(
                status,
                CodeStatus::Finished(Verdict::Interrupted | Verdict::TimedOut)
            )
        });
        self.publish(EventKind::KernelBusy {
            kernel: self.kernels.name(MAIN),
            code: code.map(|(_, source)| source.clone()),
        });
    }

    /// Interrupts the kernel left running that we are waiting for. Returns whether there is one.
    pub(super) fn interrupt_kept(&self) -> bool {
        let main = &self.options.kernel;
        let Some(kept) = main.adopt.as_ref().filter(|_| self.waits_for_kept()) else {
            return false;
        };
        // A signal could end a kernel with another interrupt mode.
        if main.kernel.spec.interrupt_mode == InterruptMode::Signal {
            reap::interrupt_kept(&kept.connection_file, &main.socket_root);
        }
        true
    }

    /// Ends the kernel left running that we are waiting for; a new one starts.
    pub(super) fn replace_kept(&mut self) {
        let main = &self.options.kernel;
        if let Some(kept) = main.adopt.as_ref().filter(|_| self.waits_for_kept()) {
            reap::end_one_kept(&kept.connection_file, &main.socket_root);
            self.kernels.start_new(MAIN);
        }
    }

    fn waits_for_kept(&self) -> bool {
        matches!(self.resuming.restoring, Some(Restoring::Waiting))
            && self.kernels.is_starting(MAIN)
    }
}
