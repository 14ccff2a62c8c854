//! Arguments of `sponde mcp`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::SessionArgs;

/// `sponde mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// What to do; without it: serve a client over stdin and stdout.
    #[command(subcommand)]
    pub command: Option<McpCommand>,
    /// The workspace: code works and writes in this directory; default is the current one.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// How many sessions can run at a time.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub max_sessions: usize,
    /// How its sessions are.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// What else it can do.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Print what clients need in their configuration; options that stand before `config` are in it.
    Config {
        /// Which: claude-code, claude-desktop, codex, cursor, gemini, opencode, vscode, windsurf, zed; default is all.
        #[arg(value_name = "CLIENT")]
        client: Option<String>,
    },
}
