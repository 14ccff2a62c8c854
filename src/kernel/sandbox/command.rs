//! Commands beside a kernel, confined like it: the same files, the same rules, separate namespaces.

use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::bubblewrap::{self, Inside, PROGRAM};
use super::confine::{How, Order};
use super::guest;
use super::net::Network;
use super::open::{check, environment, reach};
use super::policy::Confinement;
use super::sealed::sealed;
use super::seccomp::Internet;
use super::tier::{CageKind, Tier};
use crate::kernel::KernelSource;

/// Where libraries keep their own data.
const OWN: &str = "/run/home";

/// Stdin, stdout and stderr of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandInput {
    /// Pipes.
    Pipes,
    /// A terminal, in a session of its own.
    Terminal,
}

/// Why a command cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the command could not be confined: {0}")]
pub struct CommandError(String);

/// Names and values.
type Variables = Vec<(String, String)>;

/// Confines `argv` in `cwd`, which is below the directory of `confinement`'s guest, with the view of `kernel`. `env` is
/// filtered for the sandbox; the variables in `more` are passed unchanged.
///
/// # Errors
/// If the tier cannot do it.
pub(in crate::kernel) fn confined(
    confinement: &Confinement,
    kernel: &KernelSource,
    argv: &[String],
    (env, more): (Variables, Variables),
    cwd: &Path,
    input: CommandInput,
) -> Result<Command, CommandError> {
    let refused = |reason: String| CommandError(reason);
    let path = env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or("/usr/local/bin:/usr/bin:/bin", |(_, path)| path.as_str());
    let program = kernel.program();
    let tree = confinement
        .guest
        .as_ref()
        .map_or(cwd, |it| it.directory.as_path());
    let view = confinement.view(kernel, &program, tree, path);
    check(confinement, &view).map_err(refused)?;
    let cage = confinement.tier.cage();
    let own = confinement.guest.as_ref().map(|it| it.tmp.clone());
    let (home, temporary) = if cage.is_some() {
        (PathBuf::from(OWN), PathBuf::from(guest::TMP))
    } else {
        let own = own.unwrap_or_else(|| cwd.to_owned());
        (own.clone(), own)
    };
    let env = environment(env, &view, &home, &temporary, confinement, cage);
    let order = |how, internet| {
        let limits = confinement.limits.clone();
        let order = Order {
            how,
            limits,
            internet,
        };
        order.arguments(argv).map_err(refused)
    };
    let mut command = match (&confinement.tier, cage) {
        (Tier::Bubblewrap { program }, Some(CageKind::Namespaces)) => {
            let inside = Inside {
                shared: None,
                home: &home,
                cwd: &confinement.inside(cwd),
                gate: None,
                kept: false,
                collects: false,
                has_terminal: input == CommandInput::Terminal,
            };
            let mut command = Command::new(program);
            command.args(bubblewrap::options(confinement, &view, &inside));
            command.args(["--", PROGRAM]);
            command.args(order(How::Within, Internet::Any)?);
            command.current_dir("/");
            command
        }
        (Tier::Landlock, _) => {
            let internet = match confinement.network {
                Network::Off | Network::Allow(_) => Internet::TcpOnly,
                Network::On => Internet::Any,
            };
            let how = How::InPlace(reach(confinement, view, None, None));
            let mut command = Command::new(&confinement.program);
            command.args(order(how, internet)?).current_dir(cwd);
            command
        }
        (Tier::Bubblewrap { .. } | Tier::Gvisor { .. } | Tier::Seatbelt, _) => {
            let name = confinement.tier.name();
            return Err(refused(format!("{name} runs kernels only")));
        }
    };
    command
        .env_clear()
        .envs(sealed(env.into_iter().chain(more), &confinement.tier));
    Ok(command)
}
