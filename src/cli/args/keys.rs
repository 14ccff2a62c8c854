//! `sponde keys`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::app::tenants::Scope;

/// Keys of a server's tenants.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: KeysCommand,
}

/// What can be done with them.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key for a tenant and print it; the file keeps its digest only.
    Add {
        /// The tenant: letters, digits, `-` and `_`.
        name: String,
        /// The key file, which is made if it is not there.
        #[arg(long, value_name = "FILE", default_value = "keys.toml")]
        file: PathBuf,
        /// What the key may be used for.
        #[arg(long, value_enum, default_value = "ask")]
        scope: ScopeArg,
    },
    /// The tenants of a key file.
    List {
        /// The key file.
        #[arg(long, value_name = "FILE", default_value = "keys.toml")]
        file: PathBuf,
    },
}

/// What a key may be used for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ScopeArg {
    /// Look at sessions, notebooks and files.
    Read,
    /// Run code and change files as well.
    Run,
    /// Ask a model as well.
    Ask,
}

impl From<ScopeArg> for Scope {
    fn from(arg: ScopeArg) -> Self {
        match arg {
            ScopeArg::Read => Self::Read,
            ScopeArg::Run => Self::Run,
            ScopeArg::Ask => Self::Ask,
        }
    }
}
