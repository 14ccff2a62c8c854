//! Reads notebooks and scripts: a script with cell markers becomes several cells, any other one cell.

use std::io;
use std::path::{Path, PathBuf};

use super::Context;
use super::plan::{Input, Job};
use crate::app::notebook::{is_notebook, parse};
use crate::app::remote_kernels::RemoteKernels;
use crate::error::Failure;
use crate::jupyter::nbformat::{Cell, Notebook, random_cell_id};
use crate::session::percent;

/// The parsed input.
pub(super) struct Source {
    pub(super) notebook: Notebook,
    /// Whether it is a notebook, rather than the cells of a script.
    pub(super) is_notebook: bool,
    /// The language, from a script's suffix.
    pub(super) language: Option<&'static str>,
    /// Its directory.
    pub(super) dir: PathBuf,
}

/// Reads the input of `job`; `cwd` is the person's working directory.
pub(super) fn read(
    job: &Job,
    cwd: &Path,
    remote: Option<&RemoteKernels>,
    context: &Context,
) -> Result<Source, Failure> {
    let shown = &job.shown;
    let unreadable =
        |error: io::Error| Failure::usage(format!("could not read `{shown}`: {error}"));
    let script = |code: &str, extension: Option<&str>, dir: PathBuf| Source {
        notebook: cells(code, extension, remote, context),
        is_notebook: false,
        language: extension.and_then(percent::language_of),
        dir,
    };
    let notebook = |bytes: &[u8], dir: PathBuf| {
        Ok(Source {
            notebook: parse(bytes, shown, &context.notify)?,
            is_notebook: true,
            language: None,
            dir,
        })
    };
    match &job.input {
        Input::Code(code) => Ok(Source {
            notebook: one_cell(code),
            is_notebook: false,
            language: None,
            dir: cwd.to_owned(),
        }),
        Input::Piped(bytes) => {
            if looks_like_a_notebook(bytes) {
                return notebook(bytes, cwd.to_owned());
            }
            let code = text(bytes.clone(), shown)?;
            // The comment syntax is unknown; most languages use the same one.
            Ok(Source {
                language: None,
                ..script(&code, Some("py"), cwd.to_owned())
            })
        }
        Input::File(path) => {
            let bytes = std::fs::read(path).map_err(unreadable)?;
            // Like Jupyter: a notebook runs in its own directory.
            let dir = cwd
                .join(path)
                .parent()
                .map_or_else(|| cwd.to_owned(), Path::to_owned);
            if is_notebook(path) {
                return notebook(&bytes, dir);
            }
            let extension = path.extension().and_then(|extension| extension.to_str());
            Ok(script(&text(bytes, shown)?, extension, dir))
        }
    }
}

fn text(bytes: Vec<u8>, shown: &str) -> Result<String, Failure> {
    let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => rest.to_vec(),
        None => bytes,
    };
    String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "`{shown}` is neither a notebook (.ipynb) nor a script in UTF-8"
        ))
    })
}

/// JSON with `nbformat` in it: in no language is that a script.
fn looks_like_a_notebook(bytes: &[u8]) -> bool {
    let begins = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    begins == Some(&b'{')
        && serde_json::from_slice::<serde_json::Value>(bytes)
            .is_ok_and(|value| value.get("nbformat").is_some())
}

fn one_cell(code: &str) -> Notebook {
    let mut notebook = Notebook::new();
    notebook.cells.push(Cell::code(random_cell_id(), code));
    notebook
}

/// A script as cells; its header may name a kernel.
fn cells(
    code: &str,
    extension: Option<&str>,
    remote: Option<&RemoteKernels>,
    context: &Context,
) -> Notebook {
    let Some(comment) = extension.and_then(percent::comment_of) else {
        return one_cell(code);
    };
    let kernels = context.paths.kernels();
    let has_kernel = |language: &str| match remote {
        Some(remote) => remote.for_cell(None, language).is_ok(),
        None => kernels.for_language(language).is_some(),
    };
    let Some(script) = percent::parse(code, comment, &mut random_cell_id, &has_kernel) else {
        return one_cell(code);
    };
    let mut notebook = Notebook::new();
    if let Some(kernelspec) = script.kernelspec {
        notebook
            .metadata
            .insert("kernelspec".to_owned(), kernelspec.into());
    }
    notebook.cells = script.cells;
    notebook
}
