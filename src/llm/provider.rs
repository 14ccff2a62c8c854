//! The kinds of model servers, and what is known about each.

/// A provider as the catalog knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Which kind of provider it is.
    pub kind: ProviderKind,
    /// Its name, as used in model names.
    pub name: &'static str,
    /// Its default address; empty if it has none.
    pub base_url: &'static str,
    /// Variables that override the address; the first one set counts.
    pub base_url_variables: &'static [&'static str],
    /// Variables that may hold a key; the first one set counts.
    pub key_variables: &'static [&'static str],
    /// Whether every request needs a key.
    pub needs_key: bool,
    /// The model to use when only a key is known: a mid-range one of late 2026, with vision.
    pub default_model: Option<&'static str>,
    /// Its name in the model catalog.
    pub(super) vendor: &'static str,
}

/// The kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI itself, over its Responses wire.
    OpenAi,
    /// Any server with OpenAI's Responses API.
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
    /// An Ollama daemon, over its own wire: only that lets us set the context window.
    Ollama,
    /// LM Studio's server.
    LmStudio,
    /// llama.cpp's `llama-server`.
    LlamaServer,
    /// vLLM.
    Vllm,
    /// Any other server with OpenAI's chat completions API.
    OpenAiCompatible,
}

impl ProviderKind {
    /// Whether people run it on their own machines.
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
