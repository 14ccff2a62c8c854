//! Which kernel to run.

use std::path::{Path, PathBuf};

use super::quirks::is_bare_python;
use crate::jupyter::kernelspec::KernelSpec;

/// Starts ipykernel like its own launcher, but without garbage collection during the imports and without module
/// teardown at the end: saves about a fifth of a short run (`scripts/bench cells`).
pub(super) const IPYKERNEL_START: &str = include_str!("ipykernel_start.py");
/// The same for other kernels that are Python modules: with enough buffer for all that they print.
pub(super) const PYTHON_START: &str = include_str!("python_start.py");

/// Which kernel to run.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSource {
    /// The kernelspec's name.
    pub name: String,
    /// Its kernel.json.
    pub spec: KernelSpec,
    /// The folder of kernel.json (`{resource_dir}`).
    pub resource_dir: PathBuf,
    /// The environment it belongs to (`{prefix}`), if any: a bare `python` in argv means that environment's
    /// interpreter.
    pub prefix: Option<PathBuf>,
}

impl KernelSource {
    /// The program to start: a path, or a name that is searched for on `PATH`.
    pub(super) fn program(&self) -> String {
        command(self, Path::new(""))
            .into_iter()
            .next()
            .unwrap_or_default()
    }
}

/// The spec's command; a bare `python` becomes the interpreter of the environment that the spec was found in, as in
/// jupyter_client.
pub(super) fn command(kernel: &KernelSource, connection_file: &Path) -> Vec<String> {
    let fallback = kernel.resource_dir.clone();
    let prefix = kernel.prefix.as_ref().unwrap_or(&fallback);
    let mut command = kernel
        .spec
        .command(connection_file, &kernel.resource_dir, prefix);
    if let Some(at) = ipykernel_at(&command) {
        let start = ["-c".to_owned(), IPYKERNEL_START.to_owned()];
        command.splice(at..at + 2, start);
    } else if let [program, module, ..] = &command[..]
        && module == "-m"
        && is_bare_python(program.rsplit('/').next().unwrap_or(program))
    {
        let start = ["-c".to_owned(), PYTHON_START.to_owned()];
        command.splice(1..2, start);
    }
    if let (Some(program), Some(prefix)) = (command.first_mut(), &kernel.prefix)
        && is_bare_python(program)
    {
        let own = prefix.join("bin").join(&*program);
        if own.exists() {
            *program = own.to_string_lossy().into_owned();
        }
    }
    command
}

/// The position in a command where Python is told to run ipykernel.
pub(super) fn ipykernel_at(command: &[String]) -> Option<usize> {
    command
        .windows(2)
        .position(|pair| pair == ["-m", "ipykernel_launcher"])
}
