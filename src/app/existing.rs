//! `--existing`: uses a kernel that another program started.

use std::path::PathBuf;

use super::{Context, kernels};
use crate::error::{Failure, FailureKind};
use crate::jupyter::connection::ConnectionInfo;
use crate::kernel::KernelSource;
use crate::kernel::attach::find_connection_file;

/// A running kernel, as its connection file describes it.
#[derive(Debug)]
pub struct Existing {
    /// The connection file.
    pub file: PathBuf,
    /// The kernelspec that it was started from, otherwise the named or default one: it determines the language.
    pub kernel: KernelSource,
}

/// Resolves `--existing`; `named` is the kernel that the person says it is.
pub fn find(
    wanted: Option<&str>,
    named: Option<&str>,
    context: &Context,
) -> Result<Option<Existing>, Failure> {
    let Some(wanted) = wanted else {
        return Ok(None);
    };
    let wanted = Some(wanted).filter(|wanted| !wanted.is_empty());
    let file = find_connection_file(wanted, &context.paths.jupyter_runtime).map_err(|error| {
        Failure::new(FailureKind::Kernel, error.to_string())
            .hint("`jupyter kernel` starts one; every Jupyter front end writes such a file for each of its kernels")
    })?;
    let unusable = |reason: String| {
        Failure::new(
            FailureKind::Kernel,
            format!("`{}` cannot be used: {reason}", file.display()),
        )
    };
    let text = std::fs::read(&file).map_err(|error| unusable(error.to_string()))?;
    let info = ConnectionInfo::parse(&text).map_err(|error| unusable(error.to_string()))?;
    let said = Some(info.kernel_name.as_str()).filter(|name| !name.is_empty());
    let kernel = match (named, said) {
        (Some(named), _) => kernels::find_kernel(Some(named), context)?,
        // A kernelspec that is not installed here is replaced by the default one.
        (None, said) => {
            kernels::find_kernel(said, context).or_else(|_| kernels::find_kernel(None, context))?
        }
    };
    Ok(Some(Existing { file, kernel }))
}
