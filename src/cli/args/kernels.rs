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
    /// Every kernel that is found, where, and why one cannot be used.
    List {
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Whose.
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Make kernels work, in Sponde's private environment.
    Install(InstallArgs),
    /// Clean up what runs that were killed have left: kernels, sockets, connection files. Lists the kernels that
    /// --keep-kernel has left running.
    Reap {
        /// End those, too.
        #[arg(long)]
        kept: bool,
    },
    /// Find out how a kernel really behaves, by running cells in it.
    Test(ProbeArgs),
}

/// `sponde kernels test`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Which: names or paths, as for --kernel.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// All that can be named.
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
    /// Which: python3, bash, javascript, deno (or typescript), r, java, rust, gnuplot.
    #[arg(default_value = "python3", value_name = "NAME")]
    pub names: Vec<String>,
    /// Install system packages that are missing, with apt-get and if need be sudo, without asking.
    #[arg(long)]
    pub system: bool,
    /// Of python3: only what the kernel needs, pandas and matplotlib, without the other libraries of data analysis.
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
