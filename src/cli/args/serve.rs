//! Arguments of `sponde serve`.

use std::path::PathBuf;

use clap::Args;

use super::SessionArgs;
use crate::server::Listen;

/// `sponde serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Where to listen: ADDRESS:PORT (port 0 is a free one) or unix:PATH; can be given several times. Beyond this machine,
    /// put a proxy with TLS in front of it (docs/server.md).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = listen)]
    pub listen: Vec<Listen>,
    /// Tenants: the file with their keys, which `sponde keys add` makes. Each has a directory, sessions and kernels of its
    /// own and sees nobody else's.
    #[arg(long, value_name = "FILE")]
    pub keys: Option<PathBuf>,
    /// Open the page in the browser.
    #[arg(long)]
    pub open: bool,
    /// The file with the token: one that is there is used, else it is made; without this, each start makes a new token.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// A name under which a proxy reaches it; can be given several times.
    #[arg(long = "allow-host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Sessions work in this directory or below it; default is the current one.
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// How many sessions can run at a time.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub max_sessions: usize,
    /// End sessions that nobody looks at and that do nothing for so many minutes; default is never.
    #[arg(long, value_name = "MINUTES")]
    pub end_idle: Option<u64>,
    /// Let programs of this machine run code without a key, as E2B's SDKs want it in debug mode (docs/e2b.md).
    #[arg(long)]
    pub e2b_debug: bool,
    /// End when stdin is closed: for a program that starts the server and may itself be killed.
    #[arg(long)]
    pub end_with_stdin: bool,
    /// How its sessions are.
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
