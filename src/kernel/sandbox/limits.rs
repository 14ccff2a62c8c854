//! How much of the machine a confined kernel may take: limits of the operating system for each process (getrlimit(2)),
//! sizes of temporary places, and who goes first when memory is short.
//!
//! Memory is limited as private data that can be written (`RLIMIT_DATA`), not as address space: Java, Deno and V8
//! reserve much more of that than they use, and do not start under `RLIMIT_AS`.
//!
//! Deliberately not here: control groups. The limits are for each process, and real root's processes are not counted.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limits. Bytes, where they are not counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads at a time.
    pub processes: u64,
    /// Of one file.
    pub file: u64,
    /// Open files of a process.
    pub open_files: u64,
    /// Memory of a process.
    pub memory: u64,
    /// Of each of `/tmp`, `/dev/shm` and the kernel's home directory.
    pub temporary: u64,
}

/// How likely a confined kernel is killed when memory is short (proc(5), `oom_score_adj`): before Sponde.
const OOM_SCORE: &str = "500";
const GIBIBYTE: u64 = 1 << 30;

impl Default for Limits {
    fn default() -> Self {
        let machine = memory_of_the_machine().unwrap_or(8 * GIBIBYTE);
        Self {
            processes: 4096,
            file: 64 * GIBIBYTE,
            open_files: 65_536,
            memory: machine / 4 * 3,
            temporary: (machine / 8).max(64 << 20),
        }
    }
}

impl Limits {
    /// Applies them to this process and all that it starts. A limit that is lower already stays.
    pub(super) fn apply(&self) {
        let limits = [
            (Resource::Nproc, self.processes),
            (Resource::Fsize, self.file),
            (Resource::Nofile, self.open_files),
            (Resource::Data, self.memory),
            (Resource::Core, 0),
        ];
        for (resource, wanted) in limits {
            let now = getrlimit(resource);
            let lower = |now: Option<u64>| Some(now.map_or(wanted, |now| now.min(wanted)));
            // The usual soft limit of open files stays: programs close that many at their start.
            let current = if resource == Resource::Nofile {
                now.current.map(|soft| soft.min(wanted)).or(Some(wanted))
            } else {
                lower(now.current)
            };
            let maximum = lower(now.maximum);
            // Lower than before is never refused.
            let _ = setrlimit(resource, Rlimit { current, maximum });
        }
        let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    }
}

/// `MemTotal` of proc(5), in bytes.
fn memory_of_the_machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
