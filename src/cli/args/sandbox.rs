//! Arguments that say how a kernel is confined.

use std::path::PathBuf;

use clap::Args;

use crate::app::sandbox::SandboxSettings;
use crate::cli::completers;
use crate::kernel::{LevelChoice, Network};

/// What code in a kernel may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct SandboxArgs {
    /// What code may do (docs/sandbox.md): write only temporary files, write in the working directory, or all that
    /// you may. `gvisor` and `gvisor-read-only` use gVisor's `runsc`. The default is `workspace` for code of a model,
    /// and `full` for `sponde run` and `sponde kernels test`.
    #[arg(long, env = "SPONDE_SANDBOX", value_name = "read-only|workspace|full|gvisor", add = completers::levels())]
    pub sandbox: Option<LevelChoice>,
    /// What code in the sandbox reaches over the network [default: off]. `allow:` takes hosts (`example.org`,
    /// `*.example.org`, `example.org:8443`) and the registries `pypi`, `cran`, `npm` and `conda`, separated by
    /// commas.
    #[arg(long, value_name = "off|allow:HOST,..|on", add = completers::networks())]
    pub network: Option<Network>,
    /// Another directory that code in the sandbox can write; can be repeated.
    #[arg(long = "add-dir", value_name = "DIR")]
    pub add_dirs: Vec<PathBuf>,
}

impl SandboxArgs {
    /// As the app takes it.
    pub(in crate::cli) fn settings(&self) -> SandboxSettings {
        SandboxSettings {
            level: self.sandbox,
            network: self.network.clone(),
            add_dirs: self.add_dirs.clone(),
            reads: Vec::new(),
            at_mnt_data: false,
        }
    }
}
