//! Arguments of `sponde acp`.

use clap::{Args, Subcommand};

use super::SessionArgs;

/// `sponde acp`.
#[derive(Debug, Args)]
pub struct AcpArgs {
    /// What to do [default: serve an editor over stdin and stdout].
    #[command(subcommand)]
    pub command: Option<AcpCommand>,
    /// Most sessions that run at a time.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_sessions: usize,
    /// Settings of its sessions.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// What else it can do.
#[derive(Debug, Subcommand)]
pub enum AcpCommand {
    /// Print the configuration that editors need, with the options given before `config`.
    Config {
        /// The editor: zed, jetbrains, codecompanion, avante, others [default: all].
        #[arg(value_name = "EDITOR")]
        client: Option<String>,
    },
}
