//! Native tool calls, for servers whose models do not always make them: a call written as text counts as one, examples
//! and bounds are added, and a server that does not support tools is told apart from one that failed.

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::coded::{Accept, Manner, ReadReply};
use super::fenced::Reader;
use super::tuning::Tuning;
use super::types::{
    BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError, ToolChoice, ToolSpec,
};

impl Manner for Tuning {
    fn offers_tools(&self) -> bool {
        true
    }

    fn ask(&self, prompt: Prompt, _tool: &ToolSpec) -> (Prompt, Box<dyn ReadReply>) {
        let accept = match prompt.tool_choice {
            ToolChoice::Auto | ToolChoice::Required => Accept::Calls,
            ToolChoice::None => Accept::Words,
        };
        (self.apply(prompt), Box::new(Reader::new(accept)))
    }

    fn plain(&self, prompt: Prompt) -> Prompt {
        self.bound(prompt)
    }
}

/// Adds a hint to a refusal of tools, for a provider that is asked with tools because the person chose so.
pub fn explained(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Rejected {
            endpoint,
            status,
            message,
        } if says_no_tools(&message) => ProviderError::Rejected {
            endpoint,
            status,
            message: format!(
                "{message}; use `--code-mode fenced` for a model without tool support"
            ),
        },
        error => error,
    }
}

/// Whether a server refused a request because of its tools.
pub fn refuses_tools(error: &ProviderError) -> bool {
    match error {
        // llama-server without --jinja reports it with status 500.
        ProviderError::Rejected { message, .. }
        | ProviderError::Busy {
            status: 500,
            message,
            ..
        } => says_no_tools(message),
        _ => false,
    }
}

/// The messages of Ollama, vLLM, llama-server, OpenRouter, Groq, DeepSeek and others, from their sources and issue
/// threads.
fn says_no_tools(message: &str) -> bool {
    const ABOUT: [&str; 4] = ["tool", "function call", "function_call", "functions"];
    const NO: [&str; 12] = [
        "not support",
        "n't support",
        "unsupported",
        "no endpoints found",
        "--jinja",
        "enable-auto-tool-choice",
        "not enabled",
        "not available",
        "not allowed",
        "not implemented",
        "unrecognized",
        "not permitted",
    ];
    let message = message.to_lowercase();
    ABOUT.iter().any(|words| message.contains(words))
        && NO.iter().any(|words| message.contains(words))
}

/// A provider whose refusals are [`explained`].
#[derive(Clone)]
pub struct Explaining(pub Arc<dyn Provider>);

impl Provider for Explaining {
    fn info(&self) -> &ModelInfo {
        self.0.info()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        Box::pin(self.0.stream(prompt).map(|item| item.map_err(explained)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::coded::Coded;
    use crate::llm::scripted::{Reply, ScriptedProvider};
    use crate::llm::types::{Message, Part, ToolSpec};

    fn model(replies: Vec<Reply>) -> ScriptedProvider {
        let info = ModelInfo {
            name: "scripted/one".to_owned(),
            ..ModelInfo::default()
        };
        ScriptedProvider::new(info, replies)
    }

    fn prompt() -> Prompt {
        Prompt {
            system: String::new(),
            messages: vec![Message::User(vec![Part::Text("q".to_owned())])],
            tools: vec![ToolSpec {
                name: "run_code".to_owned(),
                description: String::new(),
                parameters: serde_json::json!({}),
            }],
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
        }
    }

    fn rejected(message: &str) -> ProviderError {
        ProviderError::Rejected {
            endpoint: "http://x".to_owned(),
            status: 400,
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_refusal_of_tools_is_known_by_its_words() {
        for (message, expected) in [
            (
                "registry.ollama.ai/library/gemma3:4b does not support tools",
                true,
            ),
            (
                "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
                true,
            ),
            ("tools param requires --jinja flag", true),
            ("No endpoints found that support tool use", true),
            ("`tool calling` is not supported with this model", true),
            ("deepseek-reasoner does not support Function Calling", true),
            (
                "Unsupported parameter: 'tools' is not supported with this model.",
                true,
            ),
            ("maximum context length is 4096 tokens", false),
            ("image input is not supported", false),
        ] {
            assert_eq!(refuses_tools(&rejected(message)), expected, "{message}");
        }
        let said = explained(rejected("x does not support tools")).to_string();
        assert!(said.contains("`--code-mode fenced`"), "{said}");
    }

    #[tokio::test]
    async fn a_call_written_as_text_is_one() {
        let text =
            "```json\n{\"name\": \"run_code\", \"arguments\": {\"code\": \"print(1)\"}}\n```\n";
        let native = Coded::new(Arc::new(model(vec![Reply::text(text)])), Tuning::default());
        let told: Vec<_> = native.stream(prompt()).map(Result::unwrap).collect().await;
        assert!(
            matches!(&told[..], [
                Delta::CallStart { index: 0, name, .. },
                Delta::CallArguments { index: 0, fragment },
                Delta::Finished { .. },
            ] if name == "run_code" && fragment == r#"{"code":"print(1)"}"#),
            "{told:?}"
        );
    }
}
