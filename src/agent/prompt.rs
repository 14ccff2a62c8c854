//! The text a model gets before the conversation: the system prompt and, for small models, examples.

use serde_json::Value;

use crate::llm::mode::CodeMode;
use crate::llm::types::{Message, Part, ToolCall};

use super::tools;

/// Instructions from a person or a project, appended to the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Their origin, for display: `profile NAME`, `SPONDE.md`.
    pub source: String,
    /// The text.
    pub text: String,
}

/// Appends all `instructions`, in order, to a system prompt.
pub fn with_instructions(system: String, instructions: &[Instructions]) -> String {
    instructions.iter().fold(system, |system, added| {
        format!(
            "{system}\n\n# Instructions of the user ({})\n{}",
            added.source, added.text
        )
    })
}

/// The system prompt for `language`. How to run code is not in it: the tool's description or the code mode adds that.
pub fn system(language: &str) -> String {
    include_str!("prompts/system.md")
        .trim_end()
        .replace("{language}", language)
}

/// The system prompt for small models in `mode`. Python only, because they are not good enough at other languages.
pub fn small_system(mode: CodeMode) -> String {
    let how = match mode {
        CodeMode::Json => {
            r#"Reply with JSON: {"code": "..."} runs a cell; {"answer": "..."} ends when the printed output answers the question."#
        }
        CodeMode::Fenced => {
            "Reply with one ```python block: it is run and you see what it prints. When the printed output answers the question, reply with the answer in words."
        }
        CodeMode::Tools => {
            "Call run_code to run a cell. When the printed output answers the question, reply with the answer in words."
        }
    };
    include_str!("prompts/small.md")
        .trim_end()
        .replace("{how}", how)
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
                after: 0,
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

    /// Bounds the tokens of a system prompt with all its additions; tokenizers make a token of three to five letters of
    /// English, and of each punctuation mark.
    #[test]
    fn a_system_prompt_is_short() {
        use crate::llm::constrained::ConstrainedOptions;
        use crate::llm::fenced::FencedOptions;
        let run_code = tools::run_code(
            &[crate::agent::KernelOffer {
                kernel: "python3".to_owned(),
                language: "python".to_owned(),
            }],
            tools::SqlOffer::None,
        );
        let ways = [
            run_code.description + &run_code.parameters.to_string(),
            ConstrainedOptions::default().instructions,
            FencedOptions::new("python").instructions,
        ];
        for way in ways {
            let prompt = format!("{}\n\n{way}", system("javascript"));
            let tokens = tokens(&prompt);
            assert!(tokens <= 600, "{tokens} tokens: {prompt}");
        }
        for mode in CodeMode::ALL {
            assert!(tokens(&small_system(mode)) <= 600);
        }
    }

    /// An upper estimate: a token for every six letters of a word, and for every punctuation mark.
    fn tokens(text: &str) -> usize {
        let mut tokens = 0;
        let mut letters = 0_usize;
        for c in text.chars().chain([' ']) {
            if c.is_alphanumeric() {
                letters += 1;
                continue;
            }
            tokens += letters.div_ceil(6);
            letters = 0;
            tokens += usize::from(!c.is_whitespace());
        }
        tokens
    }

    #[test]
    fn instructions_come_after_the_prompt() {
        let added = |source: &str, text: &str| Instructions {
            source: source.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(
            with_instructions(
                "s".to_owned(),
                &[added("profile a", "x"), added("SPONDE.md", "y")]
            ),
            "s\n\n# Instructions of the user (profile a)\nx\n\n# Instructions of the user (SPONDE.md)\ny"
        );
    }

    #[test]
    fn the_examples_are_whole() {
        let messages = small_examples();
        assert!(messages.len() >= 4, "{}", messages.len());
        assert!(
            matches!(messages.last(), Some(Message::Assistant { calls, .. }) if calls.is_empty())
        );
        assert!(system("python").contains("python"));
    }
}
