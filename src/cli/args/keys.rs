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
    /// Create a key for a tenant and print it; the file keeps only its digest.
    Add {
        /// The tenant's name: letters, digits, `-` and `_`.
        name: String,
        /// The key file; created if it does not exist.
        #[arg(long, value_name = "FILE", default_value = "keys.toml")]
        file: PathBuf,
        /// What the key allows.
        #[arg(long, value_enum, default_value = "ask")]
        scope: ScopeArg,
    },
    /// List the tenants of a key file.
    List {
        /// The key file.
        #[arg(long, value_name = "FILE", default_value = "keys.toml")]
        file: PathBuf,
    },
}

/// What a key may be used for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ScopeArg {
    /// Read sessions, notebooks and files.
    Read,
    /// Also run code and change files.
    Run,
    /// Also ask a model.
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
