//! Whether a confined kernel hit one of its limits: checked while cells run, when one ends, and at the kernel's end.
//!
//! A process killed for memory reports nothing itself, and we can set no limit on disk usage, so we poll.

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;

use super::open::Target;
use crate::jupyter::content::ErrorContent;
use crate::kernel::Sandbox;
use crate::kernel::host::ExitReason;
use crate::kernel::sandbox::cgroup::Group;
use crate::kernel::sandbox::limits::{Hit, Limits};
use crate::task;

/// How long a cell interrupted for disk usage may keep writing until its kernel is killed.
const DISK_GRACE: Duration = Duration::from_secs(5);

/// If the kernel dies within this time after a kill for memory, memory is the likely reason.
const LATELY: Duration = Duration::from_secs(10);
/// How often we try to remove a control group while its processes end.
const GROUP_GOES: usize = 100;
const GROUP_GOES_EVERY: Duration = Duration::from_millis(100);

/// Watches the limits of one life of a kernel.
#[derive(Debug)]
pub(super) struct LimitWatch {
    limits: Limits,
    group: Option<Group>,
    /// When processes were last killed for memory: the kernel's own end may be noticed only later.
    killed: Option<(Instant, Hit)>,
    disk: Option<Disk>,
    /// When there was last something to do.
    busy: Instant,
}

#[derive(Debug)]
struct Disk {
    dir: PathBuf,
    /// Free bytes when the kernel started.
    before: u64,
    limit: u64,
    /// When the cell that wrote too much was interrupted, and how many bytes were used by then.
    interrupted: Option<(Instant, u64)>,
}

/// What to do because of a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// Report it.
    Tell(Hit),
    /// Interrupt the cell.
    Interrupt(Hit),
    /// End the kernel.
    End(Hit),
}

impl LimitWatch {
    /// For a confined kernel that runs as process `pid`.
    pub(super) fn of(target: &Target, pid: Option<u32>) -> Option<Self> {
        let Target::Launch(options, _) = target else {
            return None;
        };
        let Sandbox::Confined(confinement) = &options.sandbox else {
            return None;
        };
        let limits = confinement.limits.clone();
        let before = free(&options.cwd);
        Some(Self {
            group: pid.and_then(Group::of),
            killed: None,
            disk: before.map(|before| Disk {
                dir: options.cwd.clone(),
                before,
                limit: limits.disk.unwrap_or(before / 4 * 3),
                interrupted: None,
            }),
            limits,
            busy: Instant::now(),
        })
    }

    /// Records activity; `runs` says whether a cell runs.
    pub(super) fn note(&mut self, runs: bool) {
        self.busy = Instant::now();
        if let Some(disk) = &mut self.disk
            && !runs
        {
            disk.rest();
        }
    }

    /// When the kernel will have been idle for too long.
    pub(super) fn idle_end(&self) -> Option<Instant> {
        self.limits.idle.map(|idle| self.busy + idle)
    }

    pub(super) fn idle(&self) -> ExitReason {
        ExitReason::Limit(Hit::Idle(self.limits.idle.unwrap_or_default()).to_string())
    }

    /// What was hit since the last call.
    pub(super) fn look(&mut self) -> Vec<Because> {
        let hits = self.hits();
        let mut all: Vec<Because> = hits.into_iter().map(Because::Tell).collect();
        if let Some(disk) = &mut self.disk {
            all.extend(disk.look());
        }
        all
    }

    /// The limit that probably caused an exception.
    pub(super) fn behind(&self, error: &ErrorContent) -> Option<String> {
        self.limits
            .behind(&format!("{}: {}", error.ename, error.evalue))
    }

    /// The exit reason: the limit that caused the end, or else `reason` itself.
    pub(super) fn cause(&mut self, reason: ExitReason) -> ExitReason {
        const CPU: i32 = 24;
        const FILE: i32 = 25;
        self.hits();
        let killed = self.killed.take().filter(|(at, _)| at.elapsed() < LATELY);
        let memory = killed.map(|(_, hit)| hit);
        let hit = match reason {
            ExitReason::Signalled(CPU) => Some(Hit::Cpu(self.limits.cpu)),
            ExitReason::Signalled(FILE) => Some(Hit::File(Some(self.limits.file))),
            ExitReason::Signalled(_)
            | ExitReason::Exited(_)
            | ExitReason::WorkerEnded
            | ExitReason::Disconnected
            | ExitReason::Unknown => memory,
            ExitReason::Hostile(_)
            | ExitReason::Gone(_)
            | ExitReason::KilledAfterTimeout
            | ExitReason::Abandoned
            | ExitReason::Limit(_)
            | ExitReason::Requested => None,
        };
        hit.map_or(reason, |hit| ExitReason::Limit(hit.to_string()))
    }

    fn hits(&mut self) -> Vec<Hit> {
        let hits = self.group.as_mut().map(Group::hits).unwrap_or_default();
        if let Some(hit) = hits.iter().find(|hit| matches!(hit, Hit::Memory(_))) {
            self.killed = Some((Instant::now(), hit.clone()));
        }
        hits
    }

    /// The kernel has ended: removes its group once it is empty. Checkpoint copies may still be in it.
    pub(super) fn end(&mut self) {
        let Some(group) = self.group.take() else {
            return;
        };
        let remove = async move {
            for _ in 0..GROUP_GOES {
                if group.remove() {
                    return;
                }
                tokio::time::sleep(GROUP_GOES_EVERY).await;
            }
        };
        // If processes remain, the group is removed after our exit by whoever creates the next one.
        task::spawn("control group", remove).detach();
    }
}

impl Disk {
    fn used(&self) -> Option<u64> {
        Some(self.before.saturating_sub(free(&self.dir)?))
    }

    fn look(&mut self) -> Option<Because> {
        let used = self.used().filter(|used| *used > self.limit)?;
        let hit = Hit::Disk(self.limit);
        match self.interrupted {
            None => {
                self.interrupted = Some((Instant::now(), used));
                Some(Because::Interrupt(hit))
            }
            Some((at, then)) if at.elapsed() > DISK_GRACE && used > then => Some(Because::End(hit)),
            Some(_) => None,
        }
    }

    /// The cell has ended. The next one may write a little more, so that it can clean up.
    fn rest(&mut self) {
        if self.interrupted.take().is_some() {
            let used = self.used().unwrap_or_default();
            self.limit = self.limit.max(used.saturating_add(used / 10));
        }
    }
}

/// Bytes that an unprivileged user may still write to this directory's file system.
fn free(dir: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
