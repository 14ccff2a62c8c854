//! Where a model is and how to be let in: what naming a model resolves to.
//!
//! Plain data. Choosing one is the job of [`super::catalog`], talking to it that of [`super::rig`].

use std::fmt;

use super::types::ModelInfo;

/// Where a model is served, and everything needed to ask it.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// Who serves it, which decides the wire.
    pub kind: ProviderKind,
    /// Base URL without credentials and without a slash at the end.
    pub base_url: String,
    /// The key, if one is known. Servers at home mostly want none.
    pub key: Option<Key>,
    /// The model's id as the server knows it.
    pub model: String,
    /// What is known about the model.
    pub info: ModelInfo,
}

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI itself, over its Responses wire.
    OpenAi,
    /// Anthropic.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// OpenRouter.
    OpenRouter,
    /// Groq.
    Groq,
    /// DeepSeek.
    DeepSeek,
    /// Mistral.
    Mistral,
    /// An Ollama daemon, over its own wire: only that one lets us ask for a context window.
    Ollama,
    /// LM Studio's server.
    LmStudio,
    /// llama.cpp's `llama-server`.
    LlamaServer,
    /// vLLM.
    Vllm,
    /// Any other server that speaks OpenAI's chat completions.
    OpenAiCompatible,
}

/// A key and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key itself.
    pub secret: Secret,
    /// The environment variable it was taken from, named in errors.
    pub variable: Option<String>,
}

/// Text that must not be shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` with every occurrence of the secret blotted out: servers like to quote keys back.
    pub fn redact(&self, text: &str) -> String {
        // A very short key is no secret, and blotting it out would garble ordinary words.
        if self.0.len() < 6 {
            return text.to_owned();
        }
        text.replace(&self.0, "***")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_itself_nowhere() {
        let key = Key {
            secret: Secret::new("sk-hunter2"),
            variable: Some("OPENAI_API_KEY".to_owned()),
        };

        assert_eq!(
            format!("{key:?}"),
            r#"Key { secret: Secret(***), variable: Some("OPENAI_API_KEY") }"#
        );
        assert_eq!(
            key.secret.redact("Incorrect API key provided: sk-hunter2."),
            "Incorrect API key provided: ***."
        );
        assert_eq!(Secret::new("x").redact("xylophone"), "xylophone");
    }
}
