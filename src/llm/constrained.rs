//! Makes a model that cannot call tools reply with code or an answer, by constraining its reply to a JSON schema.
//!
//! Small local models write tool calls unreliably or not at all, but a server that samples under a
//! JSON schema makes them reply `{"code": ...}` or `{"answer": ...}` and nothing else. From outside
//! this looks like any provider: code streams as a tool call, the answer as text.
//!
//! Invariant: the schema of the next reply depends on the prompt alone, so that a replayed session sends the same
//! requests. All wording is an option, because good wording is found by experiment.

mod reader;
mod render;

use serde_json::{Value, json};

use super::coded::{Manner, ReadReply};
use super::tuning::Tuning;
use super::types::{Prompt, ToolChoice, ToolSpec};
use super::wording::Wording;
use reader::Reader;

/// The key of a reply that is a cell to run; also the name of the code tool's argument.
const CODE: &str = "code";

/// The key for the language of a cell, where there are several.
const LANGUAGE: &str = "language";

/// The key of a reply that ends the turn in words.
const ANSWER: &str = "answer";

/// Instructions for the model, and how it is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ConstrainedOptions {
    /// Appended to the system prompt, after a blank line: how to reply. Empty appends nothing.
    pub instructions: String,
    /// The text around outputs.
    pub wording: Wording,
    /// How it is asked.
    pub tuning: Tuning,
}

impl Default for ConstrainedOptions {
    fn default() -> Self {
        Self {
            instructions: concat!(
                "Reply with JSON only: {\"code\": \"...\"} runs a cell; ",
                "{\"answer\": \"...\"} ends when the printed output answers the question."
            )
            .to_owned(),
            wording: Wording {
                output_heading: "Output:\n".to_owned(),
                empty_output: "[nothing printed]".to_owned(),
                after_output: concat!(
                    "If the output answers the question, reply with {\"answer\"}; ",
                    "otherwise run another cell."
                )
                .to_owned(),
                after_error: "Write the corrected cell.".to_owned(),
            },
            tuning: Tuning::default(),
        }
    }
}

impl Manner for ConstrainedOptions {
    fn ask(&self, prompt: Prompt, tool: &ToolSpec) -> (Prompt, Box<dyn ReadReply>) {
        let languages = languages(tool);
        let schema = match prompt.tool_choice {
            ToolChoice::Required => code(languages),
            ToolChoice::None => object(ANSWER),
            ToolChoice::Auto => json!({"anyOf": [code(languages), object(ANSWER)]}),
        };
        let prompt = render::constrained(prompt, schema, self);
        (prompt, Box::new(Reader::default()))
    }

    fn plain(&self, prompt: Prompt) -> Prompt {
        self.wording.plain(&self.tuning, prompt, render::reply)
    }
}

/// The schema of the tool's language argument, if it has one.
fn languages(tool: &ToolSpec) -> Option<Value> {
    let language = tool.parameters.get("properties")?.get(LANGUAGE)?;
    Some(json!({"type": "string", "enum": language.get("enum")?}))
}

/// The schema of a cell. The language comes last, so that the first key identifies the reply.
fn code(languages: Option<Value>) -> Value {
    let mut schema = object(CODE);
    if let (Some(languages), Some(properties)) = (languages, schema.get_mut("properties")) {
        properties[LANGUAGE] = languages;
    }
    schema
}

fn object(key: &str) -> Value {
    json!({
        "type": "object",
        "properties": {key: {"type": "string"}},
        "required": [key],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::StreamExt as _;

    use super::*;
    use crate::llm::coded::Coded;
    use crate::llm::scripted::{Reply, ScriptedProvider, Step};
    use crate::llm::types::{Delta, ModelInfo, Provider as _, StopReason};
    use crate::llm::types::{Message, Part, Usage};

    fn text(text: &str) -> Vec<Part> {
        vec![Part::Text(text.to_owned())]
    }

    fn prompt(messages: Vec<Message>) -> Prompt {
        Prompt {
            system: "s".to_owned(),
            messages,
            tools: vec![ToolSpec {
                name: "run_code".to_owned(),
                description: "runs a cell".to_owned(),
                parameters: json!({"type": "object"}),
            }],
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
            tool_choice: crate::llm::types::ToolChoice::Auto,
        }
    }

    fn model(reply: Reply) -> ScriptedProvider {
        let info = ModelInfo {
            name: "scripted/one".to_owned(),
            small: true,
            ..ModelInfo::default()
        };
        ScriptedProvider::new(info, [reply])
    }

    /// A reply streamed in fragments of five characters.
    fn streamed(text: &str, reason: StopReason) -> Reply {
        let chars: Vec<char> = text.chars().collect();
        let fragments = chars
            .chunks(5)
            .map(|chunk| Step::Delta(Delta::Text(chunk.iter().collect())));
        Reply::new(fragments.chain([Step::Delta(finished(reason))]))
    }

    fn finished(reason: StopReason) -> Delta {
        Delta::Finished {
            reason,
            usage: Usage::default(),
        }
    }

    /// The deltas, with adjacent fragments joined and call ids left out, and the requested schema.
    async fn ask(messages: Vec<Message>, reply: Reply) -> (Vec<Delta>, Option<Value>) {
        let model = model(reply);
        let constrained = Coded::new(Arc::new(model.clone()), ConstrainedOptions::default());
        let mut told: Vec<Delta> = Vec::new();
        let mut stream = constrained.stream(prompt(messages));
        while let Some(item) = stream.next().await {
            match (told.last_mut(), item.unwrap()) {
                (Some(Delta::Text(text)), Delta::Text(more)) => text.push_str(&more),
                (
                    Some(Delta::CallArguments { fragment, .. }),
                    Delta::CallArguments { fragment: more, .. },
                ) => fragment.push_str(&more),
                (_, Delta::CallStart { index, id, name }) => {
                    assert!(id.starts_with("call_"), "{id}");
                    told.push(Delta::CallStart {
                        index,
                        id: String::new(),
                        name,
                    });
                }
                (_, delta) => told.push(delta),
            }
        }
        let schema = model.prompts().pop().unwrap().reply_schema;
        (told, schema)
    }

    #[tokio::test]
    async fn a_question_is_met_with_code() {
        let (told, schema) = ask(
            vec![Message::User(text("17*23?"))],
            streamed(r#"{"code": "print(17*23)"}"#, StopReason::Done),
        )
        .await;

        assert_eq!(
            told,
            vec![
                Delta::CallStart {
                    index: 0,
                    id: String::new(),
                    name: "run_code".to_owned()
                },
                Delta::CallArguments {
                    index: 0,
                    fragment: r#"{"code": "print(17*23)"}"#.to_owned()
                },
                finished(StopReason::ToolCalls),
            ]
        );
        assert_eq!(
            schema,
            Some(json!({"anyOf": [object("code"), object("answer")]}))
        );
    }

    #[tokio::test]
    async fn an_output_may_be_met_with_an_answer() {
        let (told, schema) = ask(
            vec![
                Message::User(text("17*23?")),
                Message::ToolResult {
                    call_id: "c1".to_owned(),
                    parts: text("391"),
                    is_error: false,
                },
            ],
            streamed(r#"{"answer": "It is \u0033\u00391."}"#, StopReason::Done),
        )
        .await;

        assert_eq!(
            told,
            vec![
                Delta::Text("It is 391.".to_owned()),
                finished(StopReason::Done)
            ]
        );
        assert_eq!(
            schema,
            Some(json!({"anyOf": [object("code"), object("answer")]}))
        );
    }

    #[tokio::test]
    async fn a_cell_cut_at_the_limit_stays_cut() {
        let (told, _) = ask(
            vec![Message::User(text("17*23?"))],
            streamed(r#"{"code": "print(17"#, StopReason::Length),
        )
        .await;

        assert_eq!(
            told.get(1..),
            Some(
                &[
                    Delta::CallArguments {
                        index: 0,
                        fragment: r#"{"code": "print(17"#.to_owned()
                    },
                    finished(StopReason::Length),
                ][..]
            )
        );
    }

    #[tokio::test]
    async fn the_schema_is_what_the_reply_may_be() {
        for (choice, schema) in [
            (ToolChoice::Required, object("code")),
            (ToolChoice::None, object("answer")),
            (
                ToolChoice::Auto,
                json!({"anyOf": [object("code"), object("answer")]}),
            ),
        ] {
            let model = model(streamed(r#"{"answer": "x"}"#, StopReason::Done));
            let constrained = Coded::new(Arc::new(model.clone()), ConstrainedOptions::default());
            let prompt = Prompt {
                tool_choice: choice,
                ..prompt(vec![Message::User(text("17*23?"))])
            };
            let mut stream = constrained.stream(prompt);
            while stream.next().await.is_some() {}
            let asked = model.prompts().pop().and_then(|prompt| prompt.reply_schema);
            assert_eq!(asked, Some(schema), "{choice:?}");
        }
    }
}
