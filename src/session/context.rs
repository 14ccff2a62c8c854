//! Transcript -> the messages of a prompt.
//!
//! A pure function of the transcript, cell by cell. What was sent once is sent again byte for byte, and a step only
//! appends, so that provider caches hit. Earlier messages change only through a compaction ([`super::compaction`]), or
//! when there are more pictures than the provider accepts. Every tool call is followed by exactly one result.

use serde_json::json;

use super::compaction::{self, Measure, SentResult, SentResults};
use super::sent::folded;
use super::sql;
use super::summarize::{self, Budget};
use super::transcript::{Author, Cell, CellKind, CodeCell, CodeStatus, Transcript};
use crate::llm::types::{Message, Native, Part, ToolCall};

/// The name of the tool that reads more of an output.
pub const READ_OUTPUT: &str = "read_output";

/// The conversation as messages for the model. `tool` is the name of the tool that runs code.
pub fn messages(transcript: &Transcript, tool: &str, budget: Budget<'_>) -> Vec<Message> {
    let mut joined: Vec<Message> = Vec::new();
    for Exchange {
        cells, messages, ..
    } in exchanges(transcript, tool, budget)
    {
        let aside = cells.first().is_some_and(is_aside);
        for message in messages {
            match (joined.last_mut(), message) {
                // Some wire formats refuse two user messages in a row ..
                (Some(Message::User(last)), Message::User(mut parts)) => last.append(&mut parts),
                // .. or a user message between a tool result and the model's reply.
                (Some(Message::ToolResult { parts: last, .. }), Message::User(mut parts))
                    if aside =>
                {
                    last.append(&mut parts);
                }
                (_, message) => joined.push(message),
            }
        }
    }
    joined
}

/// Whether the cell is text to the model that no person wrote.
fn is_aside(cell: &Cell) -> bool {
    match &cell.kind {
        CellKind::Note | CellKind::Compaction(_) => true,
        CellKind::User
        | CellKind::Cut
        | CellKind::Assistant { .. }
        | CellKind::Code(_)
        | CellKind::Reading(_) => false,
    }
}

/// Cells that are sent together or not at all, and their messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange<'a> {
    /// The cells: one of the person's, a note, or a reply with its code.
    pub cells: &'a [Cell],
    /// The cells' messages.
    pub messages: Vec<Message>,
    /// Whether the messages leave out outputs.
    pub is_folded: bool,
}

/// The conversation by exchanges, beginning with the latest summary if there is one.
pub fn exchanges<'a>(
    transcript: &'a Transcript,
    tool: &str,
    budget: Budget<'_>,
) -> Vec<Exchange<'a>> {
    let mut exchanges = Vec::new();
    let mut cells = transcript.cells();
    let folded = folded_until(transcript);
    if let Some((summary, through)) = latest_summary(cells) {
        let of = |id: &str| cells.iter().position(|cell| cell.id == id);
        let (at, last) = (of(&summary.id), of(through));
        exchanges.push(Exchange {
            cells: at.map_or(&[][..], |at| cells.get(at..=at).unwrap_or_default()),
            messages: vec![said(&summary.source)],
            is_folded: false,
        });
        cells = last.map_or(cells, |last| cells.get(last + 1..).unwrap_or_default());
    }
    while let [first, ..] = cells {
        let step = first.step();
        let length = match step {
            Some(_) => cells.iter().take_while(|cell| cell.step() == step).count(),
            None => 1,
        };
        let (own, rest) = cells.split_at(length);
        let at = transcript.cells().len() - cells.len();
        cells = rest;
        let teller = Teller {
            budget,
            is_folded: at < folded,
        };
        let messages = match &first.kind {
            // Skip empty notebook cells: providers refuse empty text.
            _ if first.is_foreign() && first.source.trim().is_empty() => continue,
            CellKind::Cut => continue,
            CellKind::Code(_) if step.is_none() && sql::is_setup(&first.source) => continue,
            CellKind::User => vec![said(&first.source)],
            CellKind::Note => vec![note(first, teller)],
            CellKind::Compaction(compaction) => match compaction.measure {
                Measure::Outputs => vec![said(&first.source)],
                // The latest summary comes first and replaces earlier ones.
                Measure::Summary { .. } => continue,
            },
            CellKind::Code(code) if code.author == Author::Person => {
                vec![Message::User(person_ran(first, code, teller))]
            }
            CellKind::Assistant { .. } | CellKind::Code(_) | CellKind::Reading(_) => {
                let native = step.and_then(|step| transcript.native(step)).cloned();
                model(own, native, tool, teller)
            }
        };
        exchanges.push(Exchange {
            cells: own,
            messages,
            is_folded: teller.is_folded,
        });
    }
    if let Some(preparer) = budget.preparer {
        let messages = exchanges.iter_mut().flat_map(|one| &mut one.messages);
        summarize::forget(messages, preparer.rules().most);
    }
    exchanges
}

/// Number of leading cells that the model gets without outputs.
fn folded_until(transcript: &Transcript) -> usize {
    let compactions = transcript
        .cells()
        .iter()
        .filter_map(|cell| match &cell.kind {
            CellKind::Compaction(compaction) if compaction.measure == Measure::Outputs => {
                transcript.position(&compaction.through)
            }
            _ => None,
        });
    compactions.max().map_or(0, |last| last + 1)
}

/// Renders the results of code.
#[derive(Clone, Copy)]
struct Teller<'a> {
    budget: Budget<'a>,
    /// Whether to leave out outputs.
    is_folded: bool,
}

impl Teller<'_> {
    fn result(self, id: &str, code: &CodeCell) -> SentResult {
        let mut told = compaction::told(id, code, self.budget);
        if self.is_folded && !told.is_folded {
            told.parts = folded(&told.parts);
        }
        told
    }
}

/// The code cells that the next prompt tells the model about for the first time.
pub fn untold<'a>(transcript: &'a Transcript, said: &SentResults) -> Vec<&'a Cell> {
    let cells = transcript.cells();
    let after = latest_summary(cells)
        .and_then(|(_, through)| cells.iter().position(|cell| cell.id == through))
        .map_or(0, |last| last + 1);
    let later = cells.get(after..).unwrap_or_default().iter();
    later
        .filter_map(|cell| Some((cell, cell.code()?)))
        .filter(|(cell, code)| {
            let ended = match code.status {
                CodeStatus::Proposed | CodeStatus::Running => false,
                CodeStatus::Finished(_) | CodeStatus::Declined(_) | CodeStatus::NotRun(_) => true,
            };
            ended && said.of(&cell.id).is_none()
        })
        .map(|(cell, _)| cell)
        .collect()
}

/// The latest summary and the last cell that it stands for.
fn latest_summary(cells: &[Cell]) -> Option<(&Cell, &str)> {
    cells.iter().rev().find_map(|cell| match &cell.kind {
        CellKind::Compaction(compaction) => match compaction.measure {
            Measure::Summary { .. } => Some((cell, compaction.through.as_str())),
            Measure::Outputs => None,
        },
        CellKind::User
        | CellKind::Note
        | CellKind::Cut
        | CellKind::Assistant { .. }
        | CellKind::Code(_)
        | CellKind::Reading(_) => None,
    })
}

fn said(words: &str) -> Message {
    Message::User(vec![Part::Text(words.to_owned())])
}

/// A note, with the pictures that the person gave.
fn note(cell: &Cell, teller: Teller<'_>) -> Message {
    let mut parts = vec![Part::Text(cell.source.clone())];
    let Budget { said, preparer, .. } = teller.budget;
    if let Some((said, preparer)) = said.zip(preparer)
        && !teller.is_folded
    {
        let given = said.given(&cell.id).iter();
        parts.extend(
            given
                .filter_map(|picture| preparer.see(picture))
                .map(Part::from),
        );
    }
    Message::User(parts)
}

/// A reply and the results of its calls.
fn model(reply: &[Cell], native: Option<Native>, tool: &str, teller: Teller<'_>) -> Vec<Message> {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for cell in reply {
        if let CellKind::Reading(reading) = &cell.kind {
            calls.push(ToolCall {
                after: text.len(),
                id: reading.call_id.clone(),
                name: READ_OUTPUT.to_owned(),
                arguments: cell.source.clone(),
            });
            let mut parts = vec![Part::Text(reading.answer.clone())];
            if teller.is_folded {
                parts = folded(&parts);
            }
            results.push(Message::ToolResult {
                call_id: reading.call_id.clone(),
                parts,
                is_error: reading.is_error,
            });
            continue;
        }
        if sql::is_setup(&cell.source) {
            continue;
        }
        let CellKind::Code(code) = &cell.kind else {
            if !text.is_empty() && !cell.source.is_empty() {
                text.truncate(text.trim_end().len());
                text.push_str("\n\n");
            }
            text.push_str(&cell.source);
            continue;
        };
        let Author::Model {
            call_id, broken, ..
        } = &code.author
        else {
            continue;
        };
        let written = code.original.as_ref().unwrap_or(&cell.source);
        calls.push(ToolCall {
            after: text.len(),
            id: call_id.clone(),
            name: tool.to_owned(),
            arguments: broken.clone().unwrap_or_else(|| arguments(code, written)),
        });
        let SentResult {
            mut parts,
            is_error,
            ..
        } = teller.result(&cell.id, code);
        if code.original.is_some() {
            parts.insert(
                0,
                Part::Text(format!(
                    "The user changed the code before running it, to:\n{}",
                    cell.source
                )),
            );
        }
        results.push(Message::ToolResult {
            call_id: call_id.clone(),
            parts,
            is_error,
        });
    }
    let mut messages = vec![Message::Assistant {
        text,
        calls,
        native,
    }];
    messages.append(&mut results);
    messages
}

/// The call's arguments in the form of the tool's schema.
fn arguments(code: &CodeCell, written: &str) -> String {
    match &code.language {
        Some(language) => json!({ "code": written, "language": language }).to_string(),
        None => json!({ "code": written }).to_string(),
    }
}

fn person_ran(cell: &Cell, code: &CodeCell, teller: Teller<'_>) -> Vec<Part> {
    let SentResult { parts, .. } = teller.result(&cell.id, code);
    if cell.is_foreign() {
        let source = &cell.source;
        let said =
            format!("A code cell of the notebook:\n{source}\n\nWhat the notebook has of it:");
        let mut all = vec![Part::Text(said)];
        all.extend(parts);
        return all;
    }
    let kernel = match &code.language {
        Some(language) => format!("{language} kernel"),
        None => "kernel".to_owned(),
    };
    let mut all = vec![Part::Text(format!(
        "I ran this in the {kernel}:\n{}\n\nIt gave:",
        cell.source
    ))];
    all.extend(parts);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::content::Stream;
    use crate::kernel::{OutputEvent, Verdict};
    use crate::session::{CodeStatus, Edit};

    const BUDGET: Budget<'static> = Budget {
        text: 1000,
        preparer: None,
        brief: false,
        reads: false,
        said: None,
    };

    fn call(cell: &str, step: u32, source: &str) -> Edit {
        let author = Author::Model {
            step,
            call_id: format!("call-{cell}"),
            broken: None,
        };
        Edit::Propose {
            cell: cell.to_owned(),
            author,
            language: None,
            source: source.to_owned(),
        }
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn answer(cell: &str, parts: Vec<Part>, is_error: bool) -> Message {
        Message::ToolResult {
            call_id: format!("call-{cell}"),
            parts,
            is_error,
        }
    }

    #[test]
    fn a_reply_with_two_calls_is_one_message_with_two_answers() {
        let mut transcript = Transcript::default();
        let mut before = Vec::new();
        for edit in [
            Edit::Note {
                cell: "n".to_owned(),
                text: "facts".to_owned(),
            },
            Edit::Say {
                cell: "u".to_owned(),
                text: "question".to_owned(),
            },
            Edit::AppendText {
                cell: "a".to_owned(),
                step: 1,
                text: "let me ".to_owned(),
            },
            Edit::AppendText {
                cell: "a".to_owned(),
                step: 1,
                text: "see".to_owned(),
            },
            call("c", 1, "print(1)"),
            call("d", 1, "print(2)"),
            Edit::Emit {
                cell: "c".to_owned(),
                output: OutputEvent::Stream(Stream {
                    name: "stdout".to_owned(),
                    text: "1\n".to_owned(),
                }),
            },
            Edit::Finish {
                cell: "c".to_owned(),
                status: CodeStatus::Finished(Verdict::Ok),
                at: String::new(),
            },
            Edit::Finish {
                cell: "d".to_owned(),
                status: CodeStatus::Declined(Some("too slow".to_owned())),
                at: String::new(),
            },
        ] {
            transcript.apply(edit).unwrap();
            before = messages(&transcript, "run_code", BUDGET);
        }
        let tool_call = |cell: &str, code: &str| ToolCall {
            after: "let me see".len(),
            id: format!("call-{cell}"),
            name: "run_code".to_owned(),
            arguments: json!({ "code": code }).to_string(),
        };
        let expected = vec![
            Message::User(vec![text("facts"), text("question")]),
            Message::Assistant {
                text: "let me see".to_owned(),
                calls: vec![tool_call("c", "print(1)"), tool_call("d", "print(2)")],
                native: None,
            },
            answer("c", vec![text("1")], false),
            answer(
                "d",
                vec![text(
                    "The user declined to run this code and said: too slow",
                )],
                true,
            ),
        ];
        assert_eq!(before, expected);
        // The next reply only appends messages.
        transcript
            .apply(Edit::AppendText {
                cell: "b".to_owned(),
                step: 2,
                text: "One.".to_owned(),
            })
            .unwrap();
        let after = messages(&transcript, "run_code", BUDGET);
        assert_eq!(after[..expected.len()], expected[..]);
        assert_eq!(
            after[expected.len()..],
            [Message::Assistant {
                text: "One.".to_owned(),
                calls: vec![],
                native: None,
            }]
        );
    }

    #[test]
    fn broken_and_changed_calls_are_answered_as_such() {
        let mut transcript = Transcript::default();
        let broken = Author::Model {
            step: 1,
            call_id: "call-x".to_owned(),
            broken: Some("{\"code\": ".to_owned()),
        };
        for edit in [
            Edit::Propose {
                cell: "x".to_owned(),
                author: broken,
                language: None,
                source: String::new(),
            },
            Edit::Finish {
                cell: "x".to_owned(),
                status: CodeStatus::NotRun("the arguments are not valid JSON".to_owned()),
                at: String::new(),
            },
            call("y", 2, "slow()"),
            Edit::Change {
                cell: "y".to_owned(),
                source: "fast()".to_owned(),
            },
            Edit::Finish {
                cell: "y".to_owned(),
                status: CodeStatus::Finished(Verdict::Ok),
                at: String::new(),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        let calls = |id: &str, arguments: &str| Message::Assistant {
            text: String::new(),
            calls: vec![ToolCall {
                after: 0,
                id: id.to_owned(),
                name: "t".to_owned(),
                arguments: arguments.to_owned(),
            }],
            native: None,
        };
        assert_eq!(
            messages(&transcript, "t", BUDGET),
            [
                calls("call-x", "{\"code\": "),
                answer(
                    "x",
                    vec![text("Not run: the arguments are not valid JSON")],
                    true
                ),
                calls("call-y", r#"{"code":"slow()"}"#),
                answer(
                    "y",
                    vec![
                        text("The user changed the code before running it, to:\nfast()"),
                        text("The code ran and printed nothing. Use print() to see values.")
                    ],
                    false
                ),
            ]
        );
    }
}
