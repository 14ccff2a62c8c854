//! `sponde fork`: makes another session that begins like an existing one.

use super::super::args::ForkArgs;
use super::super::{Context, eprint, print};
use crate::agent::sessions;
use crate::app::kept;
use crate::cli::exit::Exit;
use crate::error::Failure;

/// Runs it.
pub(in crate::cli) fn fork(args: &ForkArgs, context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    let found = kept::find(&all, Some(&args.session))?;
    let forked = kept::fork(found, args.at.as_deref(), context)?;
    let all = sessions::list(&dir);
    let short = sessions::short(&forked.id, &all);
    print(&format!("{}\n", forked.id))?;
    eprint(&format!(
        "forked after {} cells; continue with `sponde resume {short}`\n",
        forked.cells
    ));
    Ok(Exit::Done)
}
