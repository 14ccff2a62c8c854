//! Who serves models: the kinds of servers, and what is known about each.

/// A provider as the catalog knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Who it is.
    pub kind: ProviderKind,
    /// What it is called in names.
    pub name: &'static str,
    /// Where it is unless told otherwise; empty if it could be anywhere.
    pub base_url: &'static str,
    /// The variables that tell otherwise, the first one found counts.
    pub base_url_variables: &'static [&'static str],
    /// The variables a key may be in, the first one found counts.
    pub key_variables: &'static [&'static str],
    /// Whether it refuses everybody without a key.
    pub needs_key: bool,
    /// The model to use when only a key is known: a middling one of late 2026, that sees.
    pub default_model: Option<&'static str>,
    /// Its name in the model catalog.
    pub(super) vendor: &'static str,
}

/// Who serves a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI itself, over its Responses wire.
    OpenAi,
    /// Any server that speaks OpenAI's Responses.
    OpenAiResponses,
    /// OpenAI itself, over chat completions.
    OpenAiChat,
    /// Azure OpenAI: the model is a deployment.
    Azure,
    /// Amazon Bedrock, over the wires of Anthropic and OpenAI that it offers.
    Bedrock,
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

impl ProviderKind {
    /// Whether it is a program that people run themselves.
    pub fn runs_at_home(self) -> bool {
        match self {
            Self::Ollama
            | Self::LmStudio
            | Self::LlamaServer
            | Self::Vllm
            | Self::OpenAiCompatible
            | Self::OpenAiResponses => true,
            Self::OpenAi
            | Self::OpenAiChat
            | Self::Azure
            | Self::Bedrock
            | Self::Anthropic
            | Self::Gemini
            | Self::OpenRouter
            | Self::Groq
            | Self::DeepSeek
            | Self::Mistral => false,
        }
    }
}
