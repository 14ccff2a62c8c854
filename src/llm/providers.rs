//! The providers there are: what they are called, where they are, which variables hold their keys.
//!
//! Pure: the environment is a function passed in. Which of them a name means is the job of
//! [`super::catalog`].

use reqwest::Url;

use super::catalog::{CatalogError, Environment};
use super::endpoint::{Key, ProviderKind, Secret};
use super::rig::models::{self, Facts};
use super::types::ModelInfo;

/// The window we ask Ollama for where `OLLAMA_CONTEXT_LENGTH` says nothing: its own default is too
/// small for a conversation with outputs, and it cuts silently.
const OLLAMA_WINDOW: u64 = 16_384;

/// Models with no more parameters than this, in units of a thousand millions, are small.
const SMALL: f64 = 4.0;

/// A provider as the catalog knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider {
    /// Who it is.
    pub kind: ProviderKind,
    /// What it is called in names.
    pub name: &'static str,
    /// Where it is unless told otherwise; empty if it could be anywhere.
    pub base_url: &'static str,
    /// The variable that tells otherwise.
    pub base_url_variable: &'static str,
    /// The variables a key may be in, the first one found counts.
    pub key_variables: &'static [&'static str],
    /// Whether it refuses everybody without a key.
    pub needs_key: bool,
    /// The model to use when only a key is known: a middling one of late 2026, that sees.
    pub default_model: Option<&'static str>,
    /// Its name in the model catalog.
    vendor: &'static str,
}

/// Every provider, in the order in which keys are preferred.
pub const PROVIDERS: [Provider; 12] = [
    Provider {
        kind: ProviderKind::OpenAi,
        name: "openai",
        base_url: "https://api.openai.com/v1",
        base_url_variable: "OPENAI_BASE_URL",
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: Some("gpt-5.6-terra"),
        vendor: "openai",
    },
    Provider {
        kind: ProviderKind::Anthropic,
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        base_url_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY"],
        needs_key: true,
        default_model: Some("claude-sonnet-5-5"),
        vendor: "anthropic",
    },
    Provider {
        kind: ProviderKind::Gemini,
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com",
        base_url_variable: "GOOGLE_GEMINI_BASE_URL",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        needs_key: true,
        default_model: Some("gemini-flash-latest"),
        vendor: "gcp.gemini",
    },
    Provider {
        kind: ProviderKind::OpenRouter,
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        base_url_variable: "OPENROUTER_BASE_URL",
        key_variables: &["OPENROUTER_API_KEY"],
        needs_key: true,
        default_model: Some("~anthropic/claude-sonnet-latest"),
        vendor: "openrouter",
    },
    Provider {
        kind: ProviderKind::Groq,
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        base_url_variable: "GROQ_BASE_URL",
        key_variables: &["GROQ_API_KEY"],
        needs_key: true,
        default_model: Some("openai/gpt-oss-120b"),
        vendor: "groq",
    },
    Provider {
        kind: ProviderKind::Mistral,
        name: "mistral",
        base_url: "https://api.mistral.ai",
        base_url_variable: "MISTRAL_BASE_URL",
        key_variables: &["MISTRAL_API_KEY"],
        needs_key: true,
        default_model: Some("mistral-large-latest"),
        vendor: "mistral",
    },
    Provider {
        kind: ProviderKind::DeepSeek,
        name: "deepseek",
        base_url: "https://api.deepseek.com",
        base_url_variable: "DEEPSEEK_BASE_URL",
        key_variables: &["DEEPSEEK_API_KEY"],
        needs_key: true,
        default_model: Some("deepseek-v4-pro"),
        vendor: "deepseek",
    },
    Provider {
        kind: ProviderKind::Ollama,
        name: "ollama",
        base_url: "http://127.0.0.1:11434",
        base_url_variable: "OLLAMA_HOST",
        key_variables: &["OLLAMA_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "ollama",
    },
    Provider {
        kind: ProviderKind::LmStudio,
        name: "lmstudio",
        base_url: "http://127.0.0.1:1234/v1",
        base_url_variable: "LMSTUDIO_BASE_URL",
        key_variables: &["LMSTUDIO_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    Provider {
        kind: ProviderKind::LlamaServer,
        name: "llama-server",
        base_url: "http://127.0.0.1:8080/v1",
        base_url_variable: "LLAMA_SERVER_BASE_URL",
        key_variables: &["LLAMA_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    Provider {
        kind: ProviderKind::Vllm,
        name: "vllm",
        base_url: "http://127.0.0.1:8000/v1",
        base_url_variable: "VLLM_BASE_URL",
        key_variables: &["VLLM_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
    Provider {
        kind: ProviderKind::OpenAiCompatible,
        name: "openai-compatible",
        base_url: "",
        base_url_variable: "OPENAI_BASE_URL",
        key_variables: &["OPENAI_API_KEY"],
        needs_key: false,
        default_model: None,
        vendor: "",
    },
];

impl Provider {
    /// The provider of this kind.
    pub fn of(kind: ProviderKind) -> &'static Self {
        let [open_ai, .., compatible] = &PROVIDERS;
        match kind {
            ProviderKind::OpenAi => open_ai,
            ProviderKind::OpenAiCompatible => compatible,
            kind => PROVIDERS
                .iter()
                .find(|provider| provider.kind == kind)
                .unwrap_or(compatible),
        }
    }

    /// The provider called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        PROVIDERS
            .iter()
            .find(|provider| provider.name.eq_ignore_ascii_case(name))
    }

    /// The key the environment has for it.
    pub fn key(&self, environment: Environment<'_>) -> Option<Key> {
        self.key_variables.iter().find_map(|variable| {
            let secret = set(environment, variable)?;
            Some(Key {
                secret: Secret::new(secret),
                variable: Some((*variable).to_owned()),
            })
        })
    }

    /// Where it is.
    pub fn base_url(
        &self,
        given: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<String, CatalogError> {
        let told = given
            .map(|url| (url.to_owned(), "the configuration".to_owned()))
            .or_else(|| {
                let url = set(environment, self.base_url_variable)?;
                Some((url, format!("`{}`", self.base_url_variable)))
            });
        match told {
            Some((url, source_name)) => {
                clean_url(self.kind, &url).map_err(|problem| CatalogError::BadBaseUrl {
                    source_name,
                    problem,
                })
            }
            None if self.base_url.is_empty() => Err(CatalogError::NoBaseUrl {
                provider: self.name,
                variable: self.base_url_variable,
            }),
            None => Ok(self.base_url.to_owned()),
        }
    }

    /// Whether `base_url` is the provider's own address, or one of a region.
    pub(super) fn is_at(&self, base_url: &str) -> bool {
        let host = |url: &str| Url::parse(url).ok()?.host_str().map(str::to_owned);
        match (host(base_url), host(self.base_url)) {
            (Some(there), Some(home)) => there == home || there.ends_with(&format!(".{home}")),
            _ => false,
        }
    }

    /// What is known of one of its models.
    pub(super) fn info(&self, model: &str, environment: Environment<'_>) -> ModelInfo {
        let known = models::facts(self.vendor, model);
        let window = known.and_then(|Facts { context_window, .. }| context_window);
        ModelInfo {
            name: format!("{}/{model}", self.name),
            context_window: match self.kind {
                ProviderKind::Ollama => Some(ollama_window(window, environment)),
                _ => window,
            },
            // An image that cannot be read fails the request; one that is not sent only costs.
            vision: known.is_some_and(|Facts { vision, .. }| vision),
            small: parameters(model).is_some_and(|size| size <= SMALL),
        }
    }
}

/// A variable that is set to something.
pub(super) fn set(environment: Environment<'_>, variable: &str) -> Option<String> {
    environment(variable)
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

/// The base URL in the form the wire expects, or what is wrong with it.
fn clean_url(kind: ProviderKind, text: &str) -> Result<String, String> {
    let text = match kind {
        ProviderKind::Ollama => ollama_host(text),
        _ => text.to_owned(),
    };
    let url = Url::parse(&text).map_err(|error| format!("cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("is not an `http` or `https` address".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("holds a user name or password, which would end up in messages".to_owned());
    }
    let mut clean = url.as_str().trim_end_matches('/').to_owned();
    let path = url.path().trim_end_matches('/');
    match kind {
        // The library puts the version in itself for these.
        ProviderKind::Anthropic | ProviderKind::Gemini | ProviderKind::Ollama => {}
        ProviderKind::Mistral => {
            clean.truncate(clean.trim_end_matches("/v1").len());
        }
        // The address of a server rather than of its API.
        _ if path.is_empty() => clean.push_str("/v1"),
        _ => clean.truncate(clean.trim_end_matches("/chat/completions").len()),
    }
    Ok(clean)
}

/// `OLLAMA_HOST` as Ollama reads it: scheme and port may be missing, and the address to listen on
/// everywhere is one to reach here.
fn ollama_host(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let rest = rest.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, port),
        _ if scheme == "https" => (rest, "443"),
        _ => (rest, "11434"),
    };
    let host = match host {
        "" | "0.0.0.0" | "[::]" => "127.0.0.1",
        host => host,
    };
    format!("{scheme}://{host}:{port}")
}

fn ollama_window(known: Option<u64>, environment: Environment<'_>) -> u64 {
    set(environment, "OLLAMA_CONTEXT_LENGTH")
        .and_then(|length| length.parse().ok())
        .unwrap_or_else(|| known.unwrap_or(OLLAMA_WINDOW).min(OLLAMA_WINDOW))
}

/// How many parameters a model's name says it has, in units of a thousand millions: the last part
/// like `1.5b` or `135m`.
fn parameters(model: &str) -> Option<f64> {
    model
        .to_ascii_lowercase()
        .split(['-', '_', ':', '/', ' '])
        .filter_map(|part| {
            let part = part.strip_suffix(".gguf").unwrap_or(part);
            let (number, unit) = part.split_at_checked(part.len().checked_sub(1)?)?;
            let number: f64 = number.parse().ok()?;
            match unit {
                "b" => Some(number),
                "m" => Some(number / 1000.0),
                _ => None,
            }
        })
        .next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_known_by_their_addresses() {
        let open_ai = Provider::of(ProviderKind::OpenAi);
        assert!(open_ai.is_at("https://api.openai.com/v1"));
        assert!(open_ai.is_at("https://eu.api.openai.com/v1"));
        assert!(!open_ai.is_at("https://api.openai.com.example/v1"));
        assert!(!open_ai.is_at("http://127.0.0.1:4010/v1"));
    }

    #[test]
    fn ollama_host_is_read_as_ollama_reads_it() {
        let cases = [
            ("127.0.0.1", "http://127.0.0.1:11434"),
            ("0.0.0.0:8000", "http://127.0.0.1:8000"),
            (":8000", "http://127.0.0.1:8000"),
            ("box.lan", "http://box.lan:11434"),
            ("https://box.lan/", "https://box.lan:443"),
            ("http://[::1]:11434", "http://[::1]:11434"),
        ];
        for (host, expected) in cases {
            assert_eq!(ollama_host(host), expected, "{host}");
        }
    }

    #[test]
    fn sizes_are_read_off_names() {
        let cases = [
            ("qwen2.5-coder-1.5b", Some(1.5)),
            ("qwen2.5-coder:1.5b-instruct-q4_K_M", Some(1.5)),
            ("SmolLM2-135M-Instruct", Some(0.135)),
            ("openai/gpt-oss-120b", Some(120.0)),
            ("Llama-3-8B.gguf", Some(8.0)),
            ("gemma-4-26b-a4b-it", Some(26.0)),
            ("gpt-5.6", None),
            ("llama3.2", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(parameters(name), expected, "{name}");
        }
    }

    #[test]
    fn default_models_exist_and_see() {
        for provider in PROVIDERS {
            let Some(model) = provider.default_model else {
                continue;
            };
            let known = models::facts(provider.vendor, model);
            assert!(known.is_some(), "{model} is not in the catalog");
        }
        assert_eq!(
            models::facts("openai", "gpt-5.6-terra"),
            Some(Facts {
                context_window: Some(1_050_000),
                vision: true
            })
        );
        // Hosted somewhere unknown under its maker's name.
        assert!(models::facts("", "proxy/claude-sonnet-5-5").is_some_and(|facts| facts.vision));
        assert_eq!(models::facts("", "local"), None);
    }
}
