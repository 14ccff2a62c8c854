//! `--notebook`: a new file, or a notebook that the session continues.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::gateway::Far;
use super::style::{self, WARN, paint};
use super::{Context, eprint, filter, run, session};
use crate::error::{Exit, Failure};
use crate::jupyter::nbformat::{CellType, Notebook};
use crate::kernel::KernelSource;
use crate::session::OutputLimits;
use crate::session::open::{self, Opened};

/// Where a session's notebook is, and what it has already.
pub(super) struct Place {
    /// The file.
    pub path: PathBuf,
    /// The notebook that goes on.
    pub old: Option<Old>,
}

/// A notebook that goes on.
pub(super) struct Old {
    /// Its conversation.
    pub opened: Opened,
    /// Its metadata: the kernel.
    metadata: Map<String, Value>,
    /// Its name, for people.
    name: String,
    /// Whether it has code that ran.
    pub has_run: bool,
}

/// The notebook of session `id`. What `named` means is read if it is there, else a new one, whose directory is there.
pub(super) fn place(
    named: Option<&Path>,
    id: &str,
    limits: OutputLimits,
    context: &Context,
) -> Result<Place, Failure> {
    let Some(path) = named else {
        let dir = context.paths.sessions();
        // A disk that takes nothing is told when there is something to write: the session goes on in memory.
        let _ = std::fs::create_dir_all(&dir);
        return Ok(Place {
            path: dir.join(format!("{id}.ipynb")),
            old: None,
        });
    };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if path.exists() {
        let old = Some(read(path, limits)?);
        return Ok(Place {
            path: absolute,
            old,
        });
    }
    if !run::is_notebook(path) {
        return Err(Failure::usage(format!(
            "`{}` is not the name of a notebook",
            path.display()
        ))
        .hint("notebooks end in .ipynb; `sponde export` makes other files of one"));
    }
    let parent = path
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(Failure::usage(format!(
            "`{}` is not a directory",
            parent.display()
        )));
    }
    Ok(Place {
        path: absolute,
        old: None,
    })
}

fn read(path: &Path, limits: OutputLimits) -> Result<Old, Failure> {
    let shown = path.display().to_string();
    if path.is_dir() {
        return Err(Failure::usage(format!("`{shown}` is a directory"))
            .hint("name a notebook that goes on, or a file that is not there yet"));
    }
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let notebook: Notebook = run::parse(&bytes, &shown)?;
    let has_run = notebook.cells.iter().any(|cell| match &cell.kind {
        CellType::Code {
            execution_count,
            outputs,
        } => execution_count.is_some() || !outputs.is_empty(),
        CellType::Markdown | CellType::Raw | CellType::Other { .. } => false,
    });
    let metadata = notebook.metadata.clone();
    let opened = open::open(notebook, limits);
    if !opened.changes.is_empty() {
        let text = format!(
            "note: `{shown}` was changed since its last session ({}): the model is told\n",
            open::summary(&opened.changes)
        );
        eprint(&paint(WARN, &filter::plain(&text), style::stderr_colours()));
    }
    Ok(Old {
        metadata,
        opened,
        name: path
            .file_name()
            .map_or_else(|| shown.clone(), |name| name.to_string_lossy().into_owned()),
        has_run,
    })
}

impl Old {
    /// Where its code works: a person's notebook where it lies, as in Jupyter; ours where we are.
    pub(super) fn workdir(&self, path: &Path, cwd: &Path) -> PathBuf {
        let dir = path.parent().filter(|_| self.opened.is_foreign);
        dir.unwrap_or(cwd).to_owned()
    }

    /// The kernel that it names, else one for its language.
    pub(super) fn kernel(
        &self,
        far: Option<&Far>,
        context: &Context,
    ) -> Result<KernelSource, Failure> {
        // A notebook is somebody's file: what looks like a path in it is not started.
        let named = self
            .text("kernelspec", "name")
            .filter(|name| !name.contains(['/', '\\']));
        let language = self.language();
        if let Some(far) = far {
            return far.find(named.or(context.config.kernel.as_deref()), language);
        }
        let kernels = context.paths.kernels();
        let for_language = || language.and_then(|language| kernels.for_language(language));
        let Some(named) = named else {
            return match for_language() {
                Some(kernel) => Ok(kernel),
                None if language.is_some() => Err(self.no_kernel(None, context)),
                None => session::find_kernel(context.config.kernel.as_deref(), context),
            };
        };
        if let Ok(kernel) = kernels.find(named) {
            return Ok(kernel);
        }
        let Some(kernel) = for_language() else {
            return Err(self.no_kernel(Some(named), context));
        };
        let text = format!(
            "note: there is no kernel `{named}`, which `{}` names; using `{}`\n",
            self.name, kernel.name
        );
        eprint(&paint(WARN, &filter::plain(&text), style::stderr_colours()));
        Ok(kernel)
    }

    /// Its code cannot run in a kernel of another language.
    pub(super) fn check_language(&self, kernel: &KernelSource) -> Result<(), Failure> {
        let theirs = &kernel.spec.language;
        if self.text("kernelspec", "name") == Some(&kernel.name) {
            return Ok(());
        }
        match self.language() {
            Some(own) if !theirs.is_empty() && !own.eq_ignore_ascii_case(theirs) => {
                let name = &kernel.name;
                Err(Failure::usage(format!(
                    "`{}` is in {own}, and the kernel `{name}` is for {theirs}",
                    self.name
                ))
                .hint(format!(
                    "leave --kernel out; or name a kernel for {own} first and `{name}` after it, to use both"
                )))
            }
            _ => Ok(()),
        }
    }

    /// What the model is told before the next question; `told` if the session itself will say what is in the kernel.
    pub(super) fn words(&self, kernel_runs: bool, told: bool) -> String {
        let mut words = if self.opened.is_foreign {
            format!(
                "The cells above are the notebook `{}`, which this conversation continues. ",
                self.name
            )
        } else {
            "The conversation above is an earlier one, which goes on now. ".to_owned()
        };
        words.push_str(if told && self.has_run {
            ""
        } else if kernel_runs {
            "The kernel ran before it: look which variables exist before you use them."
        } else if self.has_run {
            "The kernel is new: no variable, function or import of that code exists any more. Run again what you need \
             of it before you use it."
        } else {
            "The kernel is new: nothing has run in it."
        });
        let changes = open::words(&self.opened.changes, &self.opened.transcript);
        if !changes.is_empty() {
            words.push_str("\n\n");
            words.push_str(&changes);
        }
        words
    }

    fn language(&self) -> Option<&str> {
        self.text("kernelspec", "language")
            .or_else(|| self.text("language_info", "name"))
    }

    fn text(&self, object: &str, key: &str) -> Option<&str> {
        self.metadata.get(object)?.get(key)?.as_str()
    }

    fn no_kernel(&self, named: Option<&str>, context: &Context) -> Failure {
        let language = self.language().unwrap_or("its language");
        let what = match named {
            Some(named) => format!(
                "there is no kernel `{named}`, which `{}` names, and none for {language}",
                self.name
            ),
            None => format!(
                "there is no kernel for {language}, which `{}` is in",
                self.name
            ),
        };
        let found = context.paths.kernels().list();
        let all: Vec<String> = found
            .into_iter()
            .filter_map(|found| found.source.ok())
            .map(|source| source.name)
            .collect();
        let hint = if all.is_empty() {
            "install one with `sponde kernels install`".to_owned()
        } else {
            format!(
                "choose one with --kernel: there are {}; or install one with `sponde kernels install`",
                all.join(", ")
            )
        };
        Failure::new(Exit::Kernel, what).hint(hint)
    }
}
