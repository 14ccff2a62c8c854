//! Resource limits of a confined kernel: a [control group](super::cgroup) for all of its processes together where one
//! can be created, limits of the operating system for each process (getrlimit(2)) everywhere, sizes of temporary
//! directories, and which process is killed first when memory is short.
//!
//! Per process, memory is limited as private writable data (`RLIMIT_DATA`), not as address space: Java, Deno and V8
//! reserve much more address space than they use, and do not start under `RLIMIT_AS`.
//!
//! Deliberately not here: checking whether a limit was hit (`kernel::actor`).

use std::fmt;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limits, in bytes unless they are counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Number of processes and threads.
    pub processes: u64,
    /// Size of one file.
    pub file: u64,
    /// Open files per process.
    pub open_files: u64,
    /// Memory per process, and of all together in a control group.
    pub memory: u64,
    /// Size of each of `/tmp`, `/dev/shm` and the kernel's home directory.
    pub temporary: u64,
    /// Seconds of processor time per process; `None` for no limit.
    pub cpu: Option<u64>,
    /// Bytes written to the disk that has the working directory; `None` for three quarters of what is free when the
    /// kernel starts.
    pub disk: Option<u64>,
    /// How long a kernel may be idle; `None` for no limit.
    pub idle: Option<Duration>,
}

/// A limit that a kernel hit, as text for people and models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hit {
    /// Memory of a control group.
    Memory(u64),
    /// Processes of a control group.
    Processes(u64),
    /// Seconds of processor time.
    Cpu(Option<u64>),
    /// Size of one file.
    File(Option<u64>),
    /// Bytes written to the disk with the working directory.
    Disk(u64),
    /// Idle for this long.
    Idle(Duration),
}

/// Prefix of the text in a cell that reports a limit.
pub const HIT: &str = "limit of this kernel: ";
/// The same for a limit that may have caused an exception.
pub const MAY_BE_HIT: &str = "a limit of this kernel may be the reason: ";

/// How likely a confined kernel is killed when memory is short (proc(5), `oom_score_adj`): before Sponde itself.
const OOM_SCORE: &str = "500";
const GIBIBYTE: u64 = 1 << 30;
/// Seconds from the signal that a program can handle until it is killed.
const CPU_GRACE: u64 = 5;

impl Default for Limits {
    fn default() -> Self {
        let machine = memory_of_the_machine().unwrap_or(8 * GIBIBYTE);
        Self {
            processes: 4096,
            file: 64 * GIBIBYTE,
            open_files: 65_536,
            memory: machine / 4 * 3,
            temporary: (machine / 8).max(64 << 20),
            cpu: None,
            disk: None,
            idle: None,
        }
    }
}

impl Limits {
    /// Applies the per-process limits to this process and everything it starts. A limit that is already lower stays.
    /// `others` is the number of the user's other processes, which count too.
    pub(super) fn apply(&self, others: u64) {
        let mut limits = vec![
            (Resource::Nproc, self.processes.saturating_add(others)),
            (Resource::Fsize, self.file),
            (Resource::Nofile, self.open_files),
            (Resource::Data, self.memory),
            (Resource::Core, 0),
        ];
        limits.extend(self.cpu.map(|cpu| (Resource::Cpu, cpu)));
        for (resource, wanted) in limits {
            let now = getrlimit(resource);
            let lower =
                |now: Option<u64>, wanted: u64| Some(now.map_or(wanted, |now| now.min(wanted)));
            let most = match resource {
                Resource::Cpu => wanted.saturating_add(CPU_GRACE),
                _ => wanted,
            };
            // Keep the usual soft limit of open files: some programs close that many when they start.
            let current = if resource == Resource::Nofile {
                now.current.map(|soft| soft.min(wanted)).or(Some(wanted))
            } else {
                lower(now.current, wanted)
            };
            let maximum = lower(now.maximum, most);
            // Lowering a limit is never refused.
            let _ = setrlimit(resource, Rlimit { current, maximum });
        }
        let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    }

    /// The limit that may have caused an exception with this text.
    pub(in crate::kernel) fn behind(&self, error: &str) -> Option<String> {
        const MEMORY: [&str; 7] = [
            "MemoryError",
            "Unable to allocate",
            "annot allocate",
            "std::bad_alloc",
            "out of memory",
            "OutOfMemory",
            "memory exhausted",
        ];
        const PROCESSES: [&str; 3] = [
            "Resource temporarily unavailable",
            "can't start new thread",
            "unable to create native thread",
        ];
        let has = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let limit = if has(&MEMORY) {
            format!("{} of memory (`memory`", bytes(self.memory))
        } else if has(&PROCESSES) {
            format!("{} processes and threads (`processes`", self.processes)
        } else if has(&["File too large", "EFBIG"]) {
            format!("files of {} (`file`", bytes(self.file))
        } else if has(&["Too many open files", "EMFILE"]) {
            format!("{} open files (`open-files`", self.open_files)
        } else if has(&["No space left on device", "ENOSPC"]) {
            format!("{} of temporary files (`temporary`", bytes(self.temporary))
        } else {
            return None;
        };
        Some(format!(
            "{MAY_BE_HIT}{limit} in `[kernel-limits]` of config.toml)"
        ))
    }
}

impl fmt::Display for Hit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |limit: &Option<u64>| {
            limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)))
        };
        match self {
            Self::Memory(limit) => write!(f, "it used more than {} of memory", bytes(*limit)),
            Self::Processes(limit) => write!(f, "it made more than {limit} processes and threads"),
            Self::Cpu(Some(seconds)) => {
                write!(f, "it used more than {seconds} s of processor time")
            }
            Self::Cpu(None) => f.write_str("it exceeded its limit on processor time"),
            Self::File(limit) => write!(f, "it wrote a file larger than its limit{}", of(limit)),
            Self::Disk(limit) => write!(f, "it took more than {} of the disk", bytes(*limit)),
            Self::Idle(idle) => write!(f, "it was idle for {} s", idle.as_secs()),
        }
    }
}

/// Processes and threads of this user, which `RLIMIT_NPROC` counts whoever started them.
pub(super) fn processes_of_this_user() -> u64 {
    let user = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = entries.filter_map(|entry| {
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        (field("Uid:")? == u64::from(user)).then(|| field("Threads:"))?
    });
    threads.sum()
}

fn bytes(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            let tenths = bytes.saturating_mul(10) / unit;
            return match (tenths / 10, tenths % 10) {
                (whole, 0) => format!("{whole} {name}"),
                (whole, tenth) => format!("{whole}.{tenth} {name}"),
            };
        }
    }
    format!("{bytes} bytes")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_with_the_limit_that_may_be_behind_it() {
        let limits = Limits {
            memory: 3 << 29,
            processes: 300,
            ..Limits::default()
        };
        for (error, words) in [
            ("MemoryError: ", Some("1.5 GB of memory (`memory` in")),
            (
                "Error: cannot allocate vector of size 7.5 Gb",
                Some("1.5 GB"),
            ),
            (
                "RuntimeError: can't start new thread",
                Some("300 processes"),
            ),
            ("OSError: [Errno 27] File too large", Some("files of 64 GB")),
            ("ValueError: no", None),
        ] {
            let told = limits.behind(error);
            assert_eq!(told.is_some(), words.is_some(), "{error}");
            assert!(
                told.is_none_or(|told| told.contains(words.unwrap())),
                "{error}"
            );
        }
    }

    #[test]
    fn processes_of_one_s_own_are_counted() {
        assert!(processes_of_this_user() > 0);
    }
}
