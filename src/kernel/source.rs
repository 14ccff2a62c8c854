//! Which kernel to run.

use std::path::{Path, PathBuf};

use super::quirks::is_bare_python;
use crate::jupyter::kernelspec::KernelSpec;

/// Starts ipykernel as its own launcher does, but without collecting garbage while it imports and without taking its
/// modules apart at the end: about a fifth of the time of a short run (`scripts/bench cells`).
pub(super) const IPYKERNEL_START: &str = include_str!("ipykernel_start.py");
/// The same for other kernels that are Python modules: with room for all that they print.
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
    /// The environment it belongs to (`{prefix}`), where there is one: a bare `python` in argv means the
    /// interpreter of this environment.
    pub prefix: Option<PathBuf>,
}

impl KernelSource {
    /// The program that is started: a path, or a name that is looked for on `PATH`.
    pub(super) fn program(&self) -> String {
        command(self, Path::new(""))
            .into_iter()
            .next()
            .unwrap_or_default()
    }
}

/// The spec's command; a bare `python` is the interpreter of the environment the spec was found in, as
/// jupyter_client has it.
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

/// The position in a command at which Python is told to run ipykernel.
pub(super) fn ipykernel_at(command: &[String]) -> Option<usize> {
    command
        .windows(2)
        .position(|pair| pair == ["-m", "ipykernel_launcher"])
}
