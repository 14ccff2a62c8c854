//! Which kernel to run.

use std::path::PathBuf;

use crate::jupyter::kernelspec::KernelSpec;

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
