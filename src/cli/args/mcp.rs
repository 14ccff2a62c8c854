//! Arguments of `sponde mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::SessionArgs;

/// `sponde mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// What to do [default: serve a client over stdin and stdout].
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    /// The workspace, where code works and writes [default: the current directory].
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Most sessions that run at a time.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_sessions: usize,
    /// Settings of its sessions.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// What else it can do.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Print the configuration that clients need, with the options given before `config`.
    Config {
        /// The client: claude-code, claude-desktop, codex, cursor, gemini, opencode, vscode, windsurf, zed [default:
        /// all].
        #[arg(value_name = "CLIENT")]
        client: Option<String>,
    },
}
