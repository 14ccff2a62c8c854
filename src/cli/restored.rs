//! What a person sees when a session is resumed.

use std::fmt::Write as _;

use super::style::{DIM, HINT, WARN, paint, stderr_colours};
use super::{filter, human};
use crate::agent::{EventKind, RestoredBy};
use crate::session::{CellKind, CellStatus, Transcript};

/// How many characters of variable names are shown.
const NAMES: usize = 200;
/// How many characters of a busy kernel's code are shown.
const CODE: usize = 40;
/// How many lines of the last answer are shown.
const LINES: usize = 12;

/// The last question and its answer.
pub(super) fn tail(transcript: &Transcript) -> String {
    let colours = stderr_colours();
    let cells = transcript.cells();
    let Some(at) = cells.iter().rposition(|cell| cell.kind == CellKind::User) else {
        return String::new();
    };
    let after = cells.get(at..).unwrap_or_default();
    let mut text = String::new();
    if let Some(question) = after.first() {
        let question = filter::plain(question.source.trim());
        let _ = write!(text, "\n{} {question}\n", paint(HINT, ">", colours));
    }
    let said = |kind: &CellKind| matches!(kind, CellKind::Assistant { .. });
    if let Some(answer) = after.iter().rev().find(|cell| said(&cell.kind)) {
        let answer = filter::plain(answer.source.trim());
        let hidden = answer.lines().count().saturating_sub(LINES);
        if hidden > 0 {
            text.push_str(&paint(DIM, &format!("(… {hidden} lines)\n"), colours));
        }
        for line in answer.lines().skip(hidden) {
            text.push_str(&paint(DIM, line, colours));
            text.push('\n');
        }
    }
    text
}

/// Messages while a session is being resumed.
pub(super) fn lines(event: &EventKind) -> Vec<(anstyle::Style, String)> {
    let mut lines = Vec::new();
    match event {
        EventKind::KernelBusy { code, .. } => {
            let first = code.as_ref().and_then(|code| code.trim().lines().next());
            let with = first.map_or_else(String::new, |line| {
                format!(" with `{}`", human::shortened(line, CODE))
            });
            let text =
                format!("its kernel is still busy{with}: waiting for it; Ctrl-C interrupts it");
            lines.push((WARN, text));
        }
        EventKind::CellReplayed {
            number,
            of,
            status,
            differences,
            ..
        } => {
            let (style, what) = match (status, differences.is_empty()) {
                (CellStatus::Ok, true) => (DIM, "as before"),
                (CellStatus::Ok, false) => (WARN, "other output"),
                (CellStatus::Error, true) => (DIM, "the same error as before"),
                (status, true) => (DIM, status.as_str()),
                (status, false) => (WARN, status.as_str()),
            };
            lines.push((style, format!("cell {number} of {of}: {what}")));
            let differences = differences.iter();
            lines.extend(differences.map(|difference| (DIM, format!("  {difference}"))));
        }
        EventKind::SessionRestored {
            by,
            ran,
            differing,
            variables,
        } => {
            let mut text = match by {
                RestoredBy::Kernel => "its kernel is still there".to_owned(),
                RestoredBy::Replay => {
                    let cells = human::count(*ran, "cell");
                    match (*differing, *ran) {
                        (0, _) => format!("ran {cells} again, with the same outputs"),
                        (1, 1) => format!("ran {cells} again, with other outputs"),
                        _ => format!("ran {cells} again, {differing} with other outputs"),
                    }
                }
                RestoredBy::Nothing => "it continues in a new kernel, without variables".to_owned(),
            };
            if let Some(variables) = variables.as_ref().filter(|names| !names.is_empty()) {
                let names = human::shortened(&variables.join(", "), NAMES);
                let _ = write!(text, "; variables: {names}");
            }
            lines.push((DIM, text));
        }
        _ => {}
    }
    lines
}
