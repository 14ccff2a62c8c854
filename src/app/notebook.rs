//! `--notebook`: a new file, or an existing notebook that the session continues.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::remote_kernels::RemoteKernels;
use super::{Context, Notify, kernels};
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::{CellType, Notebook, random_cell_id};
use crate::kernel::KernelSource;
use crate::kernel::folder::resolved;
use crate::session::OutputLimits;
use crate::session::open::{self, Opened};

/// A session's notebook file and its previous content.
pub struct NotebookFile {
    /// The file.
    pub path: PathBuf,
    /// The notebook that is continued.
    pub old: Option<Old>,
}

/// An existing notebook that is continued.
pub struct Old {
    /// Its conversation.
    pub opened: Opened,
    /// Its metadata, which names the kernel.
    metadata: Map<String, Value>,
    /// Its name, for people.
    name: String,
    /// Whether any of its code has run.
    pub has_run: bool,
}

/// The notebook of session `id`. Reads the file that `named` means if it exists; otherwise makes a new one in an
/// existing directory.
pub fn place(
    named: Option<&Path>,
    id: &str,
    limits: OutputLimits,
    context: &Context,
) -> Result<NotebookFile, Failure> {
    let Some(path) = named else {
        let dir = context.paths.sessions();
        // An unwritable disk is reported at the first write: the session continues in memory.
        let _ = std::fs::create_dir_all(&dir);
        return Ok(NotebookFile {
            path: dir.join(format!("{id}.ipynb")),
            old: None,
        });
    };
    let here = context.paths.environment.cwd().unwrap_or(Path::new("/"));
    // Resolved before any code runs, so that a link made later is not followed.
    let absolute = resolved(&here.join(path));
    if absolute.exists() {
        let old = Some(read(&absolute, path, limits, &context.notify)?);
        return Ok(NotebookFile {
            path: absolute,
            old,
        });
    }
    if !is_notebook(path) {
        return Err(Failure::usage(format!(
            "`{}` is not the name of a notebook",
            path.display()
        ))
        .hint("notebooks end in .ipynb; `sponde export` makes other files of one"));
    }
    let parent = absolute.parent().unwrap_or(Path::new("/"));
    if !parent.is_dir() {
        return Err(Failure::usage(format!(
            "`{}` is not a directory",
            parent.display()
        )));
    }
    Ok(NotebookFile {
        path: absolute,
        old: None,
    })
}

fn read(path: &Path, named: &Path, limits: OutputLimits, notify: &Notify) -> Result<Old, Failure> {
    let shown = named.display().to_string();
    if path.is_dir() {
        return Err(Failure::usage(format!("`{shown}` is a directory"))
            .hint("name a notebook to continue, or a file that does not exist yet"));
    }
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
    let notebook: Notebook = parse(&bytes, &shown, notify)?;
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
        notify.warning(format!(
            "`{shown}` was changed since its last session ({}): the model is told",
            open::summary(&opened.changes)
        ));
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

/// Parses a notebook file; `shown` is its name for a person.
///
/// # Errors
/// It is no notebook.
pub fn parse(bytes: &[u8], shown: &str, notify: &Notify) -> Result<Notebook, Failure> {
    let loaded = Notebook::read(bytes, &mut random_cell_id)
        .map_err(|error| Failure::usage(format!("could not read the notebook `{shown}`: {error}"))
            .hint("a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending"))?;
    for warning in &loaded.warnings {
        notify.warning(format!("`{shown}`: {warning}"));
    }
    Ok(loaded.notebook)
}

/// Whether a file has the suffix of a notebook.
pub fn is_notebook(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

impl Old {
    /// The directory of its code: for a person's notebook its own directory, as in Jupyter; for ours the current one.
    pub fn workdir(&self, path: &Path, cwd: &Path) -> PathBuf {
        let dir = path.parent().filter(|_| self.opened.is_foreign);
        dir.unwrap_or(cwd).to_owned()
    }

    /// The kernel that the notebook names, otherwise one for its language.
    pub fn kernel(
        &self,
        far: Option<&RemoteKernels>,
        context: &Context,
    ) -> Result<KernelSource, Failure> {
        // Anyone may have made the notebook: a kernel name that looks like a path is not started.
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
                None => kernels::find_kernel(context.config.kernel.as_deref(), context),
            };
        };
        if let Ok(kernel) = kernels.find(named) {
            return Ok(kernel);
        }
        let Some(kernel) = for_language() else {
            return Err(self.no_kernel(Some(named), context));
        };
        context.notify.warning(format!(
            "there is no kernel `{named}`, which `{}` names; using `{}`",
            self.name, kernel.name
        ));
        Ok(kernel)
    }

    /// Rejects a kernel of another language, which cannot run the notebook's code.
    pub fn check_language(&self, kernel: &KernelSource) -> Result<(), Failure> {
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

    /// What the model is told before the next question; `told`: the session itself reports what is in the kernel.
    pub fn words(&self, kernel_runs: bool, told: bool) -> String {
        let mut words = if self.opened.is_foreign {
            format!(
                "The cells above are the notebook `{}`, which this conversation continues. ",
                self.name
            )
        } else {
            "The conversation above is an earlier one, which continues now. ".to_owned()
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
        Failure::new(FailureKind::Kernel, what).hint(hint)
    }
}
