//! `sponde fork`: another session that begins as one did.

use std::path::Path;

use super::super::args::ForkArgs;
use super::super::{Context, eprint, print};
use super::{find, not_opened};
use crate::agent::sessions;
use crate::agent::store::OpenError;
use crate::app::forks::{self, ForkError};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// Runs it.
pub(in crate::cli) fn fork(args: &ForkArgs, context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    let found = find(&all, Some(&args.session))?;
    let forked = forks::fork(&found.id, args.at.as_deref(), context);
    let forked = forked.map_err(|error| not_made(&error, &dir))?;
    let all = sessions::list(&dir);
    let short = sessions::short(&forked.id, &all);
    print(&format!("{}\n", forked.id))?;
    eprint(&format!(
        "forked after {} cells; go on with `sponde resume {short}`\n",
        forked.cells
    ));
    Ok(Exit::Done)
}

/// Why there is no fork. A session that cannot be written goes on in memory; a fork is nothing but what is written.
fn not_made(error: &ForkError, dir: &Path) -> Failure {
    let error = match error {
        ForkError::NotOpened(error) => error,
        ForkError::NoCell { .. } => {
            return Failure::usage(error.to_string()).hint("`sponde sessions show` numbers them");
        }
    };
    let failure = not_opened(error);
    let OpenError::Io { error, .. } = error else {
        return failure;
    };
    let words = error.to_string();
    let cause = words.split("; the session goes on").next();
    let cause = cause.unwrap_or_default();
    Failure::new(FailureKind::Failed, format!("there is no fork: {cause}")).hint(format!(
        "forks are written to `{}`: make room there, or let it be written",
        dir.display()
    ))
}
