//! Arguments of `sponde serve`.

use std::path::PathBuf;

use clap::Args;

use super::SessionArgs;
use crate::server::Listen;

/// `sponde serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen: ADDRESS:PORT (port 0 picks a free one) or unix:PATH; can be repeated. For other machines, put
    /// a proxy with TLS in front (docs/server.md).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = listen)]
    pub listen: Vec<Listen>,
    /// Serve tenants: the file with their keys, from `sponde keys add`. Each has its own directory, sessions and
    /// kernels, and sees nothing of the others.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
    /// Keep the token in this file, created if it does not exist [default: a new token at each start].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A host name under which a proxy reaches the server; can be repeated.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Sessions work in this directory or below [default: the current directory].
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Most sessions that run at a time.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_sessions: usize,
    /// End sessions without a client and without activity after this many minutes [default: never].
    #[arg(long, value_name = "MINUTES")]
    pub end_idle: Option<u64>,
    /// Let programs on this machine run code without a key, as E2B's SDKs do in debug mode (docs/e2b.md).
    #[arg(long)]
    pub e2b_debug: bool,
    /// End when stdin closes, for a program that starts the server and may be killed.
    #[arg(long)]
    pub end_with_stdin: bool,
    /// Settings of its sessions.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// Where to listen.
fn listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(Listen::Unix(PathBuf::from(path)));
    }
    let text = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    let address = text.parse().map(Listen::Tcp);
    address.map_err(|_| "not ADDRESS:PORT, such as 127.0.0.1:8800, or unix:PATH".to_owned())
}
