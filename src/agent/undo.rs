//! Undoing turns: what is remembered of each moment before code ran, and how to restore one.
//!
//! A [`Point`] precedes a cell. It has the files of the workspace ([`workspace`]) and a [`Way`] to restore the main
//! kernel's variables: a dormant copy of the kernel, a file with the variables that could be saved, or only the earlier
//! cells. Kernels of other languages have no points.
//!
//! Not here: when points are made and how a session uses them (`run::checkpoints`, `run::undo`).

mod changes;
mod confined_dir;
mod scan;
mod store;
mod workspace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::checkpoint::{CheckpointId, Memory, SavedVariables};
use crate::kernel::reap::Running;
pub(super) use changes::{Look, Watched};
pub(super) use store::make_private_dir;
pub use workspace::{FileLimits, FilePlan, FilesUndone, Moment, Seen, Span, Workspace};

/// Default number of kernel copies.
pub const CHECKPOINTS: usize = 10;
/// Maximum bytes of a file with variables.
pub(super) const SAVED_BYTES: u64 = 256 << 20;

/// Settings for undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoOptions {
    /// A private directory of this session, created on demand and removed with the session.
    pub dir: PathBuf,
    /// Maximum kernel checkpoints.
    pub checkpoints: usize,
    /// Maximum bytes of memory they may use together; a quarter of the available memory by default.
    pub memory: Option<u64>,
    /// Limits on file copies.
    pub files: FileLimits,
}

impl UndoOptions {
    /// The defaults, with a private directory below `parent`. Directories left there by killed sessions are removed.
    pub fn below(parent: &Path) -> Self {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            if name
                .split_once('_')
                .is_some_and(|(owner, _)| Running::is_gone(owner))
            {
                // If this fails, the next session tries again.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let owner = Running::current().unwrap_or_default();
        let id = uuid::Uuid::new_v4().simple();
        Self {
            dir: parent.join(format!("{owner}_{id}")),
            checkpoints: CHECKPOINTS,
            memory: None,
            files: FileLimits::default(),
        }
    }
}

/// How far to go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndoTo {
    /// Before the last so many turns. A turn is a question with all that came of it, or a cell of the person's own.
    Turns(u32),
    /// To the checkpoint of this number.
    Checkpoint(u64),
}

/// A moment before a cell.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// Counts the points of a session from 1.
    pub(super) number: u64,
    /// The cell that follows it; for the first of a turn, its question.
    pub(super) cell: String,
    pub(super) starts_turn: bool,
    /// When, ISO 8601.
    pub(super) at: String,
    pub(super) way: Way,
    pub(super) files: Option<Arc<Moment>>,
    /// The files at the end of the turn; only for the first point of a turn.
    pub(super) end: Option<Arc<Seen>>,
}

/// How to restore the main kernel's variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel had run nothing, so a new one is equivalent.
    Fresh,
    /// A dormant copy.
    Copy {
        id: CheckpointId,
        /// What will differ.
        notes: Vec<String>,
    },
    /// A file, and why there is no copy.
    Saved {
        file: PathBuf,
        saved: SavedVariables,
        why: String,
    },
    /// Only the earlier cells, and why there is nothing better.
    Cells { why: String },
}

impl Way {
    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Fresh => "new kernel",
            Self::Copy { .. } => "copy",
            Self::Saved { .. } => "file",
            Self::Cells { .. } => "cells",
        }
    }

    pub(super) fn copy(&self) -> Option<CheckpointId> {
        match self {
            Self::Copy { id, .. } => Some(*id),
            Self::Fresh | Self::Saved { .. } | Self::Cells { .. } => None,
        }
    }

    /// What will differ, in words. `cells` is the number of cells that would be rerun.
    pub(super) fn inexact(&self, cells: usize) -> Vec<String> {
        match self {
            Self::Fresh => Vec::new(),
            Self::Copy { notes, .. } => notes.clone(),
            Self::Saved { saved, why, .. } => {
                let mut words = vec![format!(
                    "the kernel could not be copied ({why}): its variables come back from a file, and what is no variable stays as it is now, such as settings of modules and random numbers"
                )];
                for (name, why) in &saved.cannot {
                    words.push(format!("`{name}` keeps the value that it has now ({why})"));
                }
                words
            }
            Self::Cells { why } => vec![format!(
                "the variables were not kept ({why}): a new kernel runs the {cells} cells before again, which takes as long as it took, has the same effects outside a second time, and may give something else"
            )],
        }
    }
}

/// Which copies to drop so that at most `most` remain, with at most `limit` bytes. `copies` are oldest first, with a
/// flag for those at the start of a turn: the others are dropped first, then the oldest. The newest stays, unless
/// memory is about to run out.
pub(super) fn surplus(
    copies: &[(CheckpointId, bool)],
    memory: &Memory,
    most: usize,
    limit: Option<u64>,
) -> Vec<CheckpointId> {
    let limit = limit.unwrap_or_else(|| memory.held.saturating_add(memory.available) / 4);
    let private = |id: CheckpointId| {
        let found = memory.private.iter().find(|(of, _)| *of == id);
        found.map_or(0, |(_, bytes)| *bytes)
    };
    let is_short = memory.available < memory.live / 5;
    let mut held = memory.held;
    let mut left = copies.len();
    let newest = copies.last().map(|(id, _)| *id);
    let order = copies
        .iter()
        .filter(|(_, starts)| !starts)
        .chain(copies.iter().filter(|(_, starts)| *starts))
        .map(|(id, _)| *id);
    let mut gone = Vec::new();
    for id in order {
        if Some(id) == newest {
            continue;
        }
        if left > most.max(1) || held > limit || is_short {
            left -= 1;
            held = held.saturating_sub(private(id));
            gone.push(id);
        }
    }
    gone.extend(newest.filter(|_| most == 0 || is_short));
    gone
}

/// The directory for removed and replaced files: `NAME.undone/N` beside the notebook.
pub(super) fn attic(notebook: &Path, number: u32) -> PathBuf {
    let found = |path: &Path| std::fs::symlink_metadata(path).ok();
    let mut dir = notebook.with_extension("undone");
    // Code may have created a link or a file there.
    for other in 2.. {
        if found(&dir).is_none_or(|it| it.is_dir()) {
            break;
        }
        dir = notebook.with_extension(format!("undone-{other}"));
    }
    // Another session may have used some of the numbers.
    let mut paths = (number..).map(|number| dir.join(number.to_string()));
    paths
        .find(|path| found(path).is_none())
        .unwrap_or_else(|| dir.join(number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_go_by_number_memory_and_place() {
        let id = |n| CheckpointId::for_tests(n);
        let copies = [(1, true), (2, false), (3, true), (4, false)].map(|(n, t)| (id(n), t));
        let memory = |held, available| Memory {
            held,
            live: 500,
            available,
            private: (1..=4).map(|n| (id(n), 100)).collect(),
        };
        let cases: [(Memory, usize, Option<u64>, &[u64]); 8] = [
            (memory(0, 10_000), 10, None, &[]),
            (memory(0, 10_000), 3, None, &[2]),
            (memory(0, 10_000), 2, None, &[2, 1]),
            (memory(0, 10_000), 1, None, &[2, 1, 3]),
            (memory(0, 10_000), 0, None, &[2, 1, 3, 4]),
            (memory(350, 10_000), 10, Some(200), &[2, 1]),
            // A quarter of 300 + 700.
            (memory(300, 700), 10, None, &[2]),
            (memory(400, 99), 10, Some(1_000), &[2, 1, 3, 4]),
        ];
        for (memory, most, limit, gone) in cases {
            let expected: Vec<_> = gone.iter().map(|n| id(*n)).collect();
            assert_eq!(
                surplus(&copies, &memory, most, limit),
                expected,
                "{memory:?} {most} {limit:?}"
            );
        }
    }
}
