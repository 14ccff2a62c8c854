//! The command line of `sponde profile`.

use std::path::PathBuf;

use clap::Args;

/// `sponde profile`.
#[derive(Debug, Args)]
pub struct ProfileArgs {
    /// The table: CSV, Excel, Parquet and others that one line of pandas loads.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The notebook to write [default: NAME-profile.ipynb in the current directory].
    #[arg(short, long, value_name = "OUT.ipynb")]
    pub output: Option<PathBuf>,
    /// The kernel [default: python3].
    #[arg(short, long, env = "SPONDE_KERNEL", value_name = "KERNEL", add = crate::cli::completers::kernels())]
    pub kernel: Option<String>,
}
