//! Decides what to compact, from the weights of the conversation's parts. Pure.

use super::super::context::{self, Exchange};
use super::super::summarize::Budget;
use super::super::transcript::{Cell, CellKind, Transcript};
use crate::llm::types::{Message, Part};
use crate::session::sent::folded;

/// How prompts are measured.
#[derive(Clone, Copy)]
pub struct Scale<'a> {
    /// The weight of messages, in arbitrary units. Additive: parts weigh together what the whole does.
    pub weigh: &'a dyn Fn(&[Message]) -> u64,
    /// Converts the weight of a whole prompt to tokens.
    pub tokens: &'a dyn Fn(u64) -> u64,
    /// The weight of the system prompt and the tools.
    pub fixed: u64,
}

/// Why to compact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The next prompt may be too long: compact as little as suffices.
    Space,
    /// Compaction was requested, or the cheaper step did not suffice: summarise.
    Summary,
}

/// What replaces the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionKind {
    /// Outputs and pictures become notes.
    Outputs,
    /// The cells become a summary.
    Summary,
}

/// What to compact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Id of the last compacted cell.
    pub through: String,
    /// What replaces these cells.
    pub kind: CompactionKind,
    /// Number of compacted cells.
    pub cells: usize,
    /// Number of pictures dropped.
    pub pictures: usize,
    /// Tokens of the prompt before compaction.
    pub before: u64,
    /// Weight of what remains, without the compaction's own text.
    pub kept: u64,
}

/// The newest part of the conversation is kept, up to 1/n of the limit.
const TAIL: u64 = 5;
/// Notes suffice if they bring the prompt below this many tenths of the limit ..
const ENOUGH: u64 = 7;
/// .. and save at least 1/n of it; otherwise the next compaction would follow at once.
const WORTH: u64 = 5;

/// What to compact so that the prompt fits well below `limit` tokens; `None` if nothing can be compacted.
pub fn plan(
    transcript: &Transcript,
    tool: &str,
    budget: Budget<'_>,
    scale: Scale<'_>,
    limit: u64,
    need: Need,
) -> Option<Plan> {
    let exchanges = context::exchanges(transcript, tool, budget);
    let weights: Vec<u64> = exchanges
        .iter()
        .map(|exchange| (scale.weigh)(&exchange.messages))
        .collect();
    let total = scale.fixed + weights.iter().sum::<u64>();
    let before = (scale.tokens)(total).max(1);
    // The limit in units of weight.
    let limit_weight = limit.saturating_mul(total) / before;
    let tail = match need {
        Need::Space => limit_weight / TAIL,
        Need::Summary => limit_weight.min(total) / TAIL,
    };
    let old = weights.len() - newest(&weights, tail);
    let (old, old_weights) = (exchanges.get(..old)?, weights.get(..old)?);
    let through = old
        .iter()
        .rev()
        .find(|exchange| !is_compaction(exchange))?
        .cells
        .last()?;
    let cells: usize = old.iter().map(|exchange| exchange.cells.len()).sum();
    let pictures = old
        .iter()
        .map(|exchange| pictures(&exchange.messages))
        .sum();
    let plan = |kind, saved: u64| Plan {
        through: through.id.clone(),
        kind,
        cells,
        pictures,
        before,
        kept: total.saturating_sub(scale.fixed).saturating_sub(saved),
    };
    let saved: u64 = old
        .iter()
        .zip(old_weights)
        .map(|(exchange, weight)| weight.saturating_sub((scale.weigh)(&without_outputs(exchange))))
        .sum();
    let after = (scale.tokens)(total.saturating_sub(saved));
    let notes_do = after <= limit * ENOUGH / 10 && saved >= limit_weight / WORTH;
    Some(match need {
        Need::Space if notes_do => plan(CompactionKind::Outputs, saved),
        Need::Space | Need::Summary => plan(CompactionKind::Summary, old_weights.iter().sum()),
    })
}

/// Number of newest exchanges to keep: as many as fit in `room`. The very last one, which the model may not have seen
/// yet, is kept if that leaves room for a summary.
fn newest(weights: &[u64], room: u64) -> usize {
    let mut sum = 0;
    let fit = weights
        .iter()
        .rev()
        .take_while(|&&weight| {
            sum += weight;
            sum <= room
        })
        .count();
    match weights.last() {
        Some(&last) if fit == 0 && last <= room * 3 => 1,
        _ => fit,
    }
}

fn is_compaction(exchange: &Exchange<'_>) -> bool {
    exchange
        .cells
        .iter()
        .all(|cell| matches!(cell.kind, CellKind::Compaction(_)))
}

fn pictures(messages: &[Message]) -> usize {
    let of = |parts: &[Part]| {
        parts
            .iter()
            .filter(|part| matches!(part, Part::Image { .. }))
            .count()
    };
    messages
        .iter()
        .map(|message| match message {
            Message::User(parts) | Message::ToolResult { parts, .. } => of(parts),
            Message::Assistant { .. } => 0,
        })
        .sum()
}

fn has_output(cell: &Cell) -> bool {
    matches!(cell.kind, CellKind::Code(_) | CellKind::Reading(_))
}

/// The messages of an exchange after its outputs became notes.
fn without_outputs(exchange: &Exchange<'_>) -> Vec<Message> {
    let fresh = !exchange.is_folded && exchange.cells.iter().any(has_output);
    let mut messages = exchange.messages.clone();
    for message in &mut messages {
        match message {
            Message::ToolResult { parts, .. } if fresh => *parts = folded(parts),
            // The first part is the person's own code.
            Message::User(parts) if fresh && parts.len() > 1 => {
                let outputs = folded(&parts.split_off(1));
                parts.extend(outputs);
            }
            _ => {}
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::super::{Compaction, Measure, Writer};
    use super::*;
    use crate::jupyter::content::Stream;
    use crate::kernel::{OutputEvent, Verdict};
    use crate::session::transcript::Author;
    use crate::session::{CodeStatus, Edit};

    const BUDGET: Budget<'static> = Budget {
        text: 10_000,
        preparer: None,
        brief: false,
        reads: false,
        said: None,
    };

    /// One question, one cell and one answer for each output size in bytes.
    fn transcript(outputs: &[usize]) -> Transcript {
        let mut transcript = Transcript::default();
        for (n, &bytes) in outputs.iter().enumerate() {
            let step = u32::try_from(n).unwrap() * 2;
            let author = Author::Model {
                step: step + 1,
                call_id: format!("call{n}"),
                broken: None,
            };
            for edit in [
                Edit::Say {
                    cell: format!("u{n}"),
                    text: "?".to_owned(),
                },
                Edit::Propose {
                    cell: format!("c{n}"),
                    author,
                    language: None,
                    source: "f()".to_owned(),
                },
                Edit::Emit {
                    cell: format!("c{n}"),
                    output: OutputEvent::Stream(Stream {
                        name: "stdout".to_owned(),
                        text: "x".repeat(bytes),
                    }),
                },
                Edit::Finish {
                    cell: format!("c{n}"),
                    status: CodeStatus::Finished(Verdict::Ok),
                    at: String::new(),
                },
                Edit::AppendText {
                    cell: format!("a{n}"),
                    step: step + 2,
                    text: "answer".to_owned(),
                },
            ] {
                transcript.apply(edit).unwrap();
            }
        }
        transcript
    }

    fn bytes(messages: &[Message]) -> u64 {
        let of = |parts: &[Part]| -> usize {
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.len(),
                    Part::Image { data, .. } => data.len(),
                })
                .sum()
        };
        let all: usize = messages
            .iter()
            .map(|message| match message {
                Message::User(parts) | Message::ToolResult { parts, .. } => of(parts),
                Message::Assistant { text, .. } => text.len(),
            })
            .sum();
        all as u64
    }

    fn planned(
        transcript: &Transcript,
        limit: u64,
        need: Need,
    ) -> Option<(String, CompactionKind, u64)> {
        let scale = Scale {
            weigh: &bytes,
            tokens: &|weight| weight,
            fixed: 100,
        };
        let plan = plan(transcript, "t", BUDGET, scale, limit, need)?;
        Some((plan.through, plan.kind, plan.kept))
    }

    #[test]
    fn old_outputs_go_first() {
        let long = transcript(&[2000; 5]);
        let (through, kind, kept) = planned(&long, 12_000, Need::Space).unwrap();
        assert_eq!((through.as_str(), kind), ("c3", CompactionKind::Outputs));
        assert!((2000..5000).contains(&kept), "{kept}");
    }

    #[test]
    fn words_that_are_too_many_are_summarised() {
        let long = transcript(&[200; 40]);
        let (through, kind, kept) = planned(&long, 8000, Need::Space).unwrap();
        // A fifth of the limit stays: 7 questions of 207 bytes, and the answer before.
        assert_eq!((through.as_str(), kind), ("c32", CompactionKind::Summary));
        assert_eq!(kept, 7 * 207 + 6);
    }

    #[test]
    fn what_was_asked_for_is_a_summary() {
        let (through, kind, _) = planned(&transcript(&[2000; 5]), 100_000, Need::Summary).unwrap();
        assert_eq!((through.as_str(), kind), ("c3", CompactionKind::Summary));
        assert_eq!(planned(&Transcript::default(), 100, Need::Summary), None);
    }

    #[test]
    fn a_summary_alone_is_not_summarised() {
        let mut transcript = transcript(&[10]);
        let measure = Measure::Summary {
            by: Writer::Rules,
            work: String::new(),
        };
        transcript
            .apply(Edit::Compact {
                cell: "s".to_owned(),
                text: "x".repeat(5000),
                compaction: Compaction {
                    through: "a0".to_owned(),
                    measure,
                    before: 0,
                    after: 0,
                },
            })
            .unwrap();
        assert_eq!(planned(&transcript, 1000, Need::Space), None);
    }
}
