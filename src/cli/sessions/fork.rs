//! `sponde fork`: another session that begins as one did.

use std::path::Path;

use super::super::args::ForkArgs;
use super::super::{Context, eprint, print};
use super::{find, not_opened, show};
use crate::agent::sessions;
use crate::agent::store::{Fork, OpenError, Opened};
use crate::app::place;
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};

/// Runs it.
pub(in crate::cli) fn fork(args: &ForkArgs, context: &Context) -> Result<Exit, Failure> {
    let dir = context.paths.sessions();
    let all = sessions::list(&dir);
    let found = find(&all, Some(&args.session))?;
    let cells = match &args.at {
        Some(at) => Some(number(at, &show::read(found, context)?.cells)?),
        None => None,
    };
    let id = sessions::new_id(&dir, &place::today());
    let fork = Fork {
        from: &found.id,
        cells,
        id: &id,
        at: &place::now(),
    };
    let mut opened = Opened::fork(&dir, fork, context.config.limits.resolve())
        .map_err(|error| not_made(&error, &dir))?;
    opened.store.close(place::now());
    let kept = opened.transcript.cells().len();
    drop(opened);
    let all = sessions::list(&dir);
    let short = sessions::short(&id, &all);
    print(&format!("{id}\n"))?;
    eprint(&format!(
        "forked after {kept} cells; go on with `sponde resume {short}`\n"
    ));
    Ok(Exit::Done)
}

/// Why there is no fork. A session that cannot be written goes on in memory; a fork is nothing but what is written.
fn not_made(error: &OpenError, dir: &Path) -> Failure {
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

/// How many cells `at` means: that many, or up to and with the one of that id.
fn number(at: &str, cells: &[crate::jupyter::nbformat::Cell]) -> Result<usize, Failure> {
    let by_id = || cells.iter().position(|cell| cell.id == at);
    let number = match by_id() {
        Some(at) => Some(at + 1),
        None => at.parse().ok(),
    };
    number
        .filter(|number| (1..=cells.len()).contains(number))
        .ok_or_else(|| {
            Failure::usage(format!(
                "there is no cell `{at}`; the session has {}",
                cells.len()
            ))
            .hint("`sponde sessions show` numbers them")
        })
}
