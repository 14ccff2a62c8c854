//! Confinement without namespaces: Landlock restricts which files, TCP ports and processes can be reached.
//!
//! [`super::tier::Tier::gaps`] lists what it cannot do. A path inside of a writable tree cannot be excluded.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible as _, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use serde::{Deserialize, Serialize};

use super::net::Network;

/// What a process can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reach {
    /// Trees to read.
    pub(super) readable: Vec<PathBuf>,
    /// Trees to write.
    pub(super) writable: Vec<PathBuf>,
    /// The network.
    pub(super) network: Network,
    /// TCP ports to listen on: those of a kernel's connection file.
    pub(super) ports: Vec<u16>,
    /// The only TCP port to connect to if hosts are allowed by name: that of our proxy, at any address.
    pub(super) proxy: Option<u16>,
}

/// The newest version supported here. Older kernels do what they can, but never less than [`REQUIRED`].
const NEWEST: ABI = ABI::V9;
/// Linux 6.12, which added signals and abstract unix sockets.
const REQUIRED: ABI = ABI::V6;
/// Devices that every program uses.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
];
/// `sem_open` and `shm_open` of `multiprocessing` create files there.
const SHARED_MEMORY: &str = "/dev/shm";
/// Its own processes and their threads; Landlock protects the secrets of others in there as from ptrace.
const PROCESSES: &str = "/proc";

/// Restricts this thread and everything that it starts.
///
/// # Errors
/// If the kernel cannot do everything that is required.
pub(super) fn apply(reach: &Reach) -> Result<(), String> {
    let status = restrict(reach).map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::NotEnforced => Err("Landlock is not there".to_owned()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn restrict(reach: &Reach) -> Result<RulesetStatus, landlock::RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .scope(Scope::from_all(REQUIRED))?;
    if reach.network != Network::On {
        ruleset = ruleset.handle_access(AccessNet::from_all(REQUIRED))?;
    }
    let mut created = ruleset
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .create()?;
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    for path in &reach.readable {
        created = allow_below(created, path, read)?;
    }
    created = allow_below(created, Path::new(PROCESSES), read)?;
    for path in &reach.writable {
        // It must not create devices.
        created = allow_below(
            created,
            path,
            all & !(AccessFs::MakeChar | AccessFs::MakeBlock),
        )?;
    }
    for path in DEVICES {
        let device = read | AccessFs::WriteFile | AccessFs::IoctlDev;
        created = allow_below(created, Path::new(path), device)?;
    }
    let memory =
        read | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::RemoveFile | AccessFs::Truncate;
    created = allow_below(created, Path::new(SHARED_MEMORY), memory)?;
    if reach.network != Network::On {
        if let Some(port) = reach.proxy {
            created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
        for &port in &reach.ports {
            created = created.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
        }
    }
    Ok(created.restrict_self()?.ruleset)
}

/// Adds a rule, unless the path does not exist.
fn allow_below(
    created: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, landlock::RulesetError> {
    let Ok(opened) = PathFd::new(path) else {
        return Ok(created);
    };
    // Some rights exist for directories only and cannot be granted on a file.
    let access = if path.is_dir() {
        access
    } else {
        access & AccessFs::from_file(NEWEST)
    };
    created.add_rule(PathBeneath::new(opened, access))
}
