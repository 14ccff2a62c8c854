//! Cleans up after kernels whose Sponde was killed: processes, connection files, socket directories.
//!
//! Each socket directory records its owner and its kernel by process id **and** start time, because ids are reused.
//! Only what certainly belongs to a dead owner is touched. Linux only; elsewhere no owner is known to be dead.

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::file_names::{OWNER, PREFIX, is_connection_file};
use super::remove::remove_tree;

/// The owner of a socket directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    sponde: Running,
    /// The kernel, once it has been started.
    kernel: Option<Running>,
    /// Dormant copies of kernels, and processes around a confined kernel.
    #[serde(default)]
    copies: Vec<Running>,
    connection_file: PathBuf,
    /// Whether the kernel keeps running after we exit.
    #[serde(default)]
    kept: bool,
}

/// A kernel that a process of ours kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptKernel {
    /// Its process id.
    pub pid: u32,
    /// Its connection file.
    pub connection_file: PathBuf,
    /// Whether a process of ours is using it.
    pub in_use: bool,
}

/// A process, identified so that a later one with the same id is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pid: u32,
    /// Clock ticks after boot (proc(5), `starttime`).
    started: u64,
}

/// What was cleaned up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Kernels and copies that were still running and were killed, by process id.
    pub killed: Vec<u32>,
    /// Connection files and directories that were removed.
    pub removed: Vec<PathBuf>,
}

impl Owner {
    /// This process, and the kernel `pid`. `None` if start times cannot be read.
    pub(super) fn current(connection_file: &Path, pid: Option<u32>, kept: bool) -> Option<Self> {
        Some(Self {
            sponde: Running::of(std::process::id())?,
            kernel: pid.and_then(Running::of),
            copies: Vec::new(),
            connection_file: connection_file.to_owned(),
            kept,
        })
    }

    /// The kernel, if it is kept and running.
    fn kept(&self) -> Option<&Running> {
        let kernel = self.kernel.as_ref().filter(|_| self.kept);
        kernel.filter(|kernel| kernel.is_there())
    }

    /// This process, and copies of its kernels.
    pub(super) fn of_copies(pids: impl Iterator<Item = u32>) -> Option<Self> {
        Some(Self::current(Path::new(""), None, false)?.with(pids))
    }

    /// Adds these processes.
    pub(super) fn with(self, pids: impl Iterator<Item = u32>) -> Self {
        let copies = pids.filter_map(Running::of).collect();
        Self { copies, ..self }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl Running {
    /// An identifier of this process; `None` if start times cannot be read.
    pub fn current() -> Option<String> {
        let Self { pid, started } = Self::of(std::process::id())?;
        Some(format!("{pid}-{started}"))
    }

    /// Whether the process with such an identifier has certainly ended.
    pub fn is_gone(word: &str) -> bool {
        let parsed = word
            .split_once('-')
            .and_then(|(pid, started)| Some((pid.parse().ok()?, started.parse().ok()?)));
        // Without /proc every process would seem to be gone.
        parsed.is_some_and(|(pid, started)| {
            Self::current().is_some() && !Self { pid, started }.is_there()
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name in parentheses and may contain anything; the third is the state, the
        // 22nd the start time.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        if fields.next().is_none_or(|state| matches!(state, "Z" | "X")) {
            return None;
        }
        let started = fields.nth(18)?;
        Some(Self {
            pid,
            started: started.parse().ok()?,
        })
    }

    /// Whether it runs; zombies do not count.
    pub(super) fn is_there(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }
}

/// Cleans up what dead owners left below `socket_root`.
pub fn reap(socket_root: &Path) -> Reaped {
    let mut reaped = Reaped::default();
    // Without /proc every process would seem to be gone.
    if Running::of(std::process::id()).is_none() {
        return reaped;
    }
    for (dir, owner) in owners(socket_root) {
        if !owner.sponde.is_there() && owner.kept().is_none() {
            remove(&dir, owner, &mut reaped);
        }
    }
    reaped
}

/// The kernels below `socket_root` that were kept and still run.
pub fn kept(socket_root: &Path) -> Vec<KeptKernel> {
    let mut all: Vec<KeptKernel> = owners(socket_root)
        .filter_map(|(_, owner)| {
            Some(KeptKernel {
                pid: owner.kept()?.pid,
                connection_file: owner.connection_file.clone(),
                in_use: owner.sponde.is_there(),
            })
        })
        .collect();
    all.sort_by_key(|kernel| kernel.pid);
    all
}

/// Ends the kernels below `socket_root` that were kept and are not in use.
pub fn end_kept(socket_root: &Path) -> Reaped {
    let mut reaped = Reaped::default();
    for (dir, owner) in owners(socket_root) {
        if owner.kept && !owner.sponde.is_there() {
            remove(&dir, owner, &mut reaped);
        }
    }
    reaped
}

/// Whether the kernel of this connection file was kept and still runs.
pub fn is_kept(connection_file: &Path, socket_root: &Path) -> bool {
    kept_owner(connection_file, socket_root).is_some()
}

/// Interrupts such a kernel, even if a process of ours uses it.
pub fn interrupt_kept(connection_file: &Path, socket_root: &Path) {
    if let Some((_, owner)) = kept_owner(connection_file, socket_root)
        && let Some(kernel) = owner.kept()
        && let Some(group) = i32::try_from(kernel.pid).ok().and_then(Pid::from_raw)
    {
        // If it has gone, there is nothing to interrupt.
        let _ = kill_process_group(group, Signal::INT);
    }
}

/// Ends such a kernel, even if a process of ours uses it.
pub fn end_one_kept(connection_file: &Path, socket_root: &Path) {
    if let Some((dir, owner)) = kept_owner(connection_file, socket_root) {
        remove(&dir, owner, &mut Reaped::default());
    }
}

fn kept_owner(connection_file: &Path, socket_root: &Path) -> Option<(PathBuf, Owner)> {
    owners(socket_root)
        .find(|(_, owner)| owner.connection_file == connection_file && owner.kept().is_some())
}

/// Finds the kernel of this connection file, kept by a process that has ended: its directory, its process and the
/// processes around it; or why there is none.
pub(super) fn kept_at(
    connection_file: &Path,
    socket_root: &Path,
) -> Result<(PathBuf, Running, Vec<Running>), String> {
    let mut found = owners(socket_root);
    let (dir, owner) = found
        .find(|(_, owner)| owner.connection_file == connection_file)
        .ok_or("it has no directory any more")?;
    if owner.sponde.is_there() {
        return Err("another process uses it".to_owned());
    }
    let process = owner.kept().ok_or("it has ended")?.clone();
    Ok((dir, process, owner.copies))
}

/// Our directories below `socket_root`, with their owners.
fn owners(socket_root: &Path) -> impl Iterator<Item = (PathBuf, Owner)> {
    let entries = std::fs::read_dir(socket_root).into_iter().flatten();
    entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str().filter(|name| name.starts_with(PREFIX))?;
        let dir = entry.path();
        owner_of(&dir).map(|owner| (dir, owner))
    })
}

fn owner_of(dir: &Path) -> Option<Owner> {
    use std::os::unix::fs::MetadataExt as _;
    // In /tmp any user can create such a directory and name our kernels in it.
    let found = std::fs::symlink_metadata(dir).ok()?;
    if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let text = std::fs::read(dir.join(OWNER)).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Ends the kernel of a directory and removes its files.
fn remove(dir: &Path, owner: Owner, reaped: &mut Reaped) {
    // Processes around a kernel, and its copies, count as part of it.
    let mut is_told = false;
    for left in owner.kernel.iter().chain(&owner.copies) {
        if left.is_there()
            && let Some(group) = i32::try_from(left.pid).ok().and_then(Pid::from_raw)
            && kill_process_group(group, Signal::KILL).is_ok()
            && !std::mem::replace(&mut is_told, true)
        {
            reaped.killed.push(left.pid);
        }
    }
    if is_connection_file(&owner.connection_file)
        && std::fs::remove_file(&owner.connection_file).is_ok()
    {
        reaped.removed.push(owner.connection_file);
    }
    if remove_tree(dir).is_ok() {
        reaped.removed.push(dir.to_owned());
    }
}
