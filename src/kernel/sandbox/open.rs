//! Starts a kernel confined, by whichever tier there is.

use std::path::Path;

use rustix::process::Pid;
use tokio::process::ChildStderr;

use super::bridge::Bridge;
use super::bubblewrap::{self, Inside, PROGRAM};
use super::cage::{Cage, Member};
use super::cgroup::Group;
use super::confine::{How, Order};
use super::landlock::Reach;
use super::net::{Gate, Network};
use super::policy::{Confinement, View};
use super::probe::Tier;
use super::seccomp::Internet;
use crate::jupyter::connection::Transport;
use crate::kernel::KernelSource;
use crate::kernel::files::KernelFiles;

/// Variables that point at what is not there inside, or at the person's other programs.
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
/// The first process inside.
const PARENT_INSIDE: &str = "1";

/// A command that starts a confined kernel, instead of its own.
pub(in crate::kernel) struct Confined {
    /// Program and arguments.
    pub(in crate::kernel) command: Vec<String>,
    /// Its whole environment.
    pub(in crate::kernel) env: Vec<(String, String)>,
    /// Whether it makes namespaces, so that the kernel is not our child.
    pub(in crate::kernel) is_caged: bool,
}

/// What has to run so that `command` runs confined. Its sockets and connection files are in what it shares with us
/// ([`KernelFiles::shared`]).
///
/// # Errors
/// In words.
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
    if let (Tier::Landlock, Some(hidden)) = (&confinement.tier, view.hidden.first()) {
        return Err(format!(
            "Landlock cannot hide `{}`, which has secrets of Sponde, in a directory that code may read: work in another \
             directory, or install bubblewrap",
            hidden.display()
        ));
    }
    let shared = files.shared();
    let home = shared.join("home");
    make_private(&home)?;
    let is_caged = matches!(confinement.tier, Tier::Bubblewrap { .. });
    let temporary = if is_caged {
        "/tmp".into()
    } else {
        shared.join("tmp")
    };
    let gate = files.gate();
    let mut env = environment(env, &view, &home, &temporary, confinement, is_caged);
    env.extend(gate.map(Gate::env).unwrap_or_default());
    let ports = files.ports();
    let (internet, how) = match &confinement.tier {
        Tier::Bubblewrap { .. } => {
            let bridged = ports.filter(|_| files.info.transport == Transport::Ipc);
            let bridge = bridged.map(|ports| Bridge {
                prefix: files.info.ip.clone().into(),
                ports,
            });
            let network = gate.and_then(Gate::inside);
            (Internet::Any, How::First { bridge, network })
        }
        Tier::Landlock => {
            make_private(&temporary)?;
            seed(&view, &home);
            (
                match confinement.network {
                    Network::Off | Network::Allow(_) => Internet::TcpOnly,
                    Network::On => Internet::Any,
                },
                How::InPlace(Reach {
                    proxy: gate.and_then(Gate::port),
                    ..reach(confinement, view.clone(), &shared, ports)
                }),
            )
        }
    };
    let order = Order {
        how,
        limits: confinement.limits.clone(),
        internet,
    };
    let confined = order.arguments(command)?;
    let words = |path: &Path| path.to_string_lossy().into_owned();
    let mut command = Vec::new();
    match &confinement.tier {
        Tier::Bubblewrap { program } => {
            let inside = Inside {
                shared: &shared,
                home: &home,
                cwd: &cwd.canonicalize().unwrap_or_else(|_| "/".into()),
                gate,
                kept,
            };
            command.push(words(program));
            command.extend(bubblewrap::options(confinement, &view, &inside));
            command.extend(["--".to_owned(), PROGRAM.to_owned()]);
        }
        Tier::Landlock => command.push(words(&confinement.program)),
    }
    command.extend(confined);
    let groups = Group::make(&confinement.limits);
    if !groups.is_empty() {
        let order = Order {
            how: How::Join(groups),
            limits: confinement.limits.clone(),
            internet,
        };
        let mut joining = vec![words(&confinement.program)];
        joining.extend(order.arguments(&command)?);
        command = joining;
    }
    Ok(Confined {
        command,
        env,
        is_caged,
    })
}

/// Runs what [`open`] made where that makes namespaces.
///
/// # Errors
/// In words.
pub(in crate::kernel) async fn start_caged(
    command: tokio::process::Command,
    kept: bool,
) -> Result<(Member, Pid, Option<ChildStderr>), String> {
    let (cage, kernel, stderr) = Cage::start(command, kept).await?;
    let member = cage.member(kernel).ok_or("the kernel ended at once")?;
    Ok((member, kernel, stderr))
}

fn make_private(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut private = std::fs::DirBuilder::new();
    private
        .mode(0o700)
        .create(dir)
        .map_err(|error| format!("`{}`: {error}", dir.display()))
}

fn reach(confinement: &Confinement, view: View, shared: &Path, ports: Option<[u16; 5]>) -> Reach {
    let mut writable = view.writable;
    writable.push(shared.to_owned());
    Reach {
        readable: view.readable,
        writable,
        network: confinement.network.clone(),
        proxy: None,
        ports: ports.map_or_else(Vec::new, |ports| ports.to_vec()),
    }
}

/// Where there is no file system of its own, copies have to do.
fn seed(view: &View, home: &Path) {
    for (from, to) in &view.seeds {
        let to = home.join(to);
        let made = to.parent().map(std::fs::create_dir_all);
        if matches!(made, Some(Ok(()))) {
            // It only saves time.
            let _ = std::fs::copy(from, to);
        }
    }
}

fn environment(
    mut env: Vec<(String, String)>,
    view: &View,
    home: &Path,
    temporary: &Path,
    confinement: &Confinement,
    is_caged: bool,
) -> Vec<(String, String)> {
    env.retain(|(name, _)| {
        let is_proxy = name.to_ascii_uppercase().ends_with("_PROXY");
        let is_outside = NOT_INSIDE.contains(&name.as_str())
            || NOT_INSIDE_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix));
        !(is_outside || is_proxy && confinement.network != Network::On)
    });
    if is_caged && let Some((_, parent)) = env.iter_mut().find(|(name, _)| name == "JPY_PARENT_PID")
    {
        PARENT_INSIDE.clone_into(parent);
    }
    let words = |path: &Path| path.to_string_lossy().into_owned();
    env.extend([
        ("HOME".to_owned(), words(home)),
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
