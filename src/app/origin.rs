//! A session's origin: nothing, the journal of a session that is resumed, or a notebook that is continued.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Context;
use super::notebook::{self, NotebookFile, Old};
use super::place::{current_dir, now, today};
use super::settings::SessionSettings;
use crate::agent::sessions;
use crate::agent::store::Opened;
use crate::error::Failure;
use crate::kernel::{Extent, KeptKernelChoice, LaunchOptions, Sandbox};
use crate::session::OutputLimits;
use crate::session::journal::{Begin, KernelChoice, RunningKernel, VERSION};

/// How long to wait for a busy kernel if a person can stop the wait.
const AS_LONG_AS_WANTED: Duration = Duration::from_hours(24 * 365);

/// The initial state of a session.
pub struct Origin {
    resumed: Option<Opened>,
    id: String,
    /// The directory of its kernels.
    pub cwd: Option<PathBuf>,
    /// Its previous main kernel.
    pub kernel: Option<String>,
    /// The model that last answered.
    pub model: Option<String>,
    /// How its kernels were confined.
    pub sandbox: Option<Extent>,
    /// Its databases: those that are named now, and those that it had.
    pub databases: Vec<String>,
    /// Kernels that were left running.
    kept: Vec<RunningKernel>,
    /// Whether its kernels keep running when it ends.
    keep: bool,
}

impl Origin {
    /// For a new session, or for `before`, which is resumed.
    pub fn of(
        before: Option<Opened>,
        settings: &SessionSettings,
        context: &Context,
    ) -> Result<Self, Failure> {
        let Some(before) = before else {
            return Ok(Self {
                id: sessions::new_id(&context.paths.sessions(), &today()),
                cwd: None,
                kernel: None,
                model: None,
                sandbox: None,
                databases: settings.databases.clone(),
                kept: Vec::new(),
                keep: settings.keep_kernels,
                resumed: None,
            });
        };
        let kept = before.store.kernels().to_vec();
        Ok(Self {
            id: before.store.id().to_owned(),
            cwd: Some(directory_of(&before, context)?),
            kernel: Some(kernel_of(&before, context)),
            model: before.transcript.model().map(str::to_owned),
            sandbox: before.begin.sandbox.clone(),
            databases: databases_of(&before, settings, context),
            keep: settings.keep_kernels || !kept.is_empty(),
            kept,
            resumed: Some(before),
        })
    }

    /// Its notebook file, with the previous content if it is continued.
    pub fn place(
        &self,
        settings: &SessionSettings,
        limits: OutputLimits,
        context: &Context,
    ) -> Result<NotebookFile, Failure> {
        match &self.resumed {
            Some(before) => Ok(NotebookFile {
                path: before.store.notebook().to_owned(),
                old: None,
            }),
            None => notebook::place(settings.notebook.as_deref(), &self.id, limits, context),
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether its kernels keep running when it ends.
    pub fn keeps_kernels(&self) -> bool {
        self.keep
    }

    /// Adopts the kernel that was left running for its language, if there is one. A person at the terminal decides how
    /// long to wait for a busy one. A kernel with more rights than are permitted now is not adopted.
    pub fn adopting(
        &self,
        mut options: LaunchOptions,
        attended: bool,
        context: &Context,
    ) -> LaunchOptions {
        let language = &options.kernel.spec.language;
        let mut kept = self.kept.iter();
        let kernel = kept.find(|kernel| kernel.language == *language);
        let wanted = Extent::of(&options.sandbox);
        let kernel = kernel.filter(|kernel| {
            let is_strict = match &kernel.sandbox {
                Some(sandbox) => sandbox.is_within(&wanted),
                None => options.sandbox == Sandbox::Full,
            };
            // A kernel's rights are fixed when it starts.
            let is_narrow = kernel.sandbox.as_ref().is_some_and(|it| wanted.is_wider_than(it));
            let instead = "a new one is started, and `sponde kernels reap --kept` ends the old one";
            if !is_strict {
                context.notify.warning(format!(
                    "the kernel `{}` that was kept may do more than the sandbox permits now; {instead}",
                    kernel.name
                ));
            } else if is_narrow {
                context.notify.warning(format!(
                    "the kernel `{}` that was kept may do less than is wanted now; {instead}",
                    kernel.name
                ));
            }
            is_strict && !is_narrow
        });
        options.adopt = kernel.map(|kernel| KeptKernelChoice {
            connection_file: kernel.connection_file.clone(),
            patience: if attended {
                AS_LONG_AS_WANTED
            } else {
                options.ready_timeout
            },
        });
        options.keep = self.keep && options.gateway.is_none();
        options
    }

    /// Opens the session, with `main` as its launch options. `old` is the notebook that is continued, if any;
    /// `may_replay`: someone may want its code to run again.
    pub fn open(
        self,
        main: &LaunchOptions,
        notebook: &Path,
        old: Option<Old>,
        may_replay: bool,
        limits: OutputLimits,
        context: &Context,
    ) -> Opened {
        if let Some(before) = self.resumed {
            return before;
        }
        let dir = context.paths.sessions();
        let is_ours = main.gateway.is_none() && main.existing.is_none();
        let begin = Begin {
            version: VERSION,
            id: self.id,
            at: now(),
            cwd: main.cwd.clone(),
            notebook: notebook.to_owned(),
            kernel: KernelChoice {
                name: main.kernel.name.clone(),
                prefix: main.kernel.prefix.clone(),
            },
            forked_from: None,
            sandbox: is_ours.then(|| Extent::of(&main.sandbox)),
            databases: self.databases,
        };
        match old {
            Some(old) => {
                let opened = Opened::continuing(&dir, begin, old.opened.transcript);
                if may_replay {
                    opened.with_replay()
                } else {
                    opened
                }
            }
            None => Opened::new(&dir, begin, limits),
        }
    }
}

/// The databases that are named now, and those that the session had. A previous one that is no longer configured is
/// reported, and the session continues without it.
fn databases_of(before: &Opened, settings: &SessionSettings, context: &Context) -> Vec<String> {
    let mut names = settings.databases.clone();
    for name in &before.begin.databases {
        let mut known = context.config.databases.keys();
        if !known.any(|it| it.as_str() == name) {
            context.notify.warning(format!(
                "the session continues without the database `{name}`, which is no longer in config.toml"
            ));
        } else if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// How to find the main kernel of a resumed session: by its name, or by its environment if that name now means another
/// kernel.
fn kernel_of(before: &Opened, context: &Context) -> String {
    let KernelChoice { name, prefix } = &before.begin.kernel;
    if name.is_empty() {
        return "python3".to_owned();
    }
    let by_name = context.paths.kernels().find(name);
    let is_the_same = by_name.is_ok_and(|found| found.prefix == *prefix);
    match prefix {
        Some(prefix) if !is_the_same && prefix.is_dir() => prefix.display().to_string(),
        _ => name.clone(),
    }
}

/// The directory of a resumed session.
fn directory_of(before: &Opened, context: &Context) -> Result<PathBuf, Failure> {
    let cwd = &before.begin.cwd;
    if cwd.is_dir() {
        return Ok(cwd.clone());
    }
    context.notify.warning(format!(
        "its directory `{}` no longer exists; the session continues in this one",
        cwd.display()
    ));
    current_dir(context)
}
