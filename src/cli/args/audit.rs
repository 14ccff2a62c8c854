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
    /// Check that no line was changed, dropped or added; names the first bad line and exits with 1.
    Verify {
        /// The session: its id or the beginning of it, its title or its notebook [default: the latest].
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
        /// Check the logs of all sessions.
        #[arg(long, conflicts_with = "session")]
        all: bool,
    },
    /// List the events of a session, one a line.
    Show {
        /// The session [default: the latest].
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
    },
    /// Export the log for other programs.
    Export {
        /// The session [default: the latest].
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
        /// The format.
        #[arg(long, value_enum, default_value = "jsonl")]
        format: AuditFormat,
        /// The file to write [default: stdout].
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
