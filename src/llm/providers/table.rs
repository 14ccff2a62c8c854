//! The table of known providers.

use crate::llm::provider::{Provider, ProviderKind, ProviderKind as Kind};

/// Every provider, in the order in which keys are preferred.
pub const PROVIDERS: [Provider; 16] = [
    Provider {
        kind: Kind::OpenAi,
        name: "openai",
        base_url: "https://api.openai.com/v1",
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: Some("gpt-5.6-terra"),
        vendor: "openai",
    },
    Provider {
        kind: Kind::Anthropic,
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        base_url_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY"],
        needs_key: true,
        default_model: Some("claude-sonnet-5-5"),
        vendor: "anthropic",
    },
    Provider {
        kind: Kind::Gemini,
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com",
        base_url_variables: &["GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        needs_key: true,
        default_model: Some("gemini-flash-latest"),
        vendor: "gcp.gemini",
    },
    Provider {
        kind: Kind::OpenRouter,
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        needs_key: true,
        default_model: Some("~anthropic/claude-sonnet-latest"),
        vendor: "openrouter",
    },
    Provider {
        kind: Kind::Groq,
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        base_url_variables: &["GROQ_BASE_URL"],
        key_variables: &["GROQ_API_KEY"],
        needs_key: true,
        default_model: Some("openai/gpt-oss-120b"),
        vendor: "groq",
    },
    Provider {
        kind: Kind::Mistral,
        name: "mistral",
        base_url: "https://api.mistral.ai",
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        needs_key: true,
        default_model: Some("mistral-large-latest"),
        vendor: "mistral",
    },
    Provider {
        kind: Kind::DeepSeek,
        name: "deepseek",
        base_url: "https://api.deepseek.com",
        base_url_variables: &["DEEPSEEK_BASE_URL"],
        key_variables: &["DEEPSEEK_API_KEY"],
        needs_key: true,
        default_model: Some("deepseek-v4-pro"),
        vendor: "deepseek",
    },
    // A model is a deployment with a name of the owner's choice, so there is no default model.
    Provider {
        kind: Kind::Azure,
        name: "azure",
        base_url: "",
        base_url_variables: &["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_BASE_URL"],
        key_variables: &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
        needs_key: true,
        default_model: None,
        vendor: "azure.openai",
    },
    // The address contains the region.
    Provider {
        kind: Kind::Bedrock,
        name: "bedrock",
        base_url: "",
        base_url_variables: &["AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_BEDROCK_BASE_URL"],
        key_variables: &["AWS_BEARER_TOKEN_BEDROCK"],
        needs_key: true,
        default_model: None,
        vendor: "aws_bedrock",
    },
    Provider {
        kind: Kind::Ollama,
        name: "ollama",
        base_url: "http://127.0.0.1:11434",
        base_url_variables: &["OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "ollama",
    },
    Provider {
        kind: Kind::LmStudio,
        name: "lmstudio",
        base_url: "http://127.0.0.1:1234/v1",
        base_url_variables: &["LMSTUDIO_BASE_URL"],
        key_variables: &["LMSTUDIO_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    Provider {
        kind: Kind::LlamaServer,
        name: "llama-server",
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variables: &["LLAMA_SERVER_BASE_URL"],
        key_variables: &["LLAMA_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    Provider {
        kind: Kind::Vllm,
        name: "vllm",
        base_url: "http://127.0.0.1:8000/v1",
        base_url_variables: &["VLLM_BASE_URL"],
        key_variables: &["VLLM_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    // The same servers by wire, for explicit choice.
    Provider {
        kind: Kind::OpenAiResponses,
        name: "openai-responses",
        base_url: "https://api.openai.com/v1",
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: None,
        vendor: "openai",
    },
    Provider {
        kind: Kind::OpenAiChat,
        name: "openai-chat",
        base_url: "https://api.openai.com/v1",
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: None,
        vendor: "openai",
    },
    Provider {
        kind: Kind::OpenAiCompatible,
        name: "openai-compatible",
        base_url: "",
        base_url_variables: &["OPENAI_BASE_URL"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
];

impl Provider {
    /// The provider of this kind.
    pub fn of(kind: ProviderKind) -> &'static Self {
        let [.., compatible] = &PROVIDERS;
        PROVIDERS
            .iter()
            .find(|provider| provider.kind == kind)
            .unwrap_or(compatible)
    }

    /// The provider called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS
            .iter()
            .find(|provider| provider.name.eq_ignore_ascii_case(name))
    }
}
