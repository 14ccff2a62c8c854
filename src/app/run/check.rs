//! `--check`: compares the outputs with the stored ones. nbval's tags and comments exclude cells.

use std::path::PathBuf;

use serde_json::Value;

use crate::agent::replay;
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::session::check::{CheckOptions, Difference, Sanitizer, compare};
use crate::session::parameters::has_tag;

/// A notebook before its run, and the comparison options.
#[derive(Debug)]
pub struct Check {
    stored: Notebook,
    options: CheckOptions,
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Checked {
    /// Cells that were compared.
    pub compared: usize,
    /// Index and differences of cells that differ.
    pub differing: Vec<(usize, Vec<Difference>)>,
    /// No cell had a stored output.
    pub nothing_stored: bool,
}

/// What counts as a difference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CheckSettings {
    /// Maximum difference of numbers in text, relative (absolute below 1).
    pub tolerance: Option<f64>,
    /// Maximum difference of the picture area that differs most, from 0 to 1.
    pub picture_tolerance: Option<f64>,
    /// Regular expressions for text to ignore, in nbval's format.
    pub sanitize_with: Option<PathBuf>,
}

impl CheckSettings {
    /// The options for a comparison.
    ///
    /// # Errors
    /// The file with regular expressions cannot be read.
    pub fn options(&self) -> Result<CheckOptions, Failure> {
        let mut options = CheckOptions {
            tolerance: self.tolerance,
            ..CheckOptions::default()
        };
        if let Some(limit) = self.picture_tolerance {
            options.picture_distance = limit;
        }
        if let Some(path) = &self.sanitize_with {
            let shown = path.display();
            let text = std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("could not read `{shown}`: {error}")))?;
            options.sanitizer = Sanitizer::parse(&text).map_err(|error| {
                Failure::usage(format!("could not read `{shown}`: {error}"))
                    .hint("it has lines `regex: ..`, each followed by a line `replace: ..`")
            })?;
        }
        Ok(options)
    }
}

impl Check {
    /// Copies the current content of `notebook`, and marks the cells that a run skips for nbval.
    pub fn new(notebook: &mut Notebook, options: CheckOptions) -> Self {
        let stored = notebook.clone();
        for cell in &mut notebook.cells {
            if marked(cell, "skip") && !has_tag(cell, "skip-execution") {
                let tags = cell
                    .metadata
                    .entry("tags")
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(tags) = tags {
                    tags.push("skip-execution".into());
                }
            }
        }
        Self { stored, options }
    }

    /// Compares the stored outputs with `fresh`, up to the cell that stopped the run.
    pub fn compare(&self, fresh: &Notebook, stopped: Option<usize>) -> Checked {
        let mut checked = Checked {
            compared: 0,
            differing: Vec::new(),
            nothing_stored: true,
        };
        let reached = stopped.unwrap_or(usize::MAX);
        for index in replay::runnable(fresh).filter(|&index| index < reached) {
            let (Some(old), Some(new)) = (self.stored.cells.get(index), fresh.cells.get(index))
            else {
                continue;
            };
            if marked(old, "ignore-output") {
                continue;
            }
            checked.compared += 1;
            checked.nothing_stored &= old.outputs().is_empty();
            let differences = compare(old.outputs(), new.outputs(), &self.options);
            if !differences.is_empty() {
                checked.differing.push((index, differences));
            }
        }
        checked
    }

    /// The stored notebook with the new outputs of cells that differ.
    pub fn updated(mut self, fresh: &Notebook, checked: &Checked) -> Notebook {
        for (index, _) in &checked.differing {
            if let (Some(old), Some(new)) =
                (self.stored.cells.get_mut(*index), fresh.cells.get(*index))
            {
                old.kind.clone_from(&new.kind);
                if let Some(timing) = new.metadata.get("execution") {
                    old.metadata.insert("execution".to_owned(), timing.clone());
                }
            }
        }
        self.stored
    }

    /// The execution count of the cell at `index` when its outputs were stored.
    pub fn count(&self, index: usize) -> Option<i64> {
        match self.stored.cells.get(index)?.kind {
            CellType::Code {
                execution_count, ..
            } => execution_count,
            CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
        }
    }

    /// Maximum difference of pictures, from 0 to 1.
    pub fn picture_distance(&self) -> f64 {
        self.options.picture_distance
    }
}

impl Checked {
    /// A short summary.
    pub fn summary(&self) -> String {
        let cells = |number: usize| if number == 1 { "cell" } else { "cells" };
        match self.differing.len() {
            0 => format!("{} {} as stored", self.compared, cells(self.compared)),
            some => format!(
                "{some} of {} {} {} from the stored outputs",
                self.compared,
                cells(self.compared),
                if some == 1 { "differs" } else { "differ" }
            ),
        }
    }

    /// The failure for cells that differ.
    pub fn failure(&self, shown: &str) -> Failure {
        let failure = Failure::new(
            FailureKind::Failed,
            format!("`{shown}`: {}", self.summary()),
        );
        failure.hint(if self.nothing_stored {
            "it has no stored outputs: run it with --inplace first"
        } else {
            "accept the new outputs with --check --update, or look at them with -o; docs/run.md says what does not count"
        })
    }
}

/// Whether the cell has nbval's tag or comment for this.
fn marked(cell: &Cell, what: &str) -> bool {
    if has_tag(cell, &format!("nbval-{what}")) {
        return true;
    }
    let word = format!("NBVAL_{}", what.to_uppercase().replace('-', "_"));
    cell.source.lines().any(|line| {
        line.trim()
            .strip_prefix('#')
            .is_some_and(|comment| comment.trim_start_matches('#').trim() == word)
    })
}
