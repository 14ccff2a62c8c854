//! Arguments of `sponde kernels`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{GatewayArgs, SandboxArgs};

/// `sponde kernels`.
#[derive(Debug, Args)]
pub struct KernelsArgs {
    /// What to do; default is `list`.
    #[command(subcommand)]
    pub command: Option<KernelsCommand>,
}

/// What can be done with kernels.
#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// List each kernel, where it is, and why it cannot be used.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Kernels of this gateway.
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Install kernels into Sponde's private environment.
    Install(InstallArgs),
    /// Remove kernels, sockets and connection files that killed runs left behind, and list the kernels that
    /// --keep-kernel left running.
    Reap {
        /// End these kernels as well.
        #[arg(long)]
        kept: bool,
    },
    /// Run cells in a kernel to find out how it really behaves.
    Test(ProbeArgs),
}

/// `sponde kernels test`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// The kernels: names or paths, as for --kernel.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Test all kernels that have a name.
    #[arg(long, conflicts_with = "names")]
    pub all: bool,
    /// What it may do.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
    /// As a Markdown table.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// As JSON, with times and details.
    #[arg(long)]
    pub json: bool,
}

/// `sponde kernels install`.
#[derive(Debug, Args)]
pub struct InstallArgs {
    /// The kernels: python3, bash, javascript, deno (or typescript), r, java, rust, gnuplot.
    #[arg(default_value = "python3", value_name = "NAME")]
    pub names: Vec<String>,
    /// Install missing system packages with apt-get, if needed with sudo, without asking.
    #[arg(long)]
    pub system: bool,
    /// Install only what the kernel needs, for python3 also pandas and matplotlib; no other libraries.
    #[arg(long)]
    pub minimal: bool,
    /// Install ipykernel into this virtual or conda environment instead.
    #[arg(long, value_name = "ENVIRONMENT", conflicts_with_all = ["names", "system"])]
    pub into: Option<PathBuf>,
}

impl InstallArgs {
    /// Installs this kernel with what it needs, and asks before it installs anything else.
    pub(in crate::cli) fn named(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            system: false,
            minimal: true,
            into: None,
        }
    }
}
