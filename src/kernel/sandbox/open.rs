//! Builds the command that starts a kernel confined, for whichever tier is used.

use std::path::{Path, PathBuf};

use super::bridge::Bridge;
use super::bubblewrap::{self, Inside, PROGRAM};
use super::cgroup::Group;
use super::confine::{How, Order};
use super::guest;
use super::gvisor;
use super::landlock::Reach;
use super::net::{Gate, Network};
use super::policy::Confinement;
use super::sealed::sealed;
use super::seatbelt;
use super::seccomp::Internet;
use super::tier::{CageKind, Tier};
use super::view::View;
use crate::jupyter::connection::Transport;
use crate::kernel::KernelSource;
use crate::kernel::files::KernelFiles;

/// Variables that point to things that do not exist inside, or to the user's other programs.
const NOT_INSIDE: [&str; 28] = [
    "ALL_PROXY",
    "BASH_ENV",
    "CONDA_PREFIX",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "DOCKER_HOST",
    "ENV",
    "HOME",
    "IPYTHONDIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "LD_PRELOAD",
    "MPLCONFIGDIR",
    "OLDPWD",
    "PWD",
    "PYTHONSTARTUP",
    "PYTHONUSERBASE",
    "R_LIBS_USER",
    "SSH_CONNECTION",
    "TEMP",
    "TMP",
    "TMPDIR",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "all_proxy",
    "SSH_CLIENT",
    "SSH_TTY",
];
const NOT_INSIDE_PREFIXES: [&str; 3] = ["SPONDE_", "XDG_", "SYSTEMD_"];
/// R's site profile.
const R_PROFILE: &str = "R_PROFILE";
/// The first process inside.
const PARENT_INSIDE: &str = "1";

/// A command that starts a confined kernel, in place of the kernel's own.
pub(in crate::kernel) struct Confined {
    /// Program and arguments.
    pub(in crate::kernel) command: Vec<String>,
    /// Its whole environment, sealed.
    pub(in crate::kernel) env: Vec<(String, String)>,
    /// What it creates around the kernel, which is then not our child.
    pub(in crate::kernel) cage: Option<CageKind>,
    /// The files through which its first process joins control groups.
    pub(in crate::kernel) groups: Vec<PathBuf>,
}

/// The command that runs `command` confined. The kernel's sockets and connection file are in the directory that it
/// shares with us ([`KernelFiles::shared`]).
///
/// # Errors
/// Why it cannot be confined.
pub(in crate::kernel) fn open(
    confinement: &Confinement,
    kernel: &KernelSource,
    command: &[String],
    env: Vec<(String, String)>,
    cwd: &Path,
    files: &KernelFiles,
    kept: bool,
) -> Result<Confined, String> {
    let program = command.first().map_or("", String::as_str);
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("/usr/local/bin:/usr/bin:/bin", |(_, path)| path.as_str());
    let view = confinement.view(kernel, program, cwd, path);
    check(confinement, &view)?;
    if let (Tier::Landlock, Some(hidden)) = (&confinement.tier, view.hidden.first()) {
        return Err(format!(
            "Landlock cannot hide `{}`, which contains Sponde's secrets, inside a directory that code may read: work in another \
             directory, or install bubblewrap",
            hidden.display()
        ));
    }
    let shared = files.shared();
    let home = shared.join("home");
    make_private(&home)?;
    let cage = confinement.tier.cage();
    if cage == Some(CageKind::Gvisor) && kept {
        return Err(
            "a kernel in gVisor cannot be kept: it is not a process of this machine, so the next session could not take it over"
                .to_owned(),
        );
    }
    let temporary = if cage.is_some() {
        "/tmp".into()
    } else {
        make_private(&shared.join("tmp"))?;
        seed(&view, &home);
        shared.join("tmp")
    };
    let gate = files.gate();
    let mut env = environment(env, &view, &home, &temporary, confinement, cage);
    env.extend(gate.map(Gate::env).unwrap_or_default());
    if let Some(profile) = &confinement.network_context.r_profile {
        let path = shared.join("Rprofile");
        std::fs::write(&path, profile).map_err(|error| format!("`{}`: {error}", path.display()))?;
        env.retain(|(name, _)| name != R_PROFILE);
        env.push((R_PROFILE.to_owned(), words(&path)));
    }
    let cwd = cwd.canonicalize().unwrap_or_else(|_| "/".into());
    let inside = Inside {
        shared: Some(&shared),
        home: &home,
        cwd: &confinement.inside(&cwd),
        gate,
        kept,
        collects: true,
        has_terminal: false,
    };
    let env = sealed(env, &confinement.tier);
    let command = fence(confinement, view, &inside, files, (command, &env))?;
    Ok(Confined {
        command,
        env,
        cage,
        groups: Group::make(&confinement.limits),
    })
}

/// Fails if something must be mounted below a directory that is moved.
pub(super) fn check(confinement: &Confinement, view: &View) -> Result<(), String> {
    let is_below = |path: &&PathBuf| path.starts_with(guest::HOME);
    match view.readable.iter().find(is_below) {
        Some(path) if confinement.moved().is_some() => Err(format!(
            "`{}` is needed inside, where `{}` is the sandbox's own directory: install it elsewhere",
            path.display(),
            guest::HOME
        )),
        Some(_) | None => Ok(()),
    }
}

/// The command that confines the kernel's own.
fn fence(
    confinement: &Confinement,
    view: View,
    inside: &Inside<'_>,
    files: &KernelFiles,
    (command, env): (&[String], &[(String, String)]),
) -> Result<Vec<String>, String> {
    let ports = files.ports();
    let (gate, own) = (inside.gate, &confinement.program);
    let ordered = |how, internet| {
        let limits = confinement.limits.clone();
        Order {
            how,
            limits,
            internet,
        }
        .arguments(command)
    };
    let first = |kind| {
        let bridged = ports.filter(|_| files.info.transport == Transport::Ipc);
        let bridge = bridged.map(|ports| Bridge {
            prefix: files.info.ip.clone().into(),
            ports,
        });
        let network = gate.and_then(|gate| gate.inside(kind));
        let how = How::First { bridge, network };
        let mut first = vec![PROGRAM.to_owned()];
        first.extend(ordered(how, Internet::Any)?);
        Ok::<_, String>(first)
    };
    Ok(match &confinement.tier {
        Tier::Bubblewrap { program } => {
            let mut command = vec![words(program)];
            command.extend(bubblewrap::options(confinement, &view, inside));
            command.push("--".to_owned());
            command.extend(first(CageKind::Namespaces)?);
            command
        }
        Tier::Gvisor { program } => {
            let (bundle, first) = (files.bundle(), first(CageKind::Gvisor)?);
            let limits = &confinement.limits;
            gvisor::write(&bundle, &view, inside, own, limits, (&first, env))?;
            gvisor::command(program, &confinement.network, gate.is_some(), &bundle)
        }
        Tier::Seatbelt => {
            let port = gate.and_then(Gate::port);
            seatbelt::command(confinement, &view, &files.shared(), ports, port, command)
        }
        Tier::Landlock => {
            let internet = match confinement.network {
                Network::Off | Network::Allow(_) => Internet::TcpOnly,
                Network::On => Internet::Any,
            };
            let how = How::InPlace(Reach {
                proxy: gate.and_then(Gate::port),
                ..reach(confinement, view, Some(&files.shared()), ports)
            });
            let mut command = vec![words(own)];
            command.extend(ordered(how, internet)?);
            command
        }
    })
}

fn words(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn make_private(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut private = std::fs::DirBuilder::new();
    private
        .mode(0o700)
        .create(dir)
        .map_err(|error| format!("`{}`: {error}", dir.display()))
}

pub(super) fn reach(
    confinement: &Confinement,
    view: View,
    shared: Option<&Path>,
    ports: Option<[u16; 5]>,
) -> Reach {
    let mut writable = view.writable;
    writable.extend(shared.map(Path::to_owned));
    writable.extend(confinement.guest.as_ref().map(|it| it.tmp.clone()));
    Reach {
        readable: view.readable,
        writable,
        network: confinement.network.clone(),
        proxy: None,
        ports: ports.map_or_else(Vec::new, |ports| ports.to_vec()),
    }
}

/// Copies the seeds, for tiers without a file system of their own.
fn seed(view: &View, home: &Path) {
    for (from, to) in &view.seeds {
        let to = home.join(to);
        let made = to.parent().map(std::fs::create_dir_all);
        if matches!(made, Some(Ok(()))) {
            // Errors are ignored: it only saves time.
            let _ = std::fs::copy(from, to);
        }
    }
}

pub(super) fn environment(
    mut env: Vec<(String, String)>,
    view: &View,
    home: &Path,
    temporary: &Path,
    confinement: &Confinement,
    cage: Option<CageKind>,
) -> Vec<(String, String)> {
    env.retain(|(name, _)| {
        let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
        let is_outside = NOT_INSIDE.contains(&name.as_str())
            || NOT_INSIDE_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix));
        !(is_outside || is_proxy && confinement.network != Network::On)
    });
    if cage.is_some()
        && let Some((_, parent)) = env.iter_mut().find(|(name, _)| name == "JPY_PARENT_PID")
    {
        PARENT_INSIDE.clone_into(parent);
    }
    let dir = match &confinement.guest {
        Some(guest) => {
            env.extend(guest::variables(home));
            confinement.inside(&guest.directory)
        }
        None => home.to_owned(),
    };
    env.extend([
        ("HOME".to_owned(), words(&dir)),
        ("TMPDIR".to_owned(), words(temporary)),
    ]);
    env.extend(view.env.iter().cloned());
    if matches!(confinement.network, Network::Allow(_)) {
        let own = &confinement.network_context.env;
        env.retain(|(name, _)| !own.iter().any(|(own, _)| own == name));
        env.extend(own.iter().cloned());
    }
    env
}
