//! A reply kept as its provider wants it back: reasoning with its signature (Anthropic), encrypted items (OpenAI
//! Responses), thought signatures (Gemini), `reasoning_content` (DeepSeek and others on the chat wire).
//!
//! The library reads it on the way in and writes it on the way out, byte for byte, and to another model than the one
//! that made it only what that one can use. Ours is to keep it as JSON, and to keep our calls and its calls together.
//! Kept is only what words and calls do not say: without reasoning a reply is rebuilt from these.

use rig_core::completion::CompletionResponse;
use rig_core::message::{AssistantContent, AssistantMessage, ToolFunction};
use serde_json::Value;

use super::super::types::{Native, ToolCall};

/// What to keep of a complete reply, if anything.
pub(super) fn keep(response: &CompletionResponse) -> Option<Native> {
    if !response.choice.iter().any(needs_keeping) {
        return None;
    }
    // How it ended is not kept: a reply that was not done was answered all the same.
    let turn = AssistantMessage::new(response.choice.clone()).with_origin(response.origin.clone());
    serde_json::to_value(turn).ok().map(Native::new)
}

/// The turn that was kept, for a reply whose calls these are; `None` if it is not that reply.
pub(super) fn turn(native: &Native, calls: &[ToolCall]) -> Option<AssistantMessage> {
    let mut turn: AssistantMessage = serde_json::from_value(native.value().clone()).ok()?;
    if turn.tool_calls().count() != calls.len() {
        return None;
    }
    let mut ours = calls.iter();
    for block in &mut turn.content {
        let AssistantContent::ToolCall(theirs) = block else {
            continue;
        };
        let written = &ours.next()?.arguments;
        // Servers refuse what is no object, although their model wrote it.
        if !serde_json::from_str::<Value>(written).is_ok_and(|value| value.is_object()) {
            theirs.function = ToolFunction::parse(theirs.function.name.clone(), written);
            theirs.native = None;
        }
    }
    Some(turn)
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
