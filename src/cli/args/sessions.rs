//! Arguments of what is done with sessions that are kept.

use clap::{Args, Subcommand};

use super::SessionArgs;
use crate::cli::completers::{cells, sessions, shells};

/// `sponde sessions`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SessionsArgs {
    /// How to list them.
    #[command(flatten)]
    pub list: SessionListArgs,
    /// What to do; default is `list`.
    #[command(subcommand)]
    pub command: Option<SessionsCommand>,
}

/// What can be done with sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsCommand {
    /// List the sessions, latest first.
    List(SessionListArgs),
    /// Show questions, code, outputs and answers of a session.
    Show {
        /// The session: its id or the beginning of it, its title or its notebook [default: the latest].
        #[arg(value_name = "SESSION", add = sessions())]
        session: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Find sessions by words in questions, answers, code and outputs.
    Search {
        /// The words, all of which must occur; case does not matter.
        #[arg(required = true, value_name = "WORD")]
        words: Vec<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change the title of a session.
    Rename {
        /// The session.
        #[arg(value_name = "SESSION", add = sessions())]
        session: String,
        /// The title; an empty one removes it.
        title: String,
    },
    /// Remove sessions and their notebooks, except notebooks kept elsewhere with --notebook.
    Rm {
        /// The session.
        #[arg(required = true, value_name = "SESSION", add = sessions())]
        sessions: Vec<String>,
    },
    /// Remove the oldest sessions until the rest fits into a size.
    Gc {
        /// The size that all sessions may take, such as 500MB or 2GB.
        #[arg(long, value_name = "SIZE", default_value = "5GB", value_parser = size)]
        max_size: u64,
        /// Only list what would be removed.
        #[arg(long)]
        dry_run: bool,
    },
}

/// `sponde sessions list`, which `sponde sessions` alone is too.
#[derive(Debug, Args)]
pub struct SessionListArgs {
    /// Show at most this many.
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// `sponde resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The session: its id or the beginning of it, its title or its notebook [default: the latest].
    #[arg(value_name = "ID", add = sessions())]
    pub session: Option<String>,
    /// Continue the latest session.
    #[arg(long, conflicts_with = "session")]
    pub last: bool,
    /// If the kernel is gone, continue with an empty one. Without this and --replay, Sponde asks; without a terminal
    /// it continues with an empty one.
    #[arg(long, conflicts_with = "replay")]
    pub fresh: bool,
    /// How.
    #[command(flatten)]
    pub session_args: SessionArgs,
}

/// `sponde attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The running session: the beginning or the end of its id [default: the newest].
    #[arg(value_name = "ID")]
    pub session: Option<String>,
    /// Print events as JSON, one item a line (docs/events.md), without answering anything.
    #[arg(long)]
    pub json: bool,
    /// Print only what comes after this item.
    #[arg(long, value_name = "ITEM", requires = "json", value_parser = item_id)]
    pub after: Option<crate::agent::stream::ItemId>,
}

/// `sponde fork`.
#[derive(Debug, Args)]
pub struct ForkArgs {
    /// The session to fork.
    #[arg(value_name = "ID", add = sessions())]
    pub session: String,
    /// The last cell to keep: its number in `sponde sessions show`, or its id.
    #[arg(long, value_name = "CELL", add = cells())]
    pub at: Option<String>,
}

/// `sponde completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell: bash, zsh, fish, elvish or powershell; or `man` for the page of the manual.
    #[arg(value_name = "SHELL", value_parser = shells())]
    pub shell: String,
    /// The command that the manual page describes [default: the overview].
    #[arg(value_name = "COMMAND")]
    pub command: Option<String>,
}

/// Bytes, from a number with a unit.
fn size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number
        .parse()
        .map_err(|_| "a size is a number with a unit, as 500MB or 2GB".to_owned())?;
    let factor: f64 = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1.0,
        "K" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "T" | "TB" => 1e12,
        "KIB" => 1024.0,
        "MIB" => 1024.0 * 1024.0,
        "GIB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err("units are B, KB, MB, GB and TB".to_owned()),
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no minus sign is read, and a size beyond all disks may be one of them"
    )]
    let bytes = (number * factor) as u64;
    Ok(bytes)
}

/// Reads the id of an item.
fn item_id(text: &str) -> Result<crate::agent::stream::ItemId, String> {
    text.parse().map_err(|error| format!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes() {
        let cases = [
            ("0", Ok(0)),
            ("500MB", Ok(500_000_000)),
            ("1.5 gb", Ok(1_500_000_000)),
            ("2GiB", Ok(2 << 30)),
        ];
        for (text, expected) in cases {
            assert_eq!(size(text), expected, "{text}");
        }
        assert!(size("much").is_err() && size("5 XB").is_err() && size("-1").is_err());
    }
}
