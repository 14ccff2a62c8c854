//! Transcript -> the messages of a prompt.
//!
//! A pure function of the transcript, cell by cell: what was sent once is sent again byte for byte, and a step only
//! appends, so that provider caches hit. Every call of the model is followed by exactly one answer.

use serde_json::json;

use super::summarize::{self, Budget};
use super::transcript::{Author, Cell, CellKind, CodeCell, Transcript};
use crate::llm::types::{Message, Native, Part, ToolCall};

/// The name of the tool that reads more of an output.
pub const READ_OUTPUT: &str = "read_output";

/// The conversation as a model gets it. `tool` is the name of the tool that runs code.
pub fn messages(transcript: &Transcript, tool: &str, budget: Budget<'_>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut cells = transcript.cells();
    while let [first, rest @ ..] = cells {
        match &first.kind {
            // An empty cell of a notebook says nothing, and providers refuse empty text.
            _ if first.is_foreign() && first.source.trim().is_empty() => cells = rest,
            CellKind::User | CellKind::Note => {
                user(&mut messages, vec![Part::Text(first.source.clone())]);
                cells = rest;
            }
            CellKind::Cut => cells = rest,
            CellKind::Code(code) if code.author == Author::Person => {
                user(&mut messages, person_ran(first, code, budget));
                cells = rest;
            }
            CellKind::Assistant { .. } | CellKind::Code(_) | CellKind::Reading(_) => {
                let step = step_of(first);
                let length = cells
                    .iter()
                    .take_while(|cell| step_of(cell) == step)
                    .count();
                let (reply, later) = cells.split_at(length.max(1));
                let native = step.and_then(|step| transcript.native(step)).cloned();
                model(&mut messages, reply, native, tool, budget);
                cells = later;
            }
        }
    }
    if let Some(eye) = budget.eye {
        summarize::forget(&mut messages, eye.rules().most);
    }
    messages
}

/// The reply that a cell is part of.
fn step_of(cell: &Cell) -> Option<u32> {
    match &cell.kind {
        CellKind::Assistant { step } => Some(*step),
        CellKind::Reading(reading) => Some(reading.step),
        CellKind::Code(code) => match &code.author {
            Author::Model { step, .. } => Some(*step),
            Author::Person => None,
        },
        CellKind::User | CellKind::Note | CellKind::Cut => None,
    }
}

/// Consecutive words of the person's side are one message: not every wire takes two in a row.
fn user(messages: &mut Vec<Message>, mut parts: Vec<Part>) {
    if let Some(Message::User(last)) = messages.last_mut() {
        last.append(&mut parts);
    } else {
        messages.push(Message::User(parts));
    }
}

fn model(
    messages: &mut Vec<Message>,
    reply: &[Cell],
    native: Option<Native>,
    tool: &str,
    budget: Budget<'_>,
) {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut results = Vec::new();
    for cell in reply {
        if let CellKind::Reading(reading) = &cell.kind {
            calls.push(ToolCall {
                id: reading.call_id.clone(),
                name: READ_OUTPUT.to_owned(),
                arguments: cell.source.clone(),
            });
            results.push(Message::ToolResult {
                call_id: reading.call_id.clone(),
                parts: vec![Part::Text(reading.answer.clone())],
                is_error: reading.is_error,
            });
            continue;
        }
        let CellKind::Code(code) = &cell.kind else {
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
            id: call_id.clone(),
            name: tool.to_owned(),
            arguments: broken.clone().unwrap_or_else(|| arguments(code, written)),
        });
        let (mut parts, is_error) = summarize::result(&cell.id, code, budget);
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
    messages.push(Message::Assistant {
        text,
        calls,
        native,
    });
    messages.append(&mut results);
}

/// A call's arguments as the tool's schema has them.
fn arguments(code: &CodeCell, written: &str) -> String {
    match &code.language {
        Some(language) => json!({ "code": written, "language": language }).to_string(),
        None => json!({ "code": written }).to_string(),
    }
}

fn person_ran(cell: &Cell, code: &CodeCell, budget: Budget<'_>) -> Vec<Part> {
    let (parts, _) = summarize::result(&cell.id, code, budget);
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
        eye: None,
        brief: false,
        reads: false,
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
        // The next reply only appends.
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
