//! The result of a run, as text and as an exit code.

use super::super::filter;
use super::super::style::{self, BAD, paint};
use crate::app::kernels::kernel_failure;
use crate::app::run::Ran;
use crate::error::{Failure, FailureKind};
use crate::jupyter::nbformat::{Cell, CellType};
use crate::kernel::Verdict;
use crate::session::notebook::foreign;

/// No failure if it went well; `output` is where the outputs are, if they were saved.
pub(super) fn verdict<W>(ran: &Ran<W>, output: Option<&str>) -> Result<(), Failure> {
    let report = ran.result.as_ref().map_err(kernel_failure)?;
    let Some((index, verdict)) = &report.failed else {
        return Ok(());
    };
    let number = index + 1;
    let cell = ran.notebook.cells.get(*index);
    let own = cell
        .and_then(foreign)
        .map_or(&*ran.kernel, |cell| cell.kernel.unwrap_or(cell.language));
    let mut failure = match verdict {
        Verdict::Interrupted => Failure::new(
            FailureKind::Interrupted,
            format!("cell {number} was interrupted"),
        ),
        Verdict::KernelDied(reason) => Failure::new(
            FailureKind::Kernel,
            format!("kernel `{own}` died while it ran cell {number} ({reason})"),
        ),
        Verdict::TimedOut if report.out_of_time => Failure::new(
            FailureKind::Failed,
            format!("the time for the notebook was over in cell {number}"),
        ),
        Verdict::TimedOut => Failure::new(
            FailureKind::Failed,
            format!("cell {number} ran too long and was stopped"),
        ),
        Verdict::Error { .. } if let Some(status) = report.exited => Failure::new(
            FailureKind::Script(status),
            format!("the script ended with status {status}"),
        ),
        Verdict::Error { ename, evalue } => {
            let first = evalue.lines().next().unwrap_or_default();
            let what = if ename.is_empty() {
                first.to_owned()
            } else {
                format!("{ename}: {first}")
            };
            Failure::new(FailureKind::Failed, format!("cell {number} failed: {what}"))
        }
        Verdict::Aborted | Verdict::Ok => {
            Failure::new(FailureKind::Failed, format!("cell {number} was not run"))
        }
    };
    let several = ran.notebook.cells.len() > 1;
    if several {
        failure = failure.details(cell.and_then(first_line).as_deref());
    }
    Err(match verdict {
        Verdict::TimedOut if report.out_of_time => {
            failure.hint("give it more with --total-timeout")
        }
        Verdict::TimedOut => failure.hint("give it more time with --timeout"),
        _ if several => failure.hint(match output {
            Some(output) => format!("the cells before it, and what it printed, are in `{output}`"),
            None if matches!(verdict, Verdict::KernelDied(_)) => {
                "write the outputs to a notebook with -o".to_owned()
            }
            None => {
                "write the outputs to a notebook with -o, or go on after errors with --allow-errors"
                    .to_owned()
            }
        }),
        _ => failure,
    })
}

/// The cell's first line, so that it can be found.
fn first_line(cell: &Cell) -> Option<String> {
    let CellType::Code {
        execution_count, ..
    } = cell.kind
    else {
        return None;
    };
    let mut lines = cell.source.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next()?;
    let more = if lines.next().is_some() { " .." } else { "" };
    let count = execution_count.map_or_else(|| " ".to_owned(), |count| count.to_string());
    Some(filter::plain(&format!(
        "In [{count}]: {}{more}",
        first.trim()
    )))
}

/// Marks a list entry as bad.
pub(in super::super) fn bad(text: &str) -> String {
    paint(BAD, text, style::stdout_colours())
}
