//! The mechanisms that enforce a policy, and the gaps of each.

use std::path::PathBuf;

const GVISOR_GAPS: &[&str] =
    &["memory and processes are limited only where a control group can be made"];
const SEATBELT_GAPS: &[&str] = &[
    "nothing limits memory and processes together, nor the size of temporary files",
    "names and command lines of other processes can be seen",
];

/// A mechanism that enforces a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tier {
    /// Namespaces made by bubblewrap, with seccomp.
    Bubblewrap {
        /// Path of `bwrap`.
        program: PathBuf,
    },
    /// Landlock with seccomp.
    Landlock,
    /// A kernel in user space; used only on request.
    Gvisor {
        /// Path of `runsc`.
        program: PathBuf,
    },
    /// The sandbox of macOS.
    Seatbelt,
}

impl Tier {
    /// Its name, for people.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bubblewrap { .. } => "bubblewrap",
            Self::Landlock => "Landlock",
            Self::Gvisor { .. } => "gVisor",
            Self::Seatbelt => "Seatbelt (untested)",
        }
    }

    /// What it creates around a kernel, if anything.
    pub(in crate::kernel) fn cage(&self) -> Option<CageKind> {
        match self {
            Self::Bubblewrap { .. } => Some(CageKind::Namespaces),
            Self::Gvisor { .. } => Some(CageKind::Gvisor),
            Self::Landlock | Self::Seatbelt => None,
        }
    }

    /// What it cannot prevent and bubblewrap can; one clause each.
    pub fn gaps(&self) -> &'static [&'static str] {
        match self {
            Self::Bubblewrap { .. } => &[],
            Self::Gvisor { .. } => GVISOR_GAPS,
            Self::Seatbelt => SEATBELT_GAPS,
            Self::Landlock => &[
                "code can connect to unix sockets that have a path, such as Docker's, where its user may",
                "names, sizes and modes of files anywhere can be seen, and modes of the person's own changed",
                "`.git` and `SPONDE.md` in the working directory can be changed",
                "names and command lines of other processes can be seen",
                "`/dev/shm` is shared and has no limit of its own",
            ],
        }
    }

    /// The same for a network allow-list.
    pub fn network_gaps(&self) -> &'static [&'static str] {
        match self {
            Self::Bubblewrap { .. } | Self::Gvisor { .. } => &[],
            Self::Seatbelt => &["programs that know of no HTTP_PROXY have no network"],
            Self::Landlock => &[
                "code can connect to any machine at the one port of Sponde's proxy",
                "programs that know of no HTTP_PROXY have no network",
            ],
        }
    }
}

/// How a kernel is enclosed, and so how it is reached from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kernel) enum CageKind {
    /// Namespaces of this machine: code inside runs as ordinary processes.
    Namespaces,
    /// A kernel of its own: nothing inside is a process of this machine.
    Gvisor,
}
