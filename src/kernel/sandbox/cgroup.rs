//! Control groups (cgroups(7)), version 2 or 1: they limit memory and processes of a kernel and all its children
//! together, and count what was hit.
//!
//! A group is created beside or below ours, where that is permitted: as root, in a container with its own cgroup, or in
//! the services and scopes of a systemd user session. `/proc/PID/cgroup` leads back to it, so nobody has to keep a
//! handle, even for kept kernels and woken copies. Empty groups of programs that have exited are removed.
//!
//! Deliberately not here: a group tree of our own. That would require moving processes that are not ours.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::limits::{Hit, Limits};

/// Prefix of our groups' names, before Sponde's process id.
const PREFIX: &str = "sponde-";

/// A directory of the cgroup file system in which groups can be created.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    /// Names of its controllers.
    controllers: Vec<String>,
    mount: PathBuf,
    /// The directory of a process in it.
    at: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The file through which a single-threaded process joins.
    fn join(self) -> &'static str {
        match self {
            // Linux lets a thread move itself without waiting until no process forks (10 ms).
            Self::One => "tasks",
            Self::Two => "cgroup.procs",
        }
    }
}

const MEMORY: &str = "memory";
const PROCESSES: &str = "pids";

/// The group of a kernel.
#[derive(Debug)]
pub(in crate::kernel) struct Group {
    memory: Option<(Version, PathBuf)>,
    processes: Option<(Version, PathBuf)>,
    seen: (u64, u64),
}

/// Whether the memory and processes of a confined kernel can be limited together here, for root too.
///
/// # Errors
/// Why not.
pub fn together() -> Result<(), String> {
    Group::possible()
}

impl Group {
    /// Creates a group with these limits and returns the files through which a process joins it. Empty if none can be
    /// created.
    pub(super) fn make(limits: &Limits) -> Vec<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{count}", std::process::id());
        let mut joins = Vec::new();
        for (version, controllers, parent) in parents() {
            sweep(&parent);
            let dir = parent.join(&name);
            if std::fs::create_dir(&dir).is_err() {
                continue;
            }
            let limited = controllers.iter().all(|controller| {
                settings(version, controller, limits)
                    .into_iter()
                    .all(|(file, value, is_needed)| {
                        std::fs::write(dir.join(file), value).is_ok() || !is_needed
                    })
            });
            if limited {
                joins.push(dir.join(version.join()));
            } else {
                let _ = std::fs::remove_dir(&dir);
            }
        }
        joins
    }

    /// Whether a group can be created that limits both; the error says why not.
    pub(super) fn possible() -> Result<(), String> {
        let parents = parents();
        let has = |controller: &str| {
            parents
                .iter()
                .any(|(_, controllers, _)| controllers.iter().any(|it| it == controller))
        };
        if !has(MEMORY) || !has(PROCESSES) {
            return Err("no control group can be made here for memory and processes".to_owned());
        }
        for (_, _, parent) in &parents {
            let probe = parent.join(format!("{PREFIX}{}-probe", std::process::id()));
            let made = std::fs::create_dir(&probe);
            let _ = std::fs::remove_dir(&probe);
            made.map_err(|error| {
                format!(
                    "no control group can be made in `{}`: {error}",
                    parent.display()
                )
            })?;
        }
        Ok(())
    }

    /// The group of a process, if it is one of ours.
    pub(in crate::kernel) fn of(pid: u32) -> Option<Self> {
        let mut group = Self {
            memory: None,
            processes: None,
            seen: (0, 0),
        };
        for hierarchy in hierarchies(&format!("/proc/{pid}/cgroup")) {
            let name = hierarchy.at.file_name()?.to_string_lossy().into_owned();
            if !name.starts_with(PREFIX) {
                continue;
            }
            let found = (hierarchy.version, hierarchy.at.clone());
            if hierarchy.limits(MEMORY) {
                group.memory = Some(found.clone());
            }
            if hierarchy.limits(PROCESSES) {
                group.processes = Some(found);
            }
        }
        if group.memory.is_none() && group.processes.is_none() {
            return None;
        }
        group.seen = group.counts();
        Some(group)
    }

    /// What was hit since the last call.
    pub(in crate::kernel) fn hits(&mut self) -> Vec<Hit> {
        let (killed, refused) = self.counts();
        let (before_killed, before_refused) = std::mem::replace(&mut self.seen, (killed, refused));
        let limit = |group: &Option<(Version, PathBuf)>, one: &str, two: &str| {
            let (version, dir) = group.as_ref()?;
            let file = match version {
                Version::One => one,
                Version::Two => two,
            };
            std::fs::read_to_string(dir.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let mut hits = Vec::new();
        if killed > before_killed {
            let most = limit(&self.memory, "memory.limit_in_bytes", "memory.max");
            hits.push(Hit::Memory(most.unwrap_or_default()));
        }
        if refused > before_refused {
            let most = limit(&self.processes, "pids.max", "pids.max");
            hits.push(Hit::Processes(most.unwrap_or_default()));
        }
        hits
    }

    /// Removes the group if it is empty; returns whether it is gone.
    pub(in crate::kernel) fn remove(&self) -> bool {
        let mut is_gone = true;
        for (_, dir) in self.memory.iter().chain(&self.processes) {
            let _ = std::fs::remove_dir(dir);
            is_gone &= !dir.exists();
        }
        is_gone
    }

    /// How many processes were killed for memory, and how many could not be created.
    fn counts(&self) -> (u64, u64) {
        let count = |group: &Option<(Version, PathBuf)>, one: &str, two: &str, key: &str| {
            let (version, dir) = group.as_ref()?;
            let file = match version {
                Version::One => one,
                Version::Two => two,
            };
            let text = std::fs::read_to_string(dir.join(file)).ok()?;
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse().ok()
        };
        let killed = count(
            &self.memory,
            "memory.oom_control",
            "memory.events",
            "oom_kill ",
        );
        let refused = count(&self.processes, "pids.events", "pids.events", "max ");
        (killed.unwrap_or_default(), refused.unwrap_or_default())
    }
}

impl Hierarchy {
    fn limits(&self, controller: &str) -> bool {
        self.version == Version::Two || self.controllers.iter().any(|it| it == controller)
    }
}

/// Files of a new group, their values, and whether writing them must succeed.
fn settings(
    version: Version,
    controller: &str,
    limits: &Limits,
) -> Vec<(&'static str, String, bool)> {
    let memory = limits.memory.to_string();
    match (version, controller) {
        (Version::One, MEMORY) => vec![
            ("memory.limit_in_bytes", memory.clone(), true),
            // Only if swap is counted.
            ("memory.memsw.limit_in_bytes", memory, false),
        ],
        (Version::Two, MEMORY) => vec![
            ("memory.max", memory, true),
            ("memory.swap.max", "0".to_owned(), false),
        ],
        (_, PROCESSES) => vec![("pids.max", limits.processes.to_string(), true)],
        _ => Vec::new(),
    }
}

/// Where groups can be created that limit memory and processes: directories, each with its controllers.
fn parents() -> Vec<(Version, Vec<String>, PathBuf)> {
    let mut parents: Vec<(Version, Vec<String>, PathBuf)> = Vec::new();
    for hierarchy in hierarchies("/proc/self/cgroup") {
        let wanted: Vec<String> = match hierarchy.version {
            Version::One => hierarchy.controllers.clone(),
            Version::Two => [MEMORY, PROCESSES].map(str::to_owned).into(),
        };
        let wanted: Vec<String> = wanted
            .into_iter()
            .filter(|it| it == MEMORY || it == PROCESSES)
            .collect();
        let taken = |it: &String| parents.iter().any(|(_, has, _)| has.contains(it));
        if wanted.is_empty() || wanted.iter().any(taken) {
            continue;
        }
        // In version 2, a group that has processes cannot have limited subgroups: take the nearest ancestor that can.
        let dir = hierarchy.at.ancestors().find(|dir| {
            let passes_on = || {
                let text = std::fs::read_to_string(dir.join("cgroup.subtree_control"));
                let text = text.unwrap_or_default();
                wanted
                    .iter()
                    .all(|it| text.split_whitespace().any(|has| has == it))
            };
            hierarchy.version == Version::One || dir.starts_with(&hierarchy.mount) && passes_on()
        });
        let writable = |dir: &&Path| {
            let may = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
            // Moving a process requires write access to this file.
            may(dir) && may(&dir.join("cgroup.procs"))
        };
        if let Some(dir) = dir.filter(writable) {
            parents.push((hierarchy.version, wanted, dir.to_owned()));
        }
    }
    parents
}

/// Where a process is, from its `/proc/PID/cgroup` and our mounts.
fn hierarchies(of: &str) -> Vec<Hierarchy> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    parse(&read("/proc/self/mountinfo"), &read(of))
}

fn parse(mounts: &str, groups: &str) -> Vec<Hierarchy> {
    let mut found = Vec::new();
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else {
            continue;
        };
        let left: Vec<&str> = left.split(' ').collect();
        let right: Vec<&str> = right.split(' ').collect();
        let (Some(root), Some(mount), Some(kind)) = (left.get(3), left.get(4), right.first())
        else {
            continue;
        };
        let (version, options) = match *kind {
            "cgroup2" => (Version::Two, ""),
            "cgroup" => (Version::One, right.get(2).copied().unwrap_or_default()),
            _ => continue,
        };
        let options: Vec<&str> = options.split(',').collect();
        let group = groups.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, names, path) = (fields.next()?, fields.next()?, fields.next()?);
            let is_it = match version {
                Version::Two => names.is_empty(),
                Version::One => {
                    !names.is_empty() && names.split(',').all(|name| options.contains(&name))
                }
            };
            is_it.then_some((names, path))
        });
        let Some((names, path)) = group else {
            continue;
        };
        // Groups outside of the mounted part cannot be reached.
        let Ok(below) = Path::new(path).strip_prefix(root) else {
            continue;
        };
        found.push(Hierarchy {
            version,
            controllers: names.split(',').map(str::to_owned).collect(),
            mount: mount.into(),
            at: Path::new(mount).join(below),
        });
    }
    found
}

/// Removes groups of programs that have exited; a group that still has processes stays, because those were kept.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'));
        if owner.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mounts: &str, groups: &str) -> Vec<(Version, String)> {
        let found = parse(mounts, groups).into_iter();
        found
            .map(|it| (it.version, it.at.display().to_string()))
            .collect()
    }

    #[test]
    fn a_process_is_found_in_both_versions() {
        let two = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
        let groups = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope\n";
        let path = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope";
        assert_eq!(at(two, groups), [(Version::Two, path.to_owned())]);
        let one = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                   36 31 0:33 /a /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                   37 31 0:34 /b /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids";
        let groups = "4:memory:/m\n2:cpu,cpuacct:/a/c\n3:pids:/elsewhere\n0::/\n";
        let expected = [
            (Version::One, "/sys/fs/cgroup/memory/m".to_owned()),
            (Version::One, "/sys/fs/cgroup/cpu/c".to_owned()),
        ];
        assert_eq!(at(one, groups), expected);
    }
}
