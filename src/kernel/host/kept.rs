//! A kernel's process that is not our child: an earlier process of ours started it and kept it.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::{ExitReason, Watch};
use crate::kernel::reap::Running;

/// How often it is looked at. Its sockets usually tell sooner.
const LOOK: Duration = Duration::from_millis(200);
/// How long it may take to end after SIGTERM, and after SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// A kernel's process.
#[derive(Debug)]
pub(in crate::kernel) struct Kept {
    process: Running,
    watch: Watch,
}

impl Kept {
    pub(in crate::kernel) fn new(process: Running) -> Self {
        Self {
            process,
            watch: Watch::default(),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.process.pid()
    }

    /// SIGINT to the whole group.
    pub(super) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// SIGKILL to the whole group.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Waits for it to end. Cancel-safe. How it ended only its parent could know.
    pub(super) async fn wait(&mut self) -> ExitReason {
        let process = &self.process;
        self.watch
            .end(|| {
                let process = process.clone();
                async move {
                    while process.is_there() {
                        tokio::time::sleep(LOOK).await;
                    }
                    ExitReason::Unknown
                }
            })
            .await
    }

    /// Gives it `grace` to end by itself, then SIGTERM, then SIGKILL.
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
        // It was started as the first of its group. A later process may have its number.
        if self.process.is_there()
            && let Some(group) = i32::try_from(self.id()).ok().and_then(Pid::from_raw)
        {
            // A group that is gone is what we want.
            let _ = kill_process_group(group, signal);
        }
    }
}
