//! The prompt for a model that writes fenced blocks: its past calls as the blocks it would write now, results as user
//! messages.

use serde_json::Value;

use super::FencedOptions;
use crate::llm::types::{Message, Part, Prompt, ToolCall, ToolChoice};
use crate::llm::wording::{appended, joined};

/// The prompt for a reply with blocks.
pub(super) fn fenced(prompt: Prompt, options: &FencedOptions) -> Prompt {
    let prompt = options.tuning.apply(prompt);
    let mut messages = options
        .wording
        .in_words(&prompt.messages, |text, calls| reply(text, calls, options));
    let last = match prompt.tool_choice {
        ToolChoice::Auto => "",
        ToolChoice::Required => &options.only_code,
        ToolChoice::None => &options.only_words,
    };
    if !last.is_empty() {
        messages.push(Message::User(vec![Part::Text(last.to_owned())]));
    }
    let instructions = options
        .instructions
        .replace("{others}", &others(&prompt, options))
        .replace("{language}", &options.language);
    Prompt {
        system: appended(prompt.system, &instructions),
        messages: joined(messages),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        ..prompt
    }
}

/// The other languages that the tool accepts.
fn others(prompt: &Prompt, options: &FencedOptions) -> String {
    let languages = prompt
        .tools
        .first()
        .and_then(|tool| tool.parameters.pointer("/properties/language/enum"))
        .and_then(Value::as_array);
    let others: Vec<String> = languages
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_lowercase)
        .filter(|language| *language != options.language)
        .map(|language| format!("```{language}"))
        .collect();
    if others.is_empty() {
        return String::new();
    }
    format!(
        " Blocks of {} run too, each in a kernel of its own with its own variables; pass data between them through files.",
        others.join(", ")
    )
}

/// A past reply in the form the model would have to write now, in the same order.
pub(super) fn reply(text: &str, calls: &[ToolCall], options: &FencedOptions) -> String {
    let mut pieces = Vec::new();
    let mut rest = text;
    for call in calls {
        let told = text.len() - rest.len();
        let (words, later) =
            rest.split_at(rest.floor_char_boundary(call.after.saturating_sub(told)));
        pieces.push(words.trim_end().to_owned());
        pieces.push(block(&call.arguments, &options.language));
        rest = later.trim_start_matches('\n');
    }
    pieces.push(rest.trim_end().to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces.join("\n\n")
}

/// A call as a block, with a fence that is longer than any in the code.
fn block(arguments: &str, main: &str) -> String {
    // A call that was cut off is JSON without its end.
    let parsed = [arguments.to_owned(), format!("{arguments}\"}}")]
        .into_iter()
        .find_map(|text| serde_json::from_str::<Value>(&text).ok());
    let of = |key: &str| {
        let value = parsed.as_ref().and_then(|parsed| parsed.get(key));
        value.and_then(Value::as_str)
    };
    let code = of("code").unwrap_or(arguments);
    let language = of("language").unwrap_or(main).to_lowercase();
    let longest = code.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}{language}\n{code}\n{fence}")
}
