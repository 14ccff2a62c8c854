//! Finds out which tier works here by running it, and what it cannot do.
//!
//! A version or a setting says little: distributions forbid namespaces to some programs and not to others. So we run
//! the command that will start kernels, with `true` in place of the kernel.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::confine::{How, Order};
use super::known;
use super::landlock::Reach;
use super::limits::Limits;
use super::net::Network;
use super::seccomp::Internet;
pub use super::tier::Tier;
use super::trial::run;

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkingTier {
    /// The best tier that works.
    pub tier: Option<Tier>,
    /// Why a better tier does not work, and a hint for each.
    pub missing: Vec<(String, &'static str)>,
}

const GVISOR: &str = "install gVisor's `runsc` (`apt install runsc`), or leave `gvisor` out to use bubblewrap or Landlock";
/// Why gVisor cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGvisor {
    /// `runsc` was not found.
    #[error("there is no gVisor (`runsc`)")]
    Missing,
    /// It was tried and failed.
    #[error("`{}` does not work: {reason}", .runsc.display())]
    Fails {
        /// The program.
        runsc: PathBuf,
        /// Its error output.
        reason: String,
    },
}

impl NoGvisor {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing => GVISOR,
            Self::Fails { .. } => {
                "it needs user namespaces, or root; leave `gvisor` out to use bubblewrap or Landlock"
            }
        }
    }
}

const INSTALL: &str = "install bubblewrap: `apt install bubblewrap`, `dnf install bubblewrap`, or `pacman -S bubblewrap`";
const APPARMOR: &str = "the system forbids namespaces to ordinary programs: on Ubuntu 24.04 and Debian 13 `apt install apparmor-profiles` and \
    `ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && systemctl reload apparmor`; else \
    `sysctl kernel.unprivileged_userns_clone=1`";
const KERNEL: &str = "Landlock needs Linux 6.12 with `landlock` among its security modules (`/sys/kernel/security/lsm`)";

/// The bubblewrap that [`probe`] would find, if the file `known` says that it worked recently ([`super::known`]).
pub fn worked(
    program: &Path,
    own: Option<&Path>,
    path: &str,
    workspace: &Path,
    known: &Path,
) -> Option<Tier> {
    let bwrap = find_program("bwrap", own, path, workspace)?;
    known::works(known, &bwrap, program).then_some(Tier::Bubblewrap { program: bwrap })
}

/// Probes for our program `program`. bubblewrap is searched for on `path`, then in `own`, a directory that may have one
/// of ours, but never inside `workspace`, where code from a model could have put one. The result for the
/// latest workspace is cached. What works is recorded in the file `remembered`.
pub fn probe(
    program: &Path,
    own: Option<&Path>,
    path: &str,
    workspace: &Path,
    remembered: &Path,
) -> WorkingTier {
    static KNOWN: Mutex<Option<(PathBuf, WorkingTier)>> = Mutex::new(None);
    let mut latest = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((of, found)) = &*latest
        && of == workspace
    {
        return found.clone();
    }
    let found = find(program, own, path, workspace);
    match &found.tier {
        Some(Tier::Bubblewrap { program: bwrap }) => known::remember(remembered, bwrap, program),
        Some(Tier::Landlock | Tier::Gvisor { .. } | Tier::Seatbelt) | None => {
            known::forget(remembered);
        }
    }
    *latest = Some((workspace.to_owned(), found.clone()));
    found
}

/// Whether gVisor works for our program `program`: `runsc` on `path`, but not inside `workspace`. `place` is for a
/// temporary directory.
///
/// # Errors
/// [`NoGvisor`].
pub fn gvisor(
    program: &Path,
    path: &str,
    workspace: &Path,
    place: &Path,
) -> Result<Tier, NoGvisor> {
    static KNOWN: Mutex<Option<PathBuf>> = Mutex::new(None);
    let runsc = find_program("runsc", None, path, workspace).ok_or(NoGvisor::Missing)?;
    let tier = Tier::Gvisor {
        program: runsc.clone(),
    };
    let mut known = KNOWN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if known.as_ref() != Some(&runsc) {
        super::gvisor::runs(&runsc, program, place).map_err(|reason| NoGvisor::Fails {
            runsc: runsc.clone(),
            reason,
        })?;
        *known = Some(runsc);
    }
    Ok(tier)
}

fn find(program: &Path, own: Option<&Path>, path: &str, workspace: &Path) -> WorkingTier {
    let mut missing = Vec::new();
    if super::seatbelt::runs() {
        let tier = Some(Tier::Seatbelt);
        return WorkingTier { tier, missing };
    }
    match find_program("bwrap", own, path, workspace) {
        None => missing.push(("there is no bubblewrap (`bwrap`)".to_owned(), INSTALL)),
        Some(bwrap) => match runs_bubblewrap(&bwrap, program) {
            Ok(()) => {
                let tier = Some(Tier::Bubblewrap { program: bwrap });
                return WorkingTier { tier, missing };
            }
            Err(reason) => missing.push((
                format!("`{}` does not work: {reason}", bwrap.display()),
                APPARMOR,
            )),
        },
    }
    let tier = match runs_landlock(program) {
        Ok(()) => Some(Tier::Landlock),
        Err(reason) => {
            missing.push((format!("Landlock does not work: {reason}"), KERNEL));
            None
        }
    };
    WorkingTier { tier, missing }
}

/// The first program of this name that is not in the workspace.
fn find_program(name: &str, own: Option<&Path>, path: &str, workspace: &Path) -> Option<PathBuf> {
    let workspace = workspace.canonicalize().ok();
    let dirs = path
        .split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(Path::new);
    dirs.chain(own)
        .map(|dir| dir.join(name))
        .find_map(|program| {
            let real = program.canonicalize().ok()?;
            let is_program = real
                .metadata()
                .is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0);
            let is_foreign = workspace.as_ref().is_none_or(|dir| !real.starts_with(dir));
            (is_program && is_foreign).then_some(real)
        })
}

fn order(how: How) -> Result<Vec<String>, String> {
    let order = Order {
        how,
        limits: Limits::default(),
        internet: Internet::Any,
    };
    order.arguments(&["/bin/true".to_owned()])
}

fn runs_bubblewrap(bwrap: &Path, program: &Path) -> Result<(), String> {
    let mut command = Command::new(bwrap);
    command
        .args([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-uts",
            "--unshare-net",
        ])
        .args([
            "--as-pid-1",
            "--new-session",
            "--cap-drop",
            "ALL",
            "--ro-bind",
            "/",
            "/",
        ])
        .args([
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--size",
            "1048576",
            "--tmpfs",
            "/tmp",
            "--tmpfs",
            "/run",
            "--ro-bind",
        ])
        .arg(program)
        .arg(super::bubblewrap::PROGRAM)
        .args(["--", super::bubblewrap::PROGRAM])
        .args(order(How::First {
            bridge: None,
            network: None,
        })?);
    run(command)
}

fn runs_landlock(program: &Path) -> Result<(), String> {
    let reach = Reach {
        readable: vec!["/".into()],
        writable: Vec::new(),
        network: Network::Off,
        ports: Vec::new(),
        proxy: None,
    };
    let mut command = Command::new(program);
    command.args(order(How::InPlace(reach))?);
    run(command)
}
