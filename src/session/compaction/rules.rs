//! Rule-based summaries, for models that cannot summarise or did not.

use std::fmt::Write as _;

use super::super::summarize::{self, Budget, head_and_tail};
use super::super::transcript::{Author, Cell, CellKind, CodeCell, CodeStatus};
use super::{Measure, SentResult};
use crate::kernel::Verdict;
use crate::llm::types::Part;
use crate::session::sent::folded;

/// What was done in `cells` up to the one named `through`, one line per step, in at most about `limit` bytes. Starts
/// with the text of an earlier summary.
pub fn work_so_far(cells: &[Cell], through: &str, limit: usize) -> String {
    let (earlier, cells) = since_summary(cells, through);
    let mut text = String::new();
    if !earlier.trim().is_empty() {
        text = head_and_tail(earlier.trim(), limit / 2);
        text.push('\n');
    }
    let mut lines = String::new();
    for cell in cells {
        match &cell.kind {
            CellKind::User => {
                let _ = writeln!(lines, "The user asked: {}", squeezed(&cell.source, 80));
            }
            CellKind::Assistant { .. } => {
                let words = squeezed(&cell.source, 300);
                if !words.is_empty() {
                    let _ = writeln!(lines, "- You said: {words}");
                }
            }
            CellKind::Code(code) => {
                let _ = writeln!(lines, "- {}", step(&cell.source, code));
            }
            CellKind::Note | CellKind::Cut | CellKind::Compaction(_) | CellKind::Reading(_) => {}
        }
    }
    text.push_str(&head_and_tail(
        lines.trim_end(),
        limit.saturating_sub(text.len()),
    ));
    text.trim_end().to_owned()
}

/// The conversation up to the cell named `through` as text with outputs as notes, in at most about `limit` bytes.
/// Starts with the text of an earlier summary.
pub fn as_text(cells: &[Cell], through: &str, limit: usize) -> String {
    let (earlier, cells) = since_summary(cells, through);
    let mut text = String::new();
    if !earlier.trim().is_empty() {
        let _ = writeln!(text, "EARLIER SUMMARY:\n{}", earlier.trim());
    }
    for cell in cells {
        let _ = match &cell.kind {
            CellKind::User => writeln!(text, "USER: {}", cell.source.trim()),
            CellKind::Note => writeln!(text, "NOTE: {}", head_and_tail(cell.source.trim(), 1000)),
            CellKind::Assistant { .. } => writeln!(text, "YOU: {}", cell.source.trim()),
            CellKind::Code(code) => {
                let shown = Budget {
                    text: 1000,
                    preparer: None,
                    brief: false,
                    reads: false,
                    said: None,
                };
                let SentResult { parts, .. } = super::told(&cell.id, code, shown);
                let outputs = folded(&parts).into_iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text),
                    Part::Image { .. } => None,
                });
                let outputs: String = outputs.collect();
                let source = head_and_tail(cell.source.trim(), 2000);
                writeln!(text, "CODE:\n{source}\nOUTPUT:\n{outputs}")
            }
            CellKind::Cut | CellKind::Compaction(_) | CellKind::Reading(_) => Ok(()),
        };
    }
    head_and_tail(text.trim_end(), limit)
}

/// The work text of the latest summary, and the cells after those it replaces, up to the one named `through`.
fn since_summary<'a>(cells: &'a [Cell], through: &str) -> (&'a str, &'a [Cell]) {
    let after = |id: &str| cells.iter().position(|cell| cell.id == id).map(|at| at + 1);
    let summary = cells.iter().rev().find_map(|cell| {
        let CellKind::Compaction(compaction) = &cell.kind else {
            return None;
        };
        match &compaction.measure {
            Measure::Summary { work, .. } => Some((&compaction.through, work.as_str())),
            Measure::Outputs => None,
        }
    });
    let (begin, work) = summary.map_or((0, ""), |(last, work)| (after(last).unwrap_or(0), work));
    let end = after(through).unwrap_or(cells.len());
    (work, cells.get(begin..end).unwrap_or_default())
}

/// One cell of code in a line.
fn step(source: &str, code: &CodeCell) -> String {
    let count = code.count.map(|n| format!(" [{n}]")).unwrap_or_default();
    let who = match code.author {
        Author::Person => "The user",
        Author::Model { .. } => "You",
    };
    let what = purpose(source);
    let shown = Budget {
        text: 2000,
        preparer: None,
        brief: true,
        reads: false,
        said: None,
    };
    let last = || {
        let parts = summarize::outputs(&code.outputs.to_notebook(), shown);
        match parts.first() {
            Some(Part::Text(text)) => last_line(text),
            Some(Part::Image { .. }) | None => String::new(),
        }
    };
    match &code.status {
        CodeStatus::Finished(Verdict::Ok) => {
            let last = last();
            if last.is_empty() {
                format!("{who} ran{count}: {what}")
            } else {
                format!("{who} ran{count}: {what} -> {last}")
            }
        }
        CodeStatus::Finished(Verdict::Error { ename, evalue }) => {
            format!(
                "{who} ran{count}: {what} -> failed: {ename}: {}",
                squeezed(evalue, 120)
            )
        }
        CodeStatus::Finished(_) => format!("{who} ran{count}: {what} -> did not finish on its own"),
        CodeStatus::Declined(_) => format!("The user declined: {what}"),
        CodeStatus::NotRun(_) => format!("Not run: {what}"),
        CodeStatus::Proposed | CodeStatus::Running => format!("Proposed: {what}"),
    }
}

/// The purpose of code: its first comment, or else its first significant line.
fn purpose(source: &str) -> String {
    let lines = || {
        source
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let says = |line: &&str| {
        !["import ", "from ", "library(", "%", "using "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let comment = lines().next().filter(|line| line.starts_with('#'));
    let line = comment
        .or_else(|| lines().find(says))
        .or_else(|| lines().next());
    squeezed(line.unwrap_or_default(), 100)
}

fn squeezed(text: &str, limit: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.floor_char_boundary(limit);
    let more = if end < line.len() { "…" } else { "" };
    format!("{}{more}", line.get(..end).unwrap_or_default())
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    squeezed(line.unwrap_or_default(), 120)
}

#[cfg(test)]
mod tests {
    use super::super::{Compaction, Writer};
    use super::*;
    use crate::jupyter::content::Stream;
    use crate::kernel::OutputEvent;
    use crate::session::{Edit, Transcript};

    fn transcript() -> Transcript {
        let mut transcript = Transcript::default();
        let id = str::to_owned;
        let propose = |cell: &str, source: &str| Edit::Propose {
            cell: cell.to_owned(),
            author: Author::Model {
                step: 1,
                call_id: cell.to_owned(),
                broken: None,
            },
            language: None,
            source: source.to_owned(),
        };
        let finish = |cell: &str, verdict| Edit::Finish {
            cell: cell.to_owned(),
            status: CodeStatus::Finished(verdict),
            at: String::new(),
        };
        for edit in [
            Edit::Say {
                cell: id("u"),
                text: id("how much rain?"),
            },
            propose(
                "c",
                "import pandas as pd\n\n# total rain\nprint(df.rain.sum())",
            ),
            Edit::Number {
                cell: id("c"),
                count: 3,
            },
            Edit::Emit {
                cell: id("c"),
                output: OutputEvent::Stream(Stream {
                    name: id("stdout"),
                    text: id("head\n42.5 mm\n"),
                }),
            },
            finish("c", Verdict::Ok),
            propose("d", "df['snow']"),
            finish(
                "d",
                Verdict::Error {
                    ename: id("KeyError"),
                    evalue: id("'snow'"),
                },
            ),
            Edit::AppendText {
                cell: id("a"),
                step: 2,
                text: id("It rained\n42.5 mm."),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        transcript
    }

    const STEPS: &str = "The user asked: how much rain?\n\
        - You ran [3]: # total rain -> 42.5 mm\n\
        - You ran: df['snow'] -> failed: KeyError: 'snow'\n\
        - You said: It rained 42.5 mm.";

    #[test]
    fn a_line_a_step() {
        assert_eq!(work_so_far(transcript().cells(), "a", 10_000), STEPS);
    }

    #[test]
    fn an_earlier_summary_goes_on() {
        let mut transcript = transcript();
        let work = "Loaded the file.".to_owned();
        for edit in [
            Edit::Compact {
                cell: "s".to_owned(),
                text: "all".to_owned(),
                compaction: Compaction {
                    through: "d".to_owned(),
                    measure: Measure::Summary {
                        by: Writer::Model,
                        work,
                    },
                    before: 9,
                    after: 1,
                },
            },
            Edit::Say {
                cell: "v".to_owned(),
                text: "and snow?".to_owned(),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        assert_eq!(
            work_so_far(transcript.cells(), "v", 10_000),
            "Loaded the file.\n- You said: It rained 42.5 mm.\nThe user asked: and snow?"
        );
    }
}
