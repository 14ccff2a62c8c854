//! What is left of kernels whose Sponde was killed: a process here and there, connection files, socket directories.
//!
//! Each socket directory names its owner and its kernel by process id **and** start time, because ids come back. Only
//! what certainly belongs to an owner that is gone is touched. Linux only; elsewhere nothing is known to be gone.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::files::{OWNER, PREFIX, is_connection_file};

/// Whose a socket directory is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    sponde: Running,
    /// The kernel, once it has been started.
    kernel: Option<Running>,
    /// Dormant copies of kernels.
    #[serde(default)]
    copies: Vec<Running>,
    connection_file: PathBuf,
}

/// A process that cannot be taken for a later one with the same id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pid: u32,
    /// Clock ticks after boot (proc(5), `starttime`).
    started: u64,
}

/// What was cleaned up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Kernels and copies of them that still ran and were killed, by process id.
    pub killed: Vec<u32>,
    /// Connection files and directories that were removed.
    pub removed: Vec<PathBuf>,
}

impl Owner {
    /// This process, and the kernel `pid`. `None` where start times cannot be read.
    pub(super) fn current(connection_file: &Path, pid: Option<u32>) -> Option<Self> {
        Some(Self {
            sponde: Running::of(std::process::id())?,
            kernel: pid.and_then(Running::of),
            copies: Vec::new(),
            connection_file: connection_file.to_owned(),
        })
    }

    /// This process, and copies of its kernels.
    pub(super) fn of_copies(pids: impl Iterator<Item = u32>) -> Option<Self> {
        let copies = pids.filter_map(Running::of).collect();
        let owner = Self::current(Path::new(""), None)?;
        Some(Self { copies, ..owner })
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Running {
    /// This process, in a word; `None` where start times cannot be read.
    pub fn current() -> Option<String> {
        let Self { pid, started } = Self::of(std::process::id())?;
        Some(format!("{pid}-{started}"))
    }

    /// Whether the process of such a word has certainly ended.
    pub fn is_gone(word: &str) -> bool {
        let parsed = word
            .split_once('-')
            .and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
        // Without /proc everybody would seem to be gone.
        parsed.is_some_and(|(pid, started)| {
            Self::current().is_some() && !Self { pid, started }.is_there()
        })
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name, in brackets, and may hold anything; the 22nd is the start time.
        let started = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?;
        Some(Self {
            pid,
            started: started.parse().ok()?,
        })
    }

    fn is_there(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

/// Cleans up below `socket_root` what owners that are gone have left.
pub fn reap(socket_root: &Path) -> Reaped {
    let mut reaped = Reaped::default();
    // Without /proc everybody would seem to be gone.
    if Running::of(std::process::id()).is_none() {
        return reaped;
    }
    for entry in std::fs::read_dir(socket_root)
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX))
        {
            reap_dir(&entry.path(), &mut reaped);
        }
    }
    reaped
}

fn reap_dir(dir: &Path, reaped: &mut Reaped) {
    use std::os::unix::fs::MetadataExt as _;
    // In /tmp anybody can make such a directory and name our kernels in it.
    let ours = std::fs::symlink_metadata(dir)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw());
    let owner = std::fs::read(dir.join(OWNER))
        .ok()
        .and_then(|text| serde_json::from_slice::<Owner>(&text).ok())
        .filter(|owner| ours && !owner.sponde.is_there());
    let Some(owner) = owner else {
        return;
    };
    for left in owner.kernel.iter().chain(&owner.copies) {
        if left.is_there()
            && let Some(group) = i32::try_from(left.pid).ok().and_then(Pid::from_raw)
            && kill_process_group(group, Signal::KILL).is_ok()
        {
            reaped.killed.push(left.pid);
        }
    }
    if is_connection_file(&owner.connection_file)
        && std::fs::remove_file(&owner.connection_file).is_ok()
    {
        reaped.removed.push(owner.connection_file);
    }
    if std::fs::remove_dir_all(dir).is_ok() {
        reaped.removed.push(dir.to_owned());
    }
}
