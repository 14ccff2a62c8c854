//! `--check`: were the outputs what is stored? nbval's tags and comments say which cells do not count.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::super::args::RunArgs;
use super::super::filter;
use super::super::picture::PictureFiles;
use super::super::style::{self, BAD, GOOD, NAME, paint};
use crate::agent::replay;
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::{Cell, CellType, Notebook};
use crate::session::check::{CheckOptions, Difference, Sanitizer, compare};
use crate::session::parameters::has_tag;

/// Lines of one difference that are shown.
const LINES: usize = 40;
/// Finding out what has changed in a text may take so long; then whole blocks are shown.
const DIFF_TIME: Duration = Duration::from_secs(2);

/// A notebook before it runs, and what counts.
pub(super) struct Check {
    stored: Notebook,
    options: CheckOptions,
}

/// What came of it.
pub(super) struct Checked {
    /// Cells that were compared.
    pub(super) compared: usize,
    /// Index and differences of cells that differ.
    pub(super) differing: Vec<(usize, Vec<Difference>)>,
    /// No cell had an output before.
    pub(super) nothing_stored: bool,
}

/// What `args` say about what counts.
pub(super) fn options(args: &RunArgs) -> Result<CheckOptions, Failure> {
    let mut options = CheckOptions {
        tolerance: args.tolerance,
        ..CheckOptions::default()
    };
    if let Some(limit) = args.picture_tolerance {
        options.picture_distance = limit;
    }
    if let Some(path) = &args.sanitize_with {
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

impl Check {
    /// Keeps what `notebook` has now, and marks what a run leaves out for nbval.
    pub(super) fn new(notebook: &mut Notebook, options: CheckOptions) -> Self {
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

    /// Compares what was stored with `fresh`, up to the cell that stopped the run.
    pub(super) fn compare(&self, fresh: &Notebook, stopped: Option<usize>) -> Checked {
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
    pub(super) fn updated(mut self, fresh: &Notebook, checked: &Checked) -> Notebook {
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

    /// Each difference, for a person; pictures go to files in `pictures`.
    pub(super) fn report(
        &self,
        shown: &str,
        checked: &Checked,
        pictures: &mut PictureFiles,
    ) -> String {
        let colours = style::stdout_colours();
        let mut text = String::new();
        for (index, differences) in &checked.differing {
            let count = self
                .stored
                .cells
                .get(*index)
                .and_then(|cell| match cell.kind {
                    CellType::Code {
                        execution_count, ..
                    } => execution_count,
                    CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
                });
            let count = count
                .map(|count| format!(" (In [{count}])"))
                .unwrap_or_default();
            let place = paint(
                NAME,
                &format!("{shown}, cell {}{count}", index + 1),
                colours,
            );
            for difference in differences {
                let _ = match difference {
                    Difference::Text {
                        what,
                        stored,
                        fresh,
                    } => writeln!(text, "{place}: {what}\n{}", lines(stored, fresh, colours)),
                    Difference::New { what } => writeln!(text, "{place}: {what} is new"),
                    Difference::Gone { what } => writeln!(text, "{place}: {what} is gone"),
                    Difference::Picture {
                        what,
                        distance,
                        stored,
                        fresh,
                    } => {
                        let mut file = |(mime, bytes): &(&str, Vec<u8>)| {
                            pictures
                                .write(mime.trim_start_matches("image/"), bytes)
                                .map_or_else(
                                    |error| format!("(no file: {error})"),
                                    |path| path.display().to_string(),
                                )
                        };
                        writeln!(
                            text,
                            "{place}: {what} differs by {:.2} (allowed: {:.2})\n  {}\n  {}",
                            distance,
                            self.options.picture_distance,
                            paint(BAD, &format!("- {}", file(stored)), colours),
                            paint(GOOD, &format!("+ {}", file(fresh)), colours),
                        )
                    }
                };
            }
        }
        text
    }
}

impl Checked {
    /// In a few words.
    pub(super) fn summary(&self) -> String {
        let cells = |number: usize| if number == 1 { "cell" } else { "cells" };
        match self.differing.len() {
            0 => format!("{} {} as stored", self.compared, cells(self.compared)),
            some => format!(
                "{some} of {} {} not as stored",
                self.compared,
                cells(self.compared)
            ),
        }
    }

    /// The error for cells that differ.
    pub(super) fn failure(&self, shown: &str) -> Failure {
        let failure = Failure::new(
            FailureKind::Failed,
            format!("`{shown}`: {}", self.summary()),
        );
        failure.hint(if self.nothing_stored {
            "it has no stored outputs: run it with --inplace first"
        } else {
            "take the new outputs with --check --update, or look at them with -o; docs/run.md says what does not count"
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

/// What has changed from `stored` to `fresh`, with a line around.
fn lines(stored: &str, fresh: &str, colours: bool) -> String {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(stored, fresh);
    let mut shown = Vec::new();
    for group in diff.grouped_ops(1) {
        for op in group {
            for change in diff.iter_changes(&op) {
                let (sign, style) = match change.tag() {
                    ChangeTag::Delete => ("-", BAD),
                    ChangeTag::Insert => ("+", GOOD),
                    ChangeTag::Equal => (" ", style::DIM),
                };
                let line = filter::plain(change.value().trim_end_matches('\n'));
                shown.push(format!(
                    "  {}",
                    paint(style, &format!("{sign} {line}"), colours)
                ));
            }
        }
    }
    let hidden = shown.len().saturating_sub(LINES);
    shown.truncate(LINES);
    if hidden > 0 {
        shown.push(format!("  .. {hidden} more lines"));
    }
    shown.join("\n")
}
