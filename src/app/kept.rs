//! The stored sessions: finds the one that a person means, reads it, and forks it.

use std::path::Path;

use super::Context;
use super::forks::{self, ForkError, Forked};
use crate::agent::sessions::{self, FindError, Found};
use crate::agent::store::{OpenError, Opened};
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::{Notebook, random_cell_id};
use crate::session::notebook;

/// The session that `wanted` names; the latest if it names none.
///
/// # Errors
/// It matches no session, or several.
pub fn find<'a>(all: &'a [Found], wanted: Option<&str>) -> Result<&'a Found, Failure> {
    let Some(wanted) = wanted else {
        return all
            .first()
            .ok_or_else(|| Failure::usage("there is no session yet"));
    };
    sessions::find(all, wanted).map_err(|error| {
        let failure = Failure::usage(error.to_string());
        match error {
            FindError::None(_) => failure.hint("`sponde sessions` lists them"),
            FindError::Several { .. } => failure.hint("say more of it"),
        }
    })
}

/// The failure shown when a session could not be opened.
pub fn not_opened(error: &OpenError) -> Failure {
    let failure = Failure::new(FailureKind::Failed, error.to_string());
    match error {
        OpenError::Taken { .. } => failure
            .hint("a session can be used by one process at a time; `sponde fork` makes a copy"),
        OpenError::NoJournal(_) => failure.hint(
            "only the notebook is left of this session; `sponde ask --notebook` continues one",
        ),
        OpenError::Newer { .. } => failure.hint("its notebook can be read by every version"),
        OpenError::Io { .. } => failure,
    }
}

/// A session's notebook, rebuilt from the journal if there is one.
///
/// # Errors
/// Files that cannot be read.
pub fn read(found: &Found, context: &Context) -> Result<Notebook, Failure> {
    let limits = context.config.limits.resolve();
    match Opened::read(&context.paths.sessions(), &found.id, limits) {
        Ok((_, transcript)) => return Ok(notebook::render(&transcript)),
        Err(OpenError::NoJournal(_)) => {}
        Err(error) => return Err(not_opened(&error)),
    }
    let path = found.notebook.display();
    let unreadable = |error: String| {
        Failure::new(
            FailureKind::Failed,
            format!("could not read `{path}`: {error}"),
        )
    };
    let bytes = std::fs::read(&found.notebook).map_err(|error| unreadable(error.to_string()))?;
    let loaded = Notebook::read(&bytes, &mut random_cell_id);
    Ok(loaded
        .map_err(|error| unreadable(error.to_string()))?
        .notebook)
}

/// Creates a session that begins like `found`, up to and including the cell `at`: its number in `sponde sessions
/// show`, or its id. `None` copies all cells.
///
/// # Errors
/// There is no such cell, or the new session cannot be written.
pub fn fork(found: &Found, at: Option<&str>, context: &Context) -> Result<Forked, Failure> {
    forks::fork(&found.id, at, context).map_err(|error| not_made(&error, &context.paths.sessions()))
}

/// The failure of a fork. An unwritable session continues in memory, but a fork consists only of its files.
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
    let cause = words.split("; the session continues").next();
    let cause = cause.unwrap_or_default();
    Failure::new(FailureKind::Failed, format!("there is no fork: {cause}")).hint(format!(
        "forks are written to `{}`: make room there, or let it be written",
        dir.display()
    ))
}
