//! The command line of `sponde profile`.

use std::path::PathBuf;

use clap::Args;

use super::{GatewayArgs, SandboxArgs};

/// `sponde profile`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sponde profile sales.csv
  sponde profile shop.db                        each table of a SQLite or DuckDB database
  sponde profile reports/ 'more/*.parquet'      files with the same columns, as one table")]
pub struct ProfileArgs {
    /// A table (CSV, Excel, Parquet and others that one line of pandas loads), or a SQLite or DuckDB database; or
    /// files, folders and patterns of tables that have the same columns.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The notebook to write [default: NAME-profile.ipynb in the current directory].
    #[arg(short, long, value_name = "OUT.ipynb")]
    pub output: Option<PathBuf>,
    /// The kernel [default: python3].
    #[arg(short, long, env = "SPONDE_KERNEL", value_name = "KERNEL", add = crate::cli::completers::kernels())]
    pub kernel: Option<String>,
    /// Where it runs.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// What it may do.
    #[command(flatten)]
    pub sandbox: SandboxArgs,
}
