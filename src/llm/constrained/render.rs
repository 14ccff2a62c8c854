//! The prompt for a constrained model: its past replies as the JSON it would write now, tool results as user messages,
//! and adjacent messages of one role joined, because chat templates may require alternation.

use serde_json::Value;

use super::{ANSWER, CODE, ConstrainedOptions, LANGUAGE};
use crate::llm::types::{Prompt, ToolCall, ToolChoice};
use crate::llm::wording::{appended, joined};

/// The prompt for a reply that must match `schema`.
pub(super) fn constrained(prompt: Prompt, schema: Value, options: &ConstrainedOptions) -> Prompt {
    let prompt = options.tuning.apply(prompt);
    Prompt {
        system: appended(prompt.system, &options.instructions),
        messages: joined(options.wording.in_words(&prompt.messages, reply)),
        tools: Vec::new(),
        reply_schema: Some(schema),
        tool_choice: ToolChoice::Auto,
        ..prompt
    }
}

/// A past reply in the form the model would have to write now.
pub(super) fn reply(text: &str, calls: &[ToolCall]) -> String {
    if calls.is_empty() {
        return object(ANSWER, &Value::from(text));
    }
    let objects: Vec<String> = calls.iter().map(|call| code(&call.arguments)).collect();
    objects.join("\n")
}

/// The arguments of a call: unchanged if they hold only the code, otherwise reduced to code and language, because other
/// models' tools may have had more.
fn code(arguments: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(arguments).ok();
    let fields = parsed.as_ref().and_then(Value::as_object);
    match fields.and_then(|fields| fields.get(CODE)) {
        Some(code) if fields.is_some_and(|fields| fields.len() > 1) => {
            match fields.and_then(|fields| fields.get(LANGUAGE)) {
                Some(language) => format!("{{\"{CODE}\": {code}, \"{LANGUAGE}\": {language}}}"),
                None => object(CODE, code),
            }
        }
        _ => arguments.trim().to_owned(),
    }
}

/// An object with one key, spaced as models write it.
fn object(key: &str, value: &Value) -> String {
    format!("{{\"{key}\": {value}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::tuning::Tuning;
    use crate::llm::types::{Message, Part};
    use crate::llm::wording::Wording;

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.to_owned())]
    }

    fn call(arguments: &str) -> Message {
        Message::Assistant {
            text: "Let me see.".to_owned(),
            calls: vec![ToolCall {
                after: 0,
                id: "c1".to_owned(),
                name: "run_code".to_owned(),
                arguments: arguments.to_owned(),
            }],
            native: None,
        }
    }

    fn result(parts: Vec<Part>, is_error: bool) -> Message {
        Message::ToolResult {
            call_id: "c1".to_owned(),
            parts,
            is_error,
        }
    }

    fn options() -> ConstrainedOptions {
        ConstrainedOptions {
            instructions: "Reply with JSON.".to_owned(),
            wording: Wording {
                output_heading: "Output:\n".to_owned(),
                empty_output: "[nothing printed]".to_owned(),
                after_output: "Answer or go on.".to_owned(),
                after_error: "Correct it.".to_owned(),
            },
            tuning: Tuning {
                few_shot: vec![
                    Message::User(text("2**10?")),
                    call(r#"{"code": "print(2**10)"}"#),
                    result(text("1024\n"), false),
                    Message::Assistant {
                        text: "It is \"1024\".".to_owned(),
                        calls: Vec::new(),
                        native: None,
                    },
                ],
                max_output_tokens: Some(700),
                temperature: Some(0.0),
                forgets: true,
            },
        }
    }

    fn said(reply: &str) -> Message {
        Message::Assistant {
            text: reply.to_owned(),
            calls: Vec::new(),
            native: None,
        }
    }

    #[test]
    fn a_conversation_becomes_json_and_questions() {
        let plot = Part::Image {
            media_type: "image/png",
            data: vec![1, 2, 3].into(),
        };
        let prompt = Prompt {
            system: "You analyse data.".to_owned(),
            messages: vec![
                Message::User(text("17*23?")),
                call(r#"{"code":"plot()"}"#),
                result(vec![plot.clone()], false),
                Message::User(text("and 3*3?")),
                call(r#"{"code":"print(3*","language":"python","x":1}"#),
                result(text("SyntaxError\n"), true),
            ],
            tools: Vec::new(),
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
            tool_choice: crate::llm::types::ToolChoice::Auto,
        };

        let expected = Prompt {
            system: "You analyse data.\n\nReply with JSON.".to_owned(),
            messages: vec![
                Message::User(text("2**10?")),
                said(r#"{"code": "print(2**10)"}"#),
                Message::User(text("Output:\n1024\n\nAnswer or go on.")),
                said(r#"{"answer": "It is \"1024\"."}"#),
                Message::User(text("17*23?")),
                said(r#"{"code":"plot()"}"#),
                Message::User(vec![
                    Part::Text("Output:\n[nothing printed]\n\nAnswer or go on.".to_owned()),
                    plot,
                    Part::Text("and 3*3?".to_owned()),
                ]),
                said(r#"{"code": "print(3*", "language": "python"}"#),
                Message::User(text("Output:\nSyntaxError\n\nCorrect it.")),
            ],
            tools: Vec::new(),
            max_output_tokens: Some(700),
            temperature: Some(0.0),
            reply_schema: Some(Value::Bool(true)),
            tool_choice: crate::llm::types::ToolChoice::Auto,
        };
        assert_eq!(constrained(prompt, Value::Bool(true), &options()), expected);
    }
}
