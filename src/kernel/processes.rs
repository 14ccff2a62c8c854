//! The processes of kernels and commands: all that descends from them, and all in the namespaces of those. They can be stopped
//! together and continued, and say what they take. Where there is no `/proc` none are found.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often it is looked for processes that were made while others were stopped.
const LOOKS: usize = 20;

/// Processes that stand still; parents stand before their children.
#[derive(Debug, Default)]
pub struct Stopped(Vec<Pid>);

/// What processes take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes of memory; what several share counts for each.
    pub memory: u64,
    /// Time of processors since they began, with their children that have ended.
    pub cpu: Duration,
}

/// Stops the processes `roots` and all that belong to them. A parent is stopped before its children: a shell does not see
/// that they stop, and nobody makes new ones.
pub fn stop(roots: &[u32]) -> Stopped {
    let mut stopped = Stopped::default();
    for _ in 0..LOOKS {
        let new = members(roots).into_iter().filter_map(Process::pid);
        let new: Vec<Pid> = new.filter(|pid| !stopped.0.contains(pid)).collect();
        if new.is_empty() {
            break;
        }
        for pid in new {
            let _ = kill_process(pid, Signal::STOP);
            stopped.0.push(pid);
        }
    }
    stopped
}

impl Stopped {
    /// Has them go on, children first.
    pub fn go_on(self) {
        for pid in self.0.into_iter().rev() {
            let _ = kill_process(pid, Signal::CONT);
        }
    }
}

/// What the processes `roots` and all that belong to them take.
pub fn taken(roots: &[u32]) -> Taken {
    let mut taken = Taken::default();
    let mut ticks = 0;
    for process in members(roots) {
        ticks += process.ticks;
        taken.memory += resident(process.id).unwrap_or_default();
    }
    let second = rustix::param::clock_ticks_per_second().max(1);
    taken.cpu = Duration::from_millis(ticks.saturating_mul(1000) / second);
    taken
}

/// Resident memory of a process, in bytes (proc(5), `statm`).
pub(super) fn resident(pid: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = statm.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages * u64::try_from(rustix::param::page_size()).ok()?)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    ticks: u64,
}

impl Process {
    fn pid(self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.id).ok()?)
    }

    fn of(id: u32) -> Option<Self> {
        Self::parse(
            id,
            &std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?,
        )
    }

    /// Behind the name in parentheses, which may have anything in it, are state, parent and more (proc(5)).
    fn parse(id: u32, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        // User and system time of its own, and of its children that were waited for.
        let ticks = (11..15).map(|at| number(at).unwrap_or_default()).sum();
        Some(Self {
            id,
            parent: number(1)?.try_into().ok()?,
            ticks,
        })
    }
}

/// Who belongs to `roots`, parents before children.
fn members(roots: &[u32]) -> Vec<Process> {
    let all: Vec<Process> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut members: Vec<Process> = all
        .iter()
        .filter(|it| roots.contains(&it.id))
        .copied()
        .collect();
    let mut known: HashSet<u32> = members.iter().map(|it| it.id).collect();
    descend(&all, &mut members, &mut known);
    // A process whose parent has ended belongs to the first one of its namespace.
    let own = namespace("self");
    let apart = members
        .iter()
        .filter_map(|it| namespace(&it.id.to_string()));
    let apart: HashSet<PathBuf> = apart.filter(|it| Some(it) != own.as_ref()).collect();
    if !apart.is_empty() {
        for process in &all {
            let is_inside =
                || namespace(&process.id.to_string()).is_some_and(|it| apart.contains(&it));
            if !known.contains(&process.id) && is_inside() {
                known.insert(process.id);
                members.push(*process);
            }
        }
    }
    members
}

fn descend(all: &[Process], members: &mut Vec<Process>, known: &mut HashSet<u32>) {
    let mut at = 0;
    while let Some(parent) = members.get(at).map(|it| it.id) {
        at += 1;
        for child in all.iter().filter(|it| it.parent == parent) {
            if known.insert(child.id) {
                members.push(*child);
            }
        }
    }
}

fn namespace(process: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_any_name() {
        let stat = "4321 (a) S 1 1 7 (b) S 17 4320 4319 34816 4321 4194304 0 0 0 0 1 2 3 4 20";
        let expected = Process {
            id: 4321,
            parent: 17,
            ticks: 10,
        };
        assert_eq!(Process::parse(4321, stat), Some(expected));
        assert_eq!(Process::parse(1, "1 (x"), None);
    }

    #[test]
    fn parents_come_before_their_children() {
        let process = |id, parent| Process {
            id,
            parent,
            ticks: 0,
        };
        let all = [process(9, 5), process(5, 3), process(3, 1), process(4, 1)];
        let mut members = vec![process(3, 1)];
        let mut known = HashSet::from([3]);
        descend(&all, &mut members, &mut known);
        assert_eq!(members, [process(3, 1), process(5, 3), process(9, 5)]);
    }
}
