//! Creates a session that begins like an existing one, up to some cell.

use std::path::Path;

use super::Context;
use super::place;
use crate::agent::sessions;
use crate::agent::store::{Fork, OpenError, Opened};
use crate::session::notebook;

/// A new fork.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forked {
    /// Its id.
    pub id: String,
    /// How many cells it has.
    pub cells: usize,
}

/// Why a fork failed.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// The session cannot be read, or the new one cannot be written.
    #[error(transparent)]
    NotOpened(#[from] OpenError),
    /// There is no such cell.
    #[error("there is no cell `{at}`; the session has {cells}")]
    NoCell {
        /// The requested cell.
        at: String,
        /// How many cells there are.
        cells: usize,
    },
}

/// Creates a session that begins like `from`, which may be open. `at` is the last cell to copy, by id or number from
/// 1; `None` copies all. Reads and writes files, so it takes time.
///
/// # Errors
/// [`ForkError`].
pub fn fork(from: &str, at: Option<&str>, context: &Context) -> Result<Forked, ForkError> {
    let dir = context.paths.sessions();
    let cells = at.map(|at| number(&dir, from, at, context)).transpose()?;
    let id = sessions::new_id(&dir, &place::today());
    let fork = Fork {
        from,
        cells,
        id: &id,
        at: &place::now(),
    };
    let mut opened = Opened::fork(&dir, fork, context.config.limits.resolve())?;
    opened.store.close(place::now());
    let cells = opened.transcript.cells().len();
    drop(opened);
    Ok(Forked { id, cells })
}

/// Removes a fork that nobody can use.
pub fn discard(id: &str, context: &Context) {
    let dir = context.paths.sessions();
    if let Some(found) = sessions::look(&dir, id)
        && let Err(error) = sessions::remove(&dir, &context.paths.state, &found)
    {
        tracing::warn!(%error, id, "a fork that could not be opened stays");
    }
}

/// The number of cells that `at` means: that many, or those up to and including the cell with that id.
fn number(dir: &Path, from: &str, at: &str, context: &Context) -> Result<usize, ForkError> {
    let (_, transcript) = Opened::read(dir, from, context.config.limits.resolve())?;
    let cells = notebook::render(&transcript).cells;
    let by_id = cells.iter().position(|cell| cell.id == at);
    let number = by_id.map(|at| at + 1).or_else(|| at.parse().ok());
    let number = number.filter(|number| (1..=cells.len()).contains(number));
    number.ok_or_else(|| ForkError::NoCell {
        at: at.chars().take(80).collect(),
        cells: cells.len(),
    })
}
