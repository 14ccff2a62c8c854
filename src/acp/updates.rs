//! Session events as `session/update`s, for events that need no further information.

use serde_json::{Value, json};

use super::tool_call::{self, text_block};
use crate::agent::approval::{Finding, Ruling};
use crate::agent::{EventKind, KernelMemory, RestoredBy, TurnEnd};

/// A piece of the conversation: `who` is `user_message`, `agent_message` or `agent_thought`.
fn chunk(who: &str, id: Option<&str>, content: &Value) -> Value {
    let mut update = json!({ "sessionUpdate": format!("{who}_chunk"), "content": content });
    if let Some(id) = id {
        update["messageId"] = id.into();
    }
    update
}

/// Text of the model.
pub(super) fn said(cell: &str, text: &str) -> Value {
    chunk("agent_message", Some(cell), &text_block(text))
}

/// Text of the person.
pub(super) fn asked(cell: &str, text: &str) -> Value {
    chunk("user_message", Some(cell), &text_block(text))
}

/// A note for the person, as a separate paragraph.
pub(super) fn notice(words: &str) -> Value {
    chunk(
        "agent_message",
        None,
        &text_block(&format!("\n\n> {}\n\n", words.trim().replace('\n', "\n> "))),
    )
}

/// The answer of a slash command.
pub(super) fn answer(text: &str) -> Value {
    chunk("agent_message", None, &text_block(text))
}

/// The same as a block.
pub(super) fn answer_block(content: &Value) -> Value {
    chunk("agent_message", None, content)
}

fn thought(words: &str) -> Value {
    chunk("agent_thought", None, &text_block(words))
}

/// Changed fields of a tool call.
pub(super) fn tool_update(cell: &str, fields: Value) -> Value {
    let mut update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": cell });
    if let (Value::Object(update), Value::Object(fields)) = (&mut update, fields) {
        update.extend(fields);
    }
    update
}

/// A code cell that has not been sent yet.
pub(super) fn tool_call(fields: Value) -> Value {
    let mut update = json!({ "sessionUpdate": "tool_call" });
    if let (Value::Object(update), Value::Object(fields)) = (&mut update, fields) {
        update.extend(fields);
    }
    update
}

/// Announces a cell whose code the model is writing.
pub(super) fn writing(cell: &str) -> Value {
    tool_call(
        json!({ "toolCallId": cell, "title": "Writing code", "kind": "execute", "status": "pending" }),
    )
}

/// The update for an event on its own; `None` for events that [`super::conversation`] handles, or that are for other
/// clients.
pub(super) fn of_event(event: &EventKind) -> Option<Value> {
    Some(match event {
        EventKind::UserMessage { cell, text } => asked(cell, text),
        EventKind::Text { cell, text } => said(cell, text),
        EventKind::Reasoning { text } => thought(text),
        EventKind::CodeForbidden { cell, ruling } => {
            notice(&format!("Cell {cell} does not run. {}", forbidden(ruling)))
        }
        EventKind::OutputRead {
            cell,
            arguments,
            answer,
        } => tool_call(json!({
            "toolCallId": cell,
            "title": "Read more of an output",
            "kind": "read",
            "status": "completed",
            "rawInput": serde_json::from_str::<Value>(arguments).unwrap_or_else(|_| arguments.as_str().into()),
            "content": [tool_call::block(&text_block(&tool_call::fenced("", answer)))],
        })),
        EventKind::StillRunning { interrupts, .. } => thought(&format!(
            "The code was interrupted ({interrupts}) and still runs. Cancel again to restart its kernel.\n"
        )),
        EventKind::Retrying {
            message,
            wait_ms,
            attempt,
            of,
            ..
        } => thought(&format!(
            "{message}; the model is asked again in {} s ({attempt} of {of}).\n",
            wait_ms.div_ceil(1000)
        )),
        EventKind::CompactionStarted { tokens, .. } => thought(&format!(
            "The conversation is being compacted (about {tokens} tokens).\n"
        )),
        EventKind::Compacted {
            tokens_before,
            tokens_after,
            ..
        } => notice(&format!(
            "The conversation was compacted for the model: about {tokens_after} tokens instead of {tokens_before}. The notebook keeps \
             all of it."
        )),
        EventKind::KernelDied { kernel, reason } => notice(&format!(
            "The kernel `{kernel}` died ({reason}), and its variables are gone. A new one starts."
        )),
        EventKind::KernelFailed {
            kernel,
            message,
            log,
        } => notice(&format!(
            "The kernel `{kernel}` could not be started: {message}{}",
            quoted(log.as_deref())
        )),
        EventKind::KernelBusy { kernel, .. } => notice(&format!(
            "The kernel `{kernel}` that the session left running is busy. It is waited for."
        )),
        EventKind::SessionResumed {
            memory: KernelMemory::Gone,
            code_cells,
            ..
        } if *code_cells > 0 => notice(&format!(
            "The kernel is new and the variables of this session are gone. `/restore` runs its {code_cells} cells of code again."
        )),
        EventKind::CellReplayed {
            number,
            of,
            differences,
            ..
        } => {
            let differs = if differences.is_empty() {
                String::new()
            } else {
                format!(": {}", differences.join("; "))
            };
            thought(&format!("Cell {number} of {of} ran again{differs}.\n"))
        }
        EventKind::SessionRestored {
            by: RestoredBy::Replay,
            ran,
            differing,
            ..
        } => notice(&format!(
            "{ran} cells ran again; the outputs of {differing} are different."
        )),
        EventKind::ModelUnchanged { model, message } => notice(&format!(
            "The model `{model}` cannot be used: {message}. The old one stays."
        )),
        EventKind::FollowUps { questions } => {
            let lines: Vec<String> = questions.iter().map(|it| format!("- {it}")).collect();
            answer(&format!("\n\nYou could ask next:\n{}\n", lines.join("\n")))
        }
        EventKind::Notice { message } => notice(message),
        _ => return None,
    })
}

/// A process's output, to be shown below a sentence.
fn quoted(log: Option<&str>) -> String {
    match log.unwrap_or_default().trim() {
        "" => String::new(),
        log => format!("\n\n{}", tool_call::fenced("", log)),
    }
}

fn forbidden(ruling: &Ruling) -> String {
    let found: Vec<String> = ruling.findings.iter().map(Finding::words).collect();
    if found.is_empty() {
        format!("It is forbidden: {}.", ruling.reason)
    } else {
        format!("It is forbidden ({}): {}.", ruling.reason, found.join("; "))
    }
}

/// The question about code, with the findings in it.
pub(super) fn question(reason: &str, findings: &[Finding]) -> String {
    let mut text = format!(
        "**May this code run?** It is asked about because {}.",
        reason.trim_end_matches('.')
    );
    for finding in findings {
        text.push_str("\n- ");
        text.push_str(&finding.words());
    }
    text
}

/// How a turn ended: the protocol's stop reason, and a text for the person.
///
/// # Errors
/// The error of a failed turn.
pub(super) fn end(end: &TurnEnd) -> Result<(&'static str, Option<String>), String> {
    Ok(match end {
        TurnEnd::Done | TurnEnd::Planned | TurnEnd::CellFailed | TurnEnd::Declined => {
            ("end_turn", None)
        }
        TurnEnd::Interrupted => ("cancelled", None),
        TurnEnd::StepLimit { steps } => (
            "max_turn_requests",
            Some(format!(
                "The model used all its {steps} requests for this question."
            )),
        ),
        TurnEnd::Repeating => (
            "end_turn",
            Some("The same code failed three times in the same way, so the turn ended.".to_owned()),
        ),
        TurnEnd::Budget { message } => (
            "max_tokens",
            Some(format!("The budget is spent: {message}")),
        ),
        TurnEnd::ModelFailed {
            message,
            key_variable,
        } => {
            return Err(match key_variable {
                Some(variable) => {
                    format!("the model could not be asked: {message} (its key is in `{variable}`)")
                }
                None => format!("the model could not be asked: {message}"),
            });
        }
        TurnEnd::KernelFailed { message } => return Err(format!("there is no kernel: {message}")),
    })
}

/// The question at a limit or about a plan, and the labels of the answers.
pub(super) fn go_on(end: &TurnEnd) -> (String, &'static str, &'static str) {
    match end {
        TurnEnd::Planned => (
            "Carry out this plan?".to_owned(),
            "Carry it out",
            "Do not carry it out",
        ),
        TurnEnd::StepLimit { steps } => (
            format!("The model used {steps} requests for this question. Go on?"),
            "Go on",
            "Stop here",
        ),
        TurnEnd::Budget { message } => (format!("{message}. Go on?"), "Go on", "Stop here"),
        TurnEnd::Repeating => (
            "The same code failed three times in the same way. Go on?".to_owned(),
            "Go on",
            "Stop here",
        ),
        TurnEnd::Done
        | TurnEnd::CellFailed
        | TurnEnd::Interrupted
        | TurnEnd::Declined
        | TurnEnd::ModelFailed { .. }
        | TurnEnd::KernelFailed { .. } => ("Go on?".to_owned(), "Go on", "Stop here"),
    }
}
