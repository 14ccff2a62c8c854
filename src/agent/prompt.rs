//! The words a model gets before the conversation: system prompt and, for small models, examples.

use serde_json::Value;

use crate::llm::types::{Message, Part, ToolCall};

use super::tools;

/// The system prompt for `language`.
pub fn system(language: &str) -> String {
    include_str!("prompts/system.md")
        .trim_end()
        .replace("{language}", language)
}

/// The system prompt for small models. Python only: that is what they can.
pub fn small_system() -> String {
    include_str!("prompts/small.md").trim_end().to_owned()
}

/// The example conversation for small models, from `prompts/small_examples.json`: a list of
/// `{"user"} | {"code", "output"} | {"answer"}`.
pub fn small_examples() -> Vec<Message> {
    let Ok(Value::Array(turns)) = serde_json::from_str(include_str!("prompts/small_examples.json"))
    else {
        return Vec::new();
    };
    let mut messages = Vec::new();
    for (n, turn) in turns.iter().enumerate() {
        let text = |key: &str| turn.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = text("user") {
            messages.push(Message::User(vec![Part::Text(words)]));
        }
        if let Some(answer) = text("answer") {
            messages.push(Message::Assistant {
                text: answer,
                calls: vec![],
                native: None,
            });
        }
        if let (Some(code), Some(output)) = (text("code"), text("output")) {
            let id = format!("example_{n}");
            let arguments = serde_json::json!({ "code": code }).to_string();
            let call = ToolCall {
                id: id.clone(),
                name: tools::RUN_CODE.to_owned(),
                arguments,
            };
            messages.push(Message::Assistant {
                text: String::new(),
                calls: vec![call],
                native: None,
            });
            messages.push(Message::ToolResult {
                call_id: id,
                parts: vec![Part::Text(output)],
                is_error: false,
            });
        }
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_whole() {
        let messages = small_examples();
        assert!(messages.len() >= 4, "{}", messages.len());
        assert!(
            matches!(messages.last(), Some(Message::Assistant { calls, .. }) if calls.is_empty())
        );
        assert!(system("python").contains("python"));
        assert!(!small_system().is_empty());
    }
}
