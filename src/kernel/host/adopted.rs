//! Processes that became our children without us starting them: grandchildren whose parent has ended.
//!
//! Linux gives orphans to their nearest ancestor that asked for them (prctl(2), `PR_SET_CHILD_SUBREAPER`). So we learn
//! how they ended, and their parent-death signal is tied to us. On other systems [`Adopted`] is never created.
//! Processes in a cage are children of its first process, which reports to us.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{ExitReason, Watch};
use crate::kernel::sandbox::{Cage, Member};
use crate::task;

/// Polling interval if SIGCHLD is unavailable.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An adopted process, leader of its own process group. Dropping it kills the group.
///
/// Until its exit status has been collected, no other process gets its id.
#[derive(Debug)]
pub(in crate::kernel) struct Adopted {
    pid: Pid,
    ended: Option<ExitReason>,
    watch: Watch,
    caged: Option<Member>,
    /// Whether it keeps running when this is dropped.
    kept: bool,
}

/// Makes orphans our children. One call per program is enough; more are harmless.
///
/// # Errors
/// The operating system's error.
pub(in crate::kernel) fn adopt_orphans() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?);
    #[cfg(not(target_os = "linux"))]
    Err(std::io::ErrorKind::Unsupported.into())
}

impl Adopted {
    /// The process with this id. `None` if it is not our child, or not in `cage`.
    pub(in crate::kernel) fn new(pid: i32, cage: Option<&Arc<Cage>>) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        if let Some(cage) = cage {
            return Some(Self::caged(pid, cage.member(pid)?, false));
        }
        let adopted = Self {
            pid,
            ended: None,
            watch: Watch::default(),
            caged: None,
            kept: false,
        };
        if adopted.is_alive() {
            return Some(adopted);
        }
        // Whoever it is, it is not ours to kill.
        std::mem::forget(adopted);
        None
    }

    /// A process of a cage; if `kept`, it outlives this value.
    pub(super) fn caged(pid: Pid, member: Member, kept: bool) -> Self {
        Self {
            pid,
            ended: None,
            watch: Watch::default(),
            caged: Some(member),
            kept,
        }
    }

    /// The cage that it is in.
    pub(super) fn cage(&self) -> Option<&Arc<Cage>> {
        self.caged.as_ref().map(Member::cage)
    }

    pub(in crate::kernel) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Its process group.
    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Whether it runs.
    pub(in crate::kernel) fn is_alive(&self) -> bool {
        if let Some(member) = &self.caged {
            return self.ended.is_none() && member.is_alive();
        }
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.ended.is_none() && matches!(waitid(WaitId::Pid(self.pid), look), Ok(None))
    }

    /// Waits for its end. Cancel-safe.
    pub(super) async fn wait(&mut self) -> ExitReason {
        if self.ended.is_none() {
            let pid = self.pid;
            self.ended = Some(match &self.caged {
                Some(member) => member.wait().await,
                None => self.watch.end(|| end_of(pid)).await,
            });
        }
        self.ended.clone().unwrap_or(ExitReason::Unknown)
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let has_ended = self.caged.as_ref().is_some_and(|member| !member.is_alive());
        if self.ended.is_some() || has_ended || self.kept {
            return;
        }
        // The group may not exist yet, or not any more.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let _ = kill_process(self.pid, Signal::KILL);
        if self.caged.is_some() {
            return;
        }
        let pid = self.pid;
        // It would stay a zombie until we exit. Without a runtime we are exiting now.
        if tokio::runtime::Handle::try_current().is_ok() {
            task::spawn("end of a copy", async move {
                end_of(pid).await;
            })
            .detach();
        }
    }
}

/// Waits until a child has ended, and collects it.
async fn end_of(pid: Pid) -> ExitReason {
    // Subscribe before the first check, so that an exit in between is not missed.
    let mut children = signal(SignalKind::child());
    loop {
        match waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(None) => {}
            Ok(Some((_, status))) => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => ExitReason::Exited(code),
                    (None, Some(signal)) => ExitReason::Signalled(signal),
                    (None, None) => ExitReason::Unknown,
                };
            }
            // It is not our child after all.
            Err(_) => return ExitReason::Unknown,
        }
        let told = match &mut children {
            Ok(children) => children.recv().await,
            Err(_) => None,
        };
        if told.is_none() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
