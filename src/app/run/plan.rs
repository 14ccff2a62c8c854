//! Decides what runs and where its output goes, with all checks before anything runs.

use std::path::{Path, PathBuf};

use crate::app::notebook::is_notebook;
use crate::error::Failure;
use crate::jupyter::nbformat::{Notebook, random_cell_id};
use crate::session::parameters::{Declared, Parameters, declared};

/// One notebook, script or piece of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The input.
    pub input: Input,
    /// Its name for a person.
    pub shown: String,
    /// The destination of the executed notebook.
    pub output: Target,
}

/// The source of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// This code.
    Code(String),
    /// The bytes that the front end read from its stdin.
    Piped(Vec<u8>),
    /// A notebook (`.ipynb`) or a script.
    File(PathBuf),
}

/// The destination of the executed notebook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It is discarded.
    Nowhere,
    /// The front end prints it.
    Stdout,
    /// This file.
    File(PathBuf),
}

impl Target {
    /// The file, if the destination is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Nowhere | Self::Stdout => None,
        }
    }
}

/// The requested destination, and options that it must be compatible with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    /// A file, `-` for stdout, or a directory for several notebooks.
    pub output: Option<PathBuf>,
    /// Overwrite the notebooks themselves.
    pub inplace: bool,
    /// Whether stored outputs are compared.
    pub is_check: bool,
    /// Whether stdout is used for other output.
    pub is_stdout_taken: bool,
}

/// The jobs in order, each with its destination.
///
/// # Errors
/// Incompatible options, or an output that cannot be written.
pub fn plan(
    inputs: Vec<Input>,
    outputs: &Outputs,
    parameters: &Parameters,
) -> Result<Vec<Job>, Failure> {
    let several = inputs.len() > 1;
    let mut jobs: Vec<Job> = Vec::new();
    for input in inputs {
        let (shown, path) = match &input {
            Input::Code(_) => ("-c".to_owned(), None),
            Input::Piped(_) => ("stdin".to_owned(), None),
            Input::File(path) => (path.display().to_string(), Some(path.as_path())),
        };
        if several && path.is_none() {
            return Err(Failure::usage("`-` cannot be one of several"));
        }
        if outputs.is_check && !path.is_some_and(is_notebook) {
            return Err(Failure::usage(format!(
                "`{shown}` has no outputs to check: it is not a notebook (.ipynb)"
            )));
        }
        let output = match path.filter(|_| several) {
            Some(path) => several_output(outputs, path, parameters)?,
            None => single_output(outputs, path, parameters)?,
        };
        if let (Target::File(file), Some(other)) =
            (&output, jobs.iter().find(|job| job.output == output))
        {
            return Err(Failure::usage(format!(
                "`{}` and `{shown}` would both be written to `{}`",
                other.shown,
                file.display()
            )));
        }
        jobs.push(Job {
            input,
            shown,
            output,
        });
    }
    let mut files = jobs.iter().filter_map(|job| job.output.file());
    files.try_for_each(check_output)?;
    Ok(jobs)
}

/// `path` itself, for --inplace.
fn inplace(path: Option<&Path>) -> Result<Target, Failure> {
    match path.filter(|path| is_notebook(path)) {
        Some(path) => Ok(Target::File(path.to_owned())),
        None => Err(Failure::usage("--inplace needs a notebook (.ipynb)")
            .hint("name a file for the executed notebook with -o")),
    }
}

fn single_output(
    outputs: &Outputs,
    path: Option<&Path>,
    parameters: &Parameters,
) -> Result<Target, Failure> {
    if outputs.inplace {
        return inplace(path);
    }
    let Some(output) = &outputs.output else {
        return Ok(Target::Nowhere);
    };
    if output.as_os_str() == "-" {
        if outputs.is_check || outputs.is_stdout_taken {
            return Err(Failure::usage(
                "stdout cannot take the notebook and the rest: name a file with -o",
            ));
        }
        return Ok(Target::Stdout);
    }
    let output = filled(output, parameters, path)?;
    if output.is_dir() {
        let Some(path) = path else {
            return Err(
                Failure::usage(format!("`{}` is a directory", output.display()))
                    .hint("name a file with -o"),
            );
        };
        return Ok(Target::File(within(&output, path)));
    }
    Ok(Target::File(output))
}

/// The same for one of several notebooks: in a directory, which is created.
fn several_output(
    outputs: &Outputs,
    path: &Path,
    parameters: &Parameters,
) -> Result<Target, Failure> {
    if outputs.inplace {
        return inplace(Some(path));
    }
    let Some(dir) = &outputs.output else {
        return Ok(Target::Nowhere);
    };
    let dir = filled(dir, parameters, Some(path))?;
    if dir.as_os_str() == "-" || dir.is_file() || is_notebook(&dir) {
        return Err(Failure::usage(format!(
            "`{}` is not a directory, which -o must be for several notebooks",
            dir.display()
        )));
    }
    std::fs::create_dir_all(&dir).map_err(|error| {
        Failure::usage(format!(
            "could not make the directory `{}`: {error}",
            dir.display()
        ))
    })?;
    Ok(Target::File(within(&dir, path)))
}

/// The file for `path` in `dir`; a script becomes a notebook.
fn within(dir: &Path, path: &Path) -> PathBuf {
    let name = path.file_name().map_or(path, Path::new);
    dir.join(name).with_extension("ipynb")
}

/// The path with each `{NAME}` replaced by the given parameter, otherwise by the value that the notebook `input`
/// declares.
fn filled(path: &Path, parameters: &Parameters, input: Option<&Path>) -> Result<PathBuf, Failure> {
    let Some(text) = path.to_str() else {
        return Ok(path.to_owned());
    };
    let missing = parameters.missing(text);
    if missing.is_empty() {
        return Ok(parameters.fill(text).into());
    }
    // An unreadable notebook is reported when it is about to run.
    let notebook = input
        .filter(|input| is_notebook(input))
        .and_then(|input| std::fs::read(input).ok())
        .and_then(|bytes| Notebook::read(&bytes, &mut random_cell_id).ok());
    let declared = notebook.and_then(|loaded| declared(&loaded.notebook));
    let declared = declared.unwrap_or_default();
    let mut all = parameters.clone();
    for name in missing {
        let default = declared.iter().find(|it| it.name == name);
        let why = match default.map(Declared::literal) {
            Some(Some(value)) => {
                all.set(name.to_owned(), value);
                continue;
            }
            Some(None) => "its default is no plain value",
            None => "there is no such parameter",
        };
        return Err(
            Failure::usage(format!("`{{{name}}}` in -o cannot be filled in: {why}"))
                .hint(format!("give it with -p {name}=VALUE")),
        );
    }
    Ok(all.fill(text).into())
}

/// Checks before the run that the result can be written.
fn check_output(output: &Path) -> Result<(), Failure> {
    let shown = output.display();
    let parent = output
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(Failure::usage(format!(
            "`{shown}` cannot be written: its directory is not there"
        )));
    }
    let probe = parent.join(format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = std::fs::write(&probe, b"?");
    let _ = std::fs::remove_file(&probe);
    written.map_err(|error| Failure::usage(format!("`{shown}` cannot be written: {error}")))
}
