//! Arguments of `sponde audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::completers::sessions;

/// `sponde audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: AuditCommand,
}

/// What can be done with audit logs.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Check that no line was changed, dropped or added; exit code 1 names the first bad one.
    Verify {
        /// Which: an id or the beginning of one, a title, or its notebook; default is the latest session.
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
        /// The logs of all sessions.
        #[arg(long, conflicts_with = "session")]
        all: bool,
    },
    /// What happened, a line each.
    Show {
        /// Which; default is the latest session.
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
    },
    /// The log for other programs.
    Export {
        /// Which; default is the latest session.
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
        /// How.
        #[arg(long, value_enum, default_value = "jsonl")]
        format: AuditFormat,
        /// Where to; default is stdout.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// How a log is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// JSON lines, as they are on disk.
    Jsonl,
    /// A table.
    Csv,
}
