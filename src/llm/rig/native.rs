//! Keeps replies in the form that their provider needs back: reasoning with its signature (Anthropic), encrypted items
//! (OpenAI Responses), thought signatures (Gemini), `reasoning_content` (DeepSeek and others on the chat wire).
//!
//! The library parses and serialises it byte for byte, and sends another model only what that model can use. This
//! module stores it as JSON and keeps our calls aligned with the provider's. Only replies with reasoning are kept:
//! others can be rebuilt from text and calls.

use rig_core::completion::CompletionResponse;
use rig_core::message::{AssistantContent, AssistantMessage, ToolFunction};
use serde_json::{Map, Value};

use super::super::types::{Native, ToolCall};

/// What to keep of a complete reply, if anything.
pub(super) fn keep(response: &CompletionResponse) -> Option<Native> {
    if !response.choice.iter().any(needs_keeping) {
        return None;
    }
    // The stop reason is not kept: a reply that was cut off was answered all the same.
    let turn = AssistantMessage::new(response.choice.clone()).with_origin(response.origin.clone());
    serde_json::to_value(turn).ok().map(Native::new)
}

/// The kept turn for a reply with this text and these calls; `None` if it belongs to another reply. Text and code that
/// were undone or changed are never sent.
pub(super) fn turn(native: &Native, text: &str, calls: &[ToolCall]) -> Option<AssistantMessage> {
    let mut turn: AssistantMessage = serde_json::from_value(native.value().clone()).ok()?;
    if turn.tool_calls().count() != calls.len() || !says(&turn, text) {
        return None;
    }
    let mut ours = calls.iter();
    for block in &mut turn.content {
        let AssistantContent::ToolCall(theirs) = block else {
            continue;
        };
        let written = &ours.next()?.arguments;
        match serde_json::from_str(written) {
            Ok(Value::Object(written)) if !is_same(&written, &theirs.function.arguments) => {
                return None;
            }
            Ok(Value::Object(_)) => {}
            // Servers refuse arguments that are not an object, even if their model wrote them.
            _ => {
                theirs.function = ToolFunction::parse(theirs.function.name.clone(), written);
                theirs.native = None;
            }
        }
    }
    Some(turn)
}

/// Whether the turn has this text, ignoring white space between its pieces.
fn says(turn: &AssistantMessage, text: &str) -> bool {
    let texts = turn.content.iter().filter_map(|block| match block {
        AssistantContent::Text(text) => Some(text.text()),
        _ => None,
    });
    let said = texts.flat_map(str::split_whitespace).flat_map(str::chars);
    said.eq(text.split_whitespace().flat_map(str::chars))
}

/// Whether the arguments match the model's. We keep only the arguments we need.
fn is_same(ours: &Map<String, Value>, theirs: &Map<String, Value>) -> bool {
    match ours.get("code") {
        Some(code) => theirs.get("code") == Some(code),
        None => ours == theirs,
    }
}

fn needs_keeping(block: &AssistantContent) -> bool {
    let signed = |item: Option<&Value>| {
        item.and_then(Value::as_object)
            .is_some_and(|item| item.contains_key("thoughtSignature"))
    };
    match block {
        AssistantContent::Reasoning(_) | AssistantContent::Opaque(_) => true,
        _ => signed(block.native_item()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(arguments: &str) -> ToolCall {
        ToolCall {
            after: 0,
            id: "1".to_owned(),
            name: "run_code".to_owned(),
            arguments: arguments.to_owned(),
        }
    }

    /// What is kept of a reply must not come back in the place of another.
    #[test]
    fn only_the_reply_that_it_was_made_of_gets_it() {
        let made = AssistantMessage::new(vec![
            AssistantContent::Text(rig_core::message::Text::new("Let me ")),
            AssistantContent::Text(rig_core::message::Text::new("see.")),
            AssistantContent::ToolCall(rig_core::message::ToolCall::from_wire(
                "1",
                ToolFunction::parse(
                    rig_core::message::ToolName::new("run_code").unwrap(),
                    r#"{"code": "rm()", "language": "r"}"#,
                ),
            )),
        ]);
        let native = Native::new(serde_json::to_value(&made).unwrap());
        let is_sent = |text: &str, calls: &[ToolCall]| turn(&native, text, calls).is_some();
        let same = [call(r#"{"code":"rm()"}"#)];
        assert!(is_sent("Let me see.", &same));
        assert!(is_sent("Let me see.\n", &same));
        assert!(!is_sent("Let me look.", &same));
        assert!(!is_sent("", &same));
        assert!(!is_sent("Let me see.", &[call(r#"{"code":"ls()"}"#)]));
        assert!(!is_sent("Let me see.", &[call(r#"{"cell":"c"}"#)]));
        assert!(!is_sent("Let me see.", &[]));
        // Arguments that are not an object are replaced, so they may be anything.
        let mended = turn(&native, "Let me see.", &[call("{\"code\": \"17")]).unwrap();
        let code: Vec<_> = mended
            .tool_calls()
            .map(|it| it.function.arguments.clone())
            .collect();
        assert_eq!(code, [Map::from_iter([("code".to_owned(), json!("17"))])]);
    }
}
