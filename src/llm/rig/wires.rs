//! Which wire an endpoint speaks, and the library's model for it.

use rig_core::DynModel;
use rig_core::http_client::HttpClientExt;
use rig_core::operation::Completion;
use rig_core::providers::anthropic::AnthropicConfig;
use rig_core::providers::gemini::GeminiConfig;
use rig_core::providers::ollama::OllamaConfig;
use rig_core::providers::openai::OpenAIConfig;
use rig_core::providers::openai::wire::{
    self as openai, Auth, BodyRewrite, Dialect, OutputCap, Quirks, Routing,
};

use super::super::endpoint::{Endpoint, ProviderKind, Secret};
use super::super::providers::is_claude;

/// Reply limit for Anthropic models unknown to the library: the wire requires one.
const ANTHROPIC_MAX_TOKENS: u64 = 8_192;

/// The wire format of an endpoint, as far as requests differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wire {
    /// OpenAI chat completions.
    Chat {
        /// Whether the server is known to accept `parallel_tool_calls`; some servers refuse unknown fields.
        serial_calls: bool,
    },
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini `generateContent`.
    Gemini,
    /// Ollama's own `/api/chat`.
    Ollama,
}

impl Wire {
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        match endpoint.kind {
            // Its newer models support tools only there.
            ProviderKind::OpenAi | ProviderKind::OpenAiResponses => Self::Responses,
            ProviderKind::Bedrock if is_claude(&endpoint.model) => Self::Anthropic,
            ProviderKind::OpenAiChat
            | ProviderKind::Azure
            | ProviderKind::OpenRouter
            | ProviderKind::Groq
            | ProviderKind::Mistral
            | ProviderKind::LlamaServer
            | ProviderKind::Vllm => Self::Chat { serial_calls: true },
            ProviderKind::Bedrock
            | ProviderKind::DeepSeek
            | ProviderKind::LmStudio
            | ProviderKind::OpenAiCompatible => Self::Chat {
                serial_calls: false,
            },
            ProviderKind::Anthropic => Self::Anthropic,
            ProviderKind::Gemini => Self::Gemini,
            ProviderKind::Ollama => Self::Ollama,
        }
    }
}

pub(super) fn model(
    endpoint: &Endpoint,
    wire: Wire,
    http: impl HttpClientExt + 'static,
) -> DynModel<Completion> {
    let key = endpoint.key.as_ref().map(|key| &key.secret);
    let key = key.map_or("", Secret::expose);
    let base_url = endpoint.base_url.as_str();
    let model = endpoint.model.as_str();
    match wire {
        Wire::Chat { .. } => {
            let mut config =
                OpenAIConfig::with_key(&dialect(endpoint), key).with_base_url(base_url);
            if let Some(version) = &endpoint.api_version {
                config = config.with_api_version(version);
            }
            config.connect(http).chat(model).erase()
        }
        Wire::Responses => OpenAIConfig::new(key)
            .with_auth(Auth::OptionalBearer)
            .with_base_url(base_url)
            .connect(http)
            .responses(model)
            .erase(),
        Wire::Anthropic => {
            let mut model = AnthropicConfig::new(key)
                .with_base_url(base_url)
                .connect(http)
                .completion(model);
            if model.wire.default_max_tokens.is_none() {
                model.wire = model.wire.with_default_max_tokens(ANTHROPIC_MAX_TOKENS);
            }
            model.erase()
        }
        Wire::Gemini => GeminiConfig::new(key)
            .with_base_url(base_url)
            .connect(http)
            .completion(model)
            .erase(),
        Wire::Ollama => {
            let mut config = OllamaConfig::new().with_base_url(base_url);
            if !key.is_empty() {
                config = config.with_api_key(key);
            }
            config.connect(http).native_completion(model).erase()
        }
    }
}

/// The library's dialect for a server on the chat wire.
fn dialect(endpoint: &Endpoint) -> Dialect {
    match endpoint.kind {
        ProviderKind::OpenAiChat => openai::OPENAI,
        ProviderKind::Azure => azure(&endpoint.base_url),
        ProviderKind::OpenRouter => openai::OPENROUTER,
        ProviderKind::Groq => openai::GROQ,
        ProviderKind::DeepSeek => openai::DEEPSEEK,
        ProviderKind::Mistral => openai::MISTRAL,
        ProviderKind::OpenAiCompatible
        | ProviderKind::LmStudio
        | ProviderKind::LlamaServer
        | ProviderKind::Vllm
        | ProviderKind::Bedrock
        // The last five do not use this wire; listed so that a new kind must be considered.
        | ProviderKind::OpenAi
        | ProviderKind::OpenAiResponses
        | ProviderKind::Anthropic
        | ProviderKind::Gemini
        | ProviderKind::Ollama => compatible(),
    }
}

/// Azure by deployment; its newer address, which ends in `/openai/v1`, has the model in the body like other servers.
fn azure(base_url: &str) -> Dialect {
    let mut dialect = openai::AZURE;
    dialect.quirks.output_cap = OutputCap::OpenAiReasoningFamilies;
    if base_url.ends_with("/openai/v1") {
        dialect.quirks.routing = Routing::Path;
    }
    dialect
}

/// The plainest chat completions: text-only content goes as one string, because some servers and chat templates do not
/// support arrays; without a key, no `Authorization` header.
fn compatible() -> Dialect {
    let mut quirks = Quirks::openai();
    quirks.auth = Auth::OptionalBearer;
    quirks.rewrite = BodyRewrite::Perplexity;
    Dialect::gateway("openai-compatible", "", "").with_quirks(quirks)
}
