//! Arguments of `sponde acp`.

use clap::{Args, Subcommand};

use super::SessionArgs;

/// `sponde acp`.
#[derive(Debug, Args)]
pub struct AcpArgs {
    /// What to do; without it: serve an editor over stdin and stdout.
    #[command(subcommand)]
    pub command: Option<AcpCommand>,
    /// How many sessions can run at a time.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_sessions: usize,
    /// How its sessions are.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// What else it can do.
#[derive(Debug, Subcommand)]
pub enum AcpCommand {
    /// Print what editors need in their configuration; options that stand before `config` are in it.
    Config {
        /// Which: zed, jetbrains, codecompanion, avante, others; default is all.
        #[arg(value_name = "EDITOR")]
        client: Option<String>,
    },
}
