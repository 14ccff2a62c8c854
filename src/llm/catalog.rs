//! From a model's name to where it is served: `provider/model`, a bare name, `local/NAME`.
//!
//! Pure: the environment is a function passed in. Deliberately not here: looking for what is
//! running ([`super::detect`]), and the models Sponde runs itself, which are only named
//! ([`Resolved::Local`]).

use super::endpoint::{Endpoint, ProviderKind};
use super::providers::{Provider, set};

/// Looks up an environment variable.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// What a name stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// A model behind a server.
    Served(Endpoint),
    /// A model Sponde runs itself, by the name after `local/`.
    Local(String),
}

/// Finds out what `name` stands for. `base_url`, if given, goes before the environment's.
pub fn resolve(
    name: &str,
    base_url: Option<&str>,
    environment: Environment<'_>,
) -> Result<Resolved, CatalogError> {
    let name = name.trim();
    if let Some(local) = name.strip_prefix("local/") {
        return match local {
            "" => Err(CatalogError::NoModel {
                name: name.to_owned(),
            }),
            local => Ok(Resolved::Local(local.to_owned())),
        };
    }
    let (provider, model) = split(name, base_url, environment)?;
    if model.is_empty() {
        return Err(CatalogError::NoModel {
            name: name.to_owned(),
        });
    }
    let base_url = provider.base_url(base_url, environment)?;
    let key = provider.key(environment);
    let at_home = provider.is_at(&base_url);
    if key.is_none() && provider.needs_key && at_home {
        return Err(CatalogError::NoKey {
            provider: provider.name,
            variables: provider.key_variables,
        });
    }
    let kind = match provider.kind {
        // What stands in for OpenAI resembles it, but mostly knows its older wire only.
        ProviderKind::OpenAi if !at_home => ProviderKind::OpenAiCompatible,
        kind => kind,
    };
    Ok(Resolved::Served(Endpoint {
        kind,
        info: provider.info(model, environment),
        model: model.to_owned(),
        base_url,
        key,
    }))
}

/// The endpoint of a model found on a server ([`super::detect`]).
pub fn served(
    kind: ProviderKind,
    base_url: &str,
    model: &str,
    environment: Environment<'_>,
) -> Endpoint {
    let provider = Provider::of(kind);
    Endpoint {
        kind,
        base_url: base_url.to_owned(),
        key: provider.key(environment),
        model: model.to_owned(),
        info: provider.info(model, environment),
    }
}

/// Why a name stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Neither a provider's name nor a model we know the maker of.
    #[error("model `{name}` names no provider")]
    NoProvider {
        /// The name as given.
        name: String,
    },
    /// A provider without a model.
    #[error("`{name}` names no model")]
    NoModel {
        /// The name as given.
        name: String,
    },
    /// The provider wants a key and the environment has none.
    #[error("no key for {provider}: `{}` is not set", .variables.join("` or `"))]
    NoKey {
        /// The provider's name.
        provider: &'static str,
        /// The variables looked at.
        variables: &'static [&'static str],
    },
    /// An OpenAI-compatible server without an address.
    #[error("`{provider}` needs a base URL: `{variable}` is not set")]
    NoBaseUrl {
        /// The provider's name.
        provider: &'static str,
        /// The variable looked at.
        variable: &'static str,
    },
    /// A base URL that is none. The URL itself is not repeated: it may hold a password.
    #[error("the base URL from {source_name} {problem}")]
    BadBaseUrl {
        /// A variable's name, or `the configuration`.
        source_name: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The provider a name stands for, and the model's name there.
fn split<'a>(
    name: &'a str,
    base_url: Option<&str>,
    environment: Environment<'_>,
) -> Result<(&'static Provider, &'a str), CatalogError> {
    if let Some((prefix, model)) = name.split_once('/')
        && let Some(provider) = Provider::named(prefix)
    {
        return Ok((provider, model));
    }
    // `openai` alone: the provider's usual model, if it has one.
    if let Some(provider) = Provider::named(name) {
        return Ok((provider, provider.default_model.unwrap_or_default()));
    }
    if base_url.is_some() || set(environment, "OPENAI_BASE_URL").is_some() {
        return Ok((Provider::of(ProviderKind::OpenAiCompatible), name));
    }
    let makers = [
        ("gpt-", ProviderKind::OpenAi),
        ("claude-", ProviderKind::Anthropic),
        ("gemini-", ProviderKind::Gemini),
    ];
    makers
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, kind)| (Provider::of(*kind), name))
        .ok_or_else(|| CatalogError::NoProvider {
            name: name.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(
        pairs: &'static [(&'static str, &'static str)],
    ) -> impl Fn(&str) -> Option<String> + Send + Sync {
        move |name| {
            pairs
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| (*value).to_owned())
        }
    }

    /// Kind, base URL, key's variable, model at the server, full name.
    fn summary(resolved: Resolved) -> String {
        let Resolved::Served(endpoint) = resolved else {
            panic!("not served: {resolved:?}");
        };
        let variable = endpoint.key.and_then(|key| key.variable);
        format!(
            "{:?} {} {} {} {}",
            endpoint.kind,
            endpoint.base_url,
            variable.as_deref().unwrap_or("-"),
            endpoint.model,
            endpoint.info.name
        )
    }

    const KEYS: &[(&str, &str)] = &[
        ("OPENAI_API_KEY", "sk-o"),
        ("ANTHROPIC_API_KEY", "sk-a"),
        ("GOOGLE_API_KEY", "g"),
        ("OPENROUTER_API_KEY", "r"),
        ("MISTRAL_API_KEY", "m"),
    ];
    const ELSEWHERE: &[(&str, &str)] = &[
        ("OPENAI_BASE_URL", "http://127.0.0.1:4010/"),
        ("OLLAMA_HOST", "0.0.0.0"),
        ("MISTRAL_BASE_URL", "https://eu.mistral.example/v1/"),
        ("MISTRAL_API_KEY", "m"),
        ("VLLM_BASE_URL", "http://gpu:9000/v1/chat/completions"),
    ];

    /// Pairs of a name and what [`summary`] says of it.
    fn check(variables: &'static [(&str, &str)], cases: &[(&str, &str)]) {
        for (name, expected) in cases {
            let resolved = resolve(name, None, &environment(variables)).unwrap();
            assert_eq!(&summary(resolved), expected, "{name}");
        }
    }

    #[test]
    fn names_resolve() {
        let cases = [
            (
                "openai/gpt-5.6",
                "OpenAi https://api.openai.com/v1 OPENAI_API_KEY gpt-5.6 openai/gpt-5.6",
            ),
            (
                "OpenAI/gpt-5.6",
                "OpenAi https://api.openai.com/v1 OPENAI_API_KEY gpt-5.6 openai/gpt-5.6",
            ),
            (
                "gpt-5.6",
                "OpenAi https://api.openai.com/v1 OPENAI_API_KEY gpt-5.6 openai/gpt-5.6",
            ),
            (
                "anthropic",
                "Anthropic https://api.anthropic.com ANTHROPIC_API_KEY claude-sonnet-5-5 anthropic/claude-sonnet-5-5",
            ),
            (
                "gemini/x",
                "Gemini https://generativelanguage.googleapis.com GOOGLE_API_KEY x gemini/x",
            ),
            (
                "openrouter/qwen/qwen3",
                "OpenRouter https://openrouter.ai/api/v1 OPENROUTER_API_KEY qwen/qwen3 openrouter/qwen/qwen3",
            ),
            (
                "llama-server/x",
                "LlamaServer http://127.0.0.1:8080/v1 - x llama-server/x",
            ),
        ];
        check(KEYS, &cases);
    }

    #[test]
    fn base_urls_come_from_the_environment() {
        let cases = [
            (
                "qwen/qwen3",
                "OpenAiCompatible http://127.0.0.1:4010/v1 - qwen/qwen3 openai-compatible/qwen/qwen3",
            ),
            (
                "openai/gpt-4o",
                "OpenAiCompatible http://127.0.0.1:4010/v1 - gpt-4o openai/gpt-4o",
            ),
            (
                "gpt-4o",
                "OpenAiCompatible http://127.0.0.1:4010/v1 - gpt-4o openai-compatible/gpt-4o",
            ),
            (
                "ollama/qwen3:4b",
                "Ollama http://127.0.0.1:11434 - qwen3:4b ollama/qwen3:4b",
            ),
            (
                "mistral/x",
                "Mistral https://eu.mistral.example MISTRAL_API_KEY x mistral/x",
            ),
            ("vllm/x", "Vllm http://gpu:9000/v1 - x vllm/x"),
        ];
        check(ELSEWHERE, &cases);
    }

    #[test]
    fn a_given_base_url_goes_before_the_environment() {
        let given = Some("https://x.example/api");
        let resolved = resolve("llama3", given, &environment(ELSEWHERE)).unwrap();
        assert_eq!(
            summary(resolved),
            "OpenAiCompatible https://x.example/api - llama3 openai-compatible/llama3"
        );
    }

    #[test]
    fn local_models_are_only_named() {
        assert_eq!(
            resolve("local/qwen2.5-coder-1.5b", None, &environment(&[])),
            Ok(Resolved::Local("qwen2.5-coder-1.5b".to_owned()))
        );
    }

    #[test]
    fn what_does_not_resolve_says_why() {
        const BAD: &[(&str, &str)] = &[
            ("GROQ_BASE_URL", "https://me:secret@x.example/v1"),
            ("VLLM_BASE_URL", "gpu:9000"),
            ("LMSTUDIO_BASE_URL", "somewhere"),
        ];
        let cases = [
            ("llama3", "model `llama3` names no provider"),
            ("", "model `` names no provider"),
            ("local/", "`local/` names no model"),
            ("ollama", "`ollama` names no model"),
            ("gpt-5.6", "no key for openai: `OPENAI_API_KEY` is not set"),
            (
                "gemini/x",
                "no key for gemini: `GEMINI_API_KEY` or `GOOGLE_API_KEY` is not set",
            ),
            (
                "openai-compatible/x",
                "`openai-compatible` needs a base URL: `OPENAI_BASE_URL` is not set",
            ),
            (
                "vllm/x",
                "the base URL from `VLLM_BASE_URL` is not an `http` or `https` address",
            ),
            (
                "lmstudio/x",
                "the base URL from `LMSTUDIO_BASE_URL` cannot be read: relative URL without a base",
            ),
            (
                "groq/x",
                "the base URL from `GROQ_BASE_URL` holds a user name or password, which would end up in messages",
            ),
        ];
        for (name, expected) in cases {
            let error = resolve(name, None, &environment(BAD)).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
