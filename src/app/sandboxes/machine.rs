//! The basis of a sandbox's kernels and commands: its directories, its rules, and the kernel for each language.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use tokio::process::Command;

use crate::app::kernels::{find_kernel, launch_options};
use crate::app::sandbox::{self, CodeOf};
use crate::app::{Context, SessionSettings};
use crate::error::{Failure, FailureKind};
use crate::kernel::sandbox::WORKSPACE;
use crate::kernel::sandbox::limits::Limits;
use crate::kernel::{
    CommandError, CommandInput, Guest, KernelSource, LaunchOptions, Sandbox, command_beside,
};

/// The path of the sandbox's directory, as programs see it.
pub const HOME: &str = "/home/user";
/// The path of temporary files.
const TMP: &str = "/tmp";
/// Short enough for socket paths, and not hidden by a private `/tmp`.
const SOCKETS: &str = "/var/tmp";

/// See the module documentation.
pub(super) struct Machine {
    context: Context,
    settings: SessionSettings,
    sandbox: Sandbox,
    /// The directory of all the sandbox's files on the host.
    root: PathBuf,
    dirs: Dirs,
    /// Commands see the same environment as this kernel.
    python: OnceLock<KernelSource>,
}

/// The directories that a sandbox's code can write to, as host paths without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dirs {
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
}

impl Machine {
    /// Creates the directories below `root`.
    pub(super) async fn make(
        context: &Context,
        settings: &SessionSettings,
        root: &Path,
    ) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let message = format!(
                "the directory `{}` could not be made: {error}",
                root.display()
            );
            Failure::new(FailureKind::Failed, message)
        };
        let (home, tmp) = (root.join("home"), root.join("tmp"));
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        for dir in [&home, &tmp] {
            private.create(dir).map_err(failed)?;
        }
        let home = home.canonicalize().map_err(failed)?;
        let tmp = tmp.canonicalize().map_err(failed)?;
        let mut context = context.clone();
        let environment = &context.paths.environment;
        context.paths.environment = environment.in_directory(home.clone());
        if context.paths.sockets.starts_with(TMP) && Path::new(SOCKETS).is_dir() {
            context.paths.sockets = PathBuf::from(SOCKETS);
        }
        let rules = &settings.sandbox;
        let mut sandbox = sandbox::sandbox(rules, CodeOf::Model, &home, &[], &context).await?;
        if let Sandbox::Confined(confinement) = &mut sandbox {
            confinement.guest = Some(Guest {
                directory: home.clone(),
                tmp: tmp.clone(),
            });
        }
        Ok(Self {
            context,
            settings: settings.clone(),
            sandbox,
            root: root.to_owned(),
            dirs: Dirs { home, tmp },
            python: OnceLock::new(),
        })
    }

    /// Launch options of the kernel of `source`.
    pub(super) fn launch_options(&self, source: KernelSource) -> LaunchOptions {
        LaunchOptions {
            sandbox: self.sandbox.clone(),
            ..launch_options(source, self.dirs.home.clone(), &self.context)
        }
    }

    /// The kernel for one of E2B's languages, or of that name.
    pub(super) fn kernel_of(&self, language: &str) -> Result<KernelSource, Failure> {
        let of_languages: &[&str] = match language {
            "python" => return self.python(),
            // Deno runs both, with `await` and `import` in cells.
            "javascript" => &["typescript", "javascript"],
            "typescript" => &["typescript"],
            "r" => &["r"],
            "bash" => &["bash"],
            "java" => &["java"],
            other if other.contains('/') => {
                return Err(Failure::usage(format!("`{other}` is not a kernel's name")));
            }
            other => return find_kernel(Some(other), &self.context),
        };
        let all = self.context.paths.kernels().list();
        let all: Vec<KernelSource> = all.into_iter().filter_map(|it| it.source.ok()).collect();
        let found = of_languages.iter().find_map(|wanted| {
            all.iter()
                .find(|it| it.spec.language.eq_ignore_ascii_case(wanted))
        });
        found.cloned().ok_or_else(|| {
            let message = format!("there is no kernel for {language}");
            Failure::new(FailureKind::Kernel, message)
                .hint("`sponde kernels install` installs kernels of other languages")
        })
    }

    fn python(&self) -> Result<KernelSource, Failure> {
        if let Some(python) = self.python.get() {
            return Ok(python.clone());
        }
        let usual = self.settings.kernels.first().map(String::as_str);
        let usual = usual.or(self.context.config.kernel.as_deref());
        let usual = usual.and_then(|name| find_kernel(Some(name), &self.context).ok());
        let is_python = |it: &KernelSource| it.spec.language.eq_ignore_ascii_case("python");
        let source = match usual.filter(is_python) {
            Some(source) => source,
            None => find_kernel(None, &self.context)?,
        };
        Ok(self.python.get_or_init(|| source).clone())
    }

    /// A command in `cwd`, a path as programs write it.
    pub(super) fn command(
        &self,
        argv: &[String],
        variables: &[(String, String)],
        cwd: &Path,
        input: CommandInput,
    ) -> Result<Command, MachineError> {
        let python = self.python().map_err(MachineError::NoKernel)?;
        let base = self.context.paths.environment.variables();
        let base = (base, variables);
        Ok(command_beside(
            &python,
            &self.sandbox,
            argv,
            base,
            (cwd, input),
        )?)
    }

    /// The path that code can use for a program's `path`.
    pub(super) fn for_code(&self, path: &str) -> String {
        let inside = |path: &Path| match &self.sandbox {
            Sandbox::Full => path.to_owned(),
            Sandbox::Confined(confinement) => confinement.inside(path),
        };
        match self.place(path) {
            Some(place) => inside(&place.path()).to_string_lossy().into_owned(),
            None => path.to_owned(),
        }
    }

    /// The host path of `path`, if it is in the sandbox's own directories.
    pub(super) fn place(&self, path: &str) -> Option<Place> {
        let path = path.strip_prefix("~/").unwrap_or(path);
        let path = if path == "~" { "" } else { path };
        let path = Path::new(path);
        let own = path.strip_prefix(&self.dirs.home);
        let home = path
            .strip_prefix(HOME)
            .or_else(|_| path.strip_prefix(WORKSPACE));
        let (root, is_tmp, below) = match (own, home, path.strip_prefix(TMP)) {
            (Ok(below), _, _) | (_, Ok(below), _) => (&self.dirs.home, false, below),
            (_, _, Ok(below)) => (&self.dirs.tmp, true, below),
            (Err(_), Err(_), Err(_)) if path.is_absolute() => return None,
            (Err(_), Err(_), Err(_)) => (&self.dirs.home, false, path),
        };
        let is_down = |it: Component<'_>| matches!(it, Component::Normal(_) | Component::CurDir);
        let text = below.to_str()?;
        (below.components().all(is_down) && !text.contains('\0')).then(|| Place {
            root: root.clone(),
            below: below
                .components()
                .filter(|it| matches!(it, Component::Normal(_)))
                .collect(),
            is_tmp,
        })
    }

    /// Whether code has its own file system, so that its paths mean nothing outside.
    pub(super) fn is_apart(&self) -> bool {
        match &self.sandbox {
            Sandbox::Full => false,
            Sandbox::Confined(confinement) => confinement.is_moved(),
        }
    }

    /// Its share of the machine.
    pub(super) fn size(&self) -> Size {
        let memory = match &self.sandbox {
            Sandbox::Full => Limits::default().memory,
            Sandbox::Confined(confinement) => confinement.limits.memory,
        };
        let disk = rustix::fs::statvfs(&self.dirs.home).ok();
        let bytes = |count: fn(&rustix::fs::StatVfs) -> u64| {
            disk.as_ref().map_or(0, |disk| count(disk) * disk.f_frsize)
        };
        Size {
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory,
            disk: bytes(|disk| disk.f_blocks),
            disk_used: bytes(|disk| disk.f_blocks - disk.f_bfree),
        }
    }

    /// Its directories.
    pub(super) fn dirs(&self) -> &Dirs {
        &self.dirs
    }

    /// Removes the directories.
    pub(super) async fn remove(&self) {
        let root = self.root.clone();
        // The next process removes any remains.
        let _ = tokio::task::spawn_blocking(move || super::remove(&root)).await;
    }
}

/// A location in a sandbox's directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    root: PathBuf,
    below: PathBuf,
    is_tmp: bool,
}

impl Place {
    /// The host path.
    pub(super) fn path(&self) -> PathBuf {
        if self.below.as_os_str().is_empty() {
            return self.root.clone();
        }
        self.root.join(&self.below)
    }

    /// Whether it is one of the sandbox's directories itself.
    pub(super) fn is_root(&self) -> bool {
        self.below.as_os_str().is_empty()
    }

    /// The path as programs see it.
    pub(super) fn shown(&self) -> String {
        let root = if self.is_tmp { TMP } else { HOME };
        let below = self.below.to_string_lossy();
        if self.is_root() {
            root.to_owned()
        } else {
            format!("{root}/{below}")
        }
    }

    /// The entry of that name in it.
    pub(super) fn join(&self, name: &str) -> Self {
        Self {
            below: self.below.join(name),
            ..self.clone()
        }
    }
}

/// A sandbox's share of the machine. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Number of processors.
    pub processors: usize,
    /// Memory limit of a kernel.
    pub memory: u64,
    /// Size of the disk that its files are on.
    pub disk: u64,
    /// Used space on that disk, by anyone.
    pub disk_used: u64,
}

/// Why a command could not be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum MachineError {
    /// There is no Python kernel to take the environment from.
    #[error("{0}")]
    NoKernel(Failure),
    /// It cannot be confined.
    #[error(transparent)]
    NotConfined(#[from] CommandError),
}
