//! Chooses the kernel for each input.

use super::Context;
use super::source::Source;
use crate::app::kernels::find_kernel;
use crate::app::remote_kernels::RemoteKernels;
use crate::error::Failure;
use crate::jupyter::nbformat::Notebook;
use crate::kernel::{KernelError, KernelSource};
use crate::session::notebook::Foreign;

/// The kernel for a notebook or script: the requested one, otherwise the one it names, otherwise one for its language,
/// otherwise the default one.
pub(super) fn choose(
    source: &Source,
    wanted: Option<&str>,
    remote: Option<&RemoteKernels>,
    context: &Context,
) -> Result<KernelSource, Failure> {
    let names_one = text(&source.notebook, "kernelspec", "name").is_some();
    if source.is_notebook || names_one {
        return of_notebook(&source.notebook, wanted, remote, context);
    }
    let named = wanted.or(context.config.kernel.as_deref());
    if let Some(remote) = remote {
        return remote.find(named, source.language.filter(|_| wanted.is_none()));
    }
    let usual = || find_kernel(named, context);
    let Some(language) = source.language.filter(|_| wanted.is_none()) else {
        return usual();
    };
    if let Ok(kernel) = usual()
        && kernel.spec.language.eq_ignore_ascii_case(language)
    {
        return Ok(kernel);
    }
    match context.paths.kernels().for_language(language) {
        Some(kernel) => Ok(kernel),
        None if language == "python" => usual(),
        None => Err(Failure::usage(format!("there is no kernel for {language}")).hint(
            "`sponde kernels` lists those there are; get one with `sponde kernels install`, or name one with --kernel",
        )),
    }
}

/// The requested kernel, otherwise the notebook's own, otherwise one for its language.
fn of_notebook(
    notebook: &Notebook,
    wanted: Option<&str>,
    remote: Option<&RemoteKernels>,
    context: &Context,
) -> Result<KernelSource, Failure> {
    let language = || {
        text(notebook, "kernelspec", "language").or_else(|| text(notebook, "language_info", "name"))
    };
    if let Some(remote) = remote {
        let named = text(notebook, "kernelspec", "name").or_else(|| context.config.kernel.clone());
        return match wanted {
            Some(wanted) => remote.find(Some(wanted), None),
            None => remote.find(named.as_deref(), language().as_deref()),
        };
    }
    if let Some(wanted) = wanted {
        return find_kernel(Some(wanted), context);
    }
    let Some(named) = text(notebook, "kernelspec", "name") else {
        return find_kernel(context.config.kernel.as_deref(), context);
    };
    find_kernel(Some(&named), context).or_else(|failure| {
        let other = language().and_then(|language| context.paths.kernels().for_language(&language));
        match other {
            Some(kernel) => {
                context.notify.warning(format!(
                    "there is no kernel `{named}`; using `{}`",
                    kernel.name
                ));
                Ok(kernel)
            }
            None => Err(failure),
        }
    })
}

fn text(notebook: &Notebook, object: &str, key: &str) -> Option<String> {
    notebook
        .metadata
        .get(object)?
        .get(key)?
        .as_str()
        .map(str::to_owned)
}

/// The kernel for a cell in another language than the notebook's: the one it ran in, otherwise one for its language.
pub(super) fn for_cell(cell: &Foreign<'_>, context: &Context) -> Result<KernelSource, KernelError> {
    let kernels = context.paths.kernels();
    let named = cell.kernel.and_then(|name| kernels.find(name).ok());
    named
        .filter(|source| source.spec.language.eq_ignore_ascii_case(cell.language))
        .or_else(|| kernels.for_language(cell.language))
        .ok_or_else(|| KernelError::Prepare {
            kernel: cell.kernel.unwrap_or(cell.language).to_owned(),
            reason: format!(
                "a cell of the notebook needs it, and there is no kernel for {}; see `sponde kernels`",
                cell.language
            ),
        })
}
