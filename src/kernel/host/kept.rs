//! A kernel's process that is not our child: an earlier process of ours started it and left it running.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{ExitReason, Watch};
use crate::kernel::reap::Running;

/// Polling interval. Its sockets usually report its end sooner.
const LOOK: Duration = Duration::from_millis(200);
/// How long it may take to end after SIGTERM, and again after SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A kernel's process.
#[derive(Debug)]
pub(in crate::kernel) struct Kept {
    kernel: Running,
    /// The first process of its namespaces, if it has any: it ends with the kernel.
    around: Vec<Running>,
    watch: Watch,
}

impl Kept {
    pub(in crate::kernel) fn new(kernel: Running, around: Vec<Running>) -> Self {
        Self {
            kernel,
            around,
            watch: Watch::default(),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.kernel.pid()
    }

    /// The processes around it.
    pub(super) fn around(&self) -> Vec<u32> {
        self.around.iter().map(Running::pid).collect()
    }

    /// SIGINT to the whole group.
    pub(super) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// SIGKILL to the whole group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits for it to end. Cancel-safe. Only its parent could know how it ended.
    pub(super) async fn wait(&mut self) -> ExitReason {
        let kernel = &self.kernel;
        let ended = self
            .watch
            .end(|| {
                let kernel = kernel.clone();
                async move {
                    while kernel.is_there() {
                        tokio::time::sleep(LOOK).await;
                    }
                    ExitReason::Unknown
                }
            })
            .await;
        for process in &self.around {
            signal_group(process, Signal::KILL);
        }
        ended
    }

    /// Gives it `grace` to exit by itself, then sends SIGTERM, then SIGKILL.
    pub(super) async fn end(&mut self, grace: Duration) -> ExitReason {
        for (wait, signal) in [(grace, Signal::TERM), (GRACE, Signal::KILL)] {
            if let Ok(reason) = tokio::time::timeout(wait, self.wait()).await {
                return reason;
            }
            self.signal(signal);
        }
        tokio::time::timeout(GRACE, self.wait())
            .await
            .unwrap_or(ExitReason::Unknown)
    }

    fn signal(&self, signal: Signal) {
        signal_group(&self.kernel, signal);
    }
}

/// Signals the process group that `process` leads, unless its id now belongs to a later process.
fn signal_group(process: &Running, signal: Signal) {
    if process.is_there()
        && let Some(group) = i32::try_from(process.pid()).ok().and_then(Pid::from_raw)
    {
        // A group that has already gone is what we want.
        let _ = kill_process_group(group, signal);
    }
}
