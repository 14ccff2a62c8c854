//! Whether a confined kernel came to one of its limits: looked at while cells run, when one ends, and at the kernel's end.
//!
//! A process that is killed for memory says nothing itself, and a disk has no limit of its own that we could set: so we
//! look.

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

/// After an interrupt because of the disk, until the kernel is ended.
const DISK_GRACE: Duration = Duration::from_secs(5);

/// How long before its end a kernel's memory is the likely reason of it.
const LATELY: Duration = Duration::from_secs(10);
/// How often a group is tried to be removed, while what is in it ends.
const GROUP_GOES: usize = 100;
const GROUP_GOES_EVERY: Duration = Duration::from_millis(100);

/// What is watched of one life of a kernel.
#[derive(Debug)]
pub(super) struct LimitWatch {
    limits: Limits,
    group: Option<Group>,
    /// When processes were killed for memory last: the kernel may be seen to have ended only later.
    killed: Option<(Instant, Hit)>,
    disk: Option<Disk>,
    /// When there was something to do last.
    busy: Instant,
}

#[derive(Debug)]
struct Disk {
    dir: PathBuf,
    /// Free bytes when the kernel started.
    before: u64,
    limit: u64,
    /// When the cell that took too much was interrupted, and what it had taken.
    interrupted: Option<(Instant, u64)>,
}

/// What is to be done because of a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Because {
    /// Somebody should know.
    Tell(Hit),
    /// The cell has to end.
    Interrupt(Hit),
    /// The kernel has to.
    End(Hit),
}

impl LimitWatch {
    /// Of a kernel that is confined and runs as process `pid`.
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

    /// Something happened; `runs` says whether a cell runs.
    pub(super) fn note(&mut self, runs: bool) {
        self.busy = Instant::now();
        if let Some(disk) = &mut self.disk
            && !runs
        {
            disk.rest();
        }
    }

    /// When it has had nothing to do for too long.
    pub(super) fn idle_end(&self) -> Option<Instant> {
        self.limits.idle.map(|idle| self.busy + idle)
    }

    pub(super) fn idle(&self) -> ExitReason {
        ExitReason::Limit(Hit::Idle(self.limits.idle.unwrap_or_default()).to_string())
    }

    /// What was hit since this was asked last.
    pub(super) fn look(&mut self) -> Vec<Because> {
        let hits = self.hits();
        let mut all: Vec<Because> = hits.into_iter().map(Because::Tell).collect();
        if let Some(disk) = &mut self.disk {
            all.extend(disk.look());
        }
        all
    }

    /// Which limit may be behind an exception.
    pub(super) fn behind(&self, error: &ErrorContent) -> Option<String> {
        self.limits
            .behind(&format!("{}: {}", error.ename, error.evalue))
    }

    /// The end of the kernel as it was, or the limit that was the reason of it.
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

    /// The kernel has ended: its group goes as soon as nothing is in it. Copies to go back to may still be.
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
        // What is left then is removed by who makes the next group when we are gone.
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

    /// The cell has ended. The next one may take a little more: it must be able to tidy up.
    fn rest(&mut self) {
        if self.interrupted.take().is_some() {
            let used = self.used().unwrap_or_default();
            self.limit = self.limit.max(used.saturating_add(used / 10));
        }
    }
}

/// What a person may still write where this directory is.
fn free(dir: &std::path::Path) -> Option<u64> {
    let found = rustix::fs::statvfs(dir).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
