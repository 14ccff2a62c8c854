//! How much memory the copies of a kernel use, as Linux accounts for it.
//!
//! Copies share pages with the kernel and with each other, so no process's own figure says what it uses. The kernel and
//! its copies together use the sum of their proportional sizes (`Pss` in proc(5), `smaps_rollup`); what exceeds the
//! kernel's own resident size is held by the copies alone.

use super::CheckpointId;

/// Memory, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Held by the copies only.
    pub held: u64,
    /// Resident memory of the kernel.
    pub live: u64,
    /// What the machine, or our control group, still has available.
    pub available: u64,
    /// What each copy shares with no other process: at least this much is freed when it is forgotten.
    pub private: Vec<(CheckpointId, u64)>,
}

/// Measures these processes next to the kernel `live`.
pub(super) fn measure(copies: &[(CheckpointId, u32)], live: Option<u32>) -> Memory {
    let kernel = live.and_then(Sizes::of).unwrap_or_default();
    let mut together = kernel.proportional;
    let mut private = Vec::new();
    for (id, process) in copies {
        let sizes = Sizes::of(*process).unwrap_or_default();
        together += sizes.proportional;
        private.push((*id, sizes.private));
    }
    Memory {
        held: together.saturating_sub(kernel.resident),
        live: kernel.resident,
        available: available(),
        private,
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sizes {
    resident: u64,
    proportional: u64,
    private: u64,
}

impl Sizes {
    fn of(process: u32) -> Option<Self> {
        std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))
            .ok()
            .map(|text| Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut sizes = Self::default();
        for line in text.lines() {
            let Some((name, bytes)) = line.split_once(':').map(|(n, v)| (n, kilobytes(v))) else {
                continue;
            };
            match name {
                "Rss" => sizes.resident = bytes,
                // Swapped-out memory counts as well.
                "Pss" | "SwapPss" => sizes.proportional += bytes,
                "Private_Clean" | "Private_Dirty" | "Private_Hugetlb" => sizes.private += bytes,
                _ => {}
            }
        }
        sizes
    }
}

/// Parses `  123 kB` into bytes; 0 for anything else.
fn kilobytes(text: &str) -> u64 {
    let number = text.trim().strip_suffix(" kB").unwrap_or_default();
    number.parse::<u64>().unwrap_or(0) * 1024
}

/// The memory available on the machine and in the control group of this process (cgroups(7), version 2).
fn available() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let machine = read("/proc/meminfo")
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .map_or(u64::MAX, kilobytes);
    let group = read("/proc/self/cgroup");
    let group = group.lines().find_map(|line| line.strip_prefix("0::"));
    let number = |file: &str| -> Option<u64> {
        let path = format!("/sys/fs/cgroup{}/{file}", group?.trim_end_matches('/'));
        read(&path).trim().parse().ok()
    };
    match (number("memory.max"), number("memory.current")) {
        (Some(limit), Some(used)) => machine.min(limit.saturating_sub(used)),
        _ => machine,
    }
}

#[cfg(test)]
mod tests {
    use super::Sizes;

    #[test]
    fn sizes_are_read_as_linux_writes_them() {
        let text = "55d0c0000000-7ffd1c1fe000 ---p 00000000 00:00 0    [rollup]\n\
            Rss:              363592 kB\nPss:              184211 kB\nPss_Dirty:        100000 kB\n\
            Shared_Clean:      20044 kB\nPrivate_Clean:      1024 kB\nPrivate_Dirty:      6144 kB\n\
            Swap:               2000 kB\nSwapPss:            1000 kB\n";
        assert_eq!(
            Sizes::parse(text),
            Sizes {
                resident: 363_592 * 1024,
                proportional: 185_211 * 1024,
                private: 7168 * 1024,
            }
        );
        assert_eq!(Sizes::parse("nonsense"), Sizes::default());
    }
}
