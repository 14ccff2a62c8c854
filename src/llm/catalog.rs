//! From a model's name to where it is served: `provider/model`, a bare name, `local/NAME`.
//!
//! Pure: the environment is a function passed in. Not here: finding running servers ([`super::detect`]), and the models
//! that Sponde runs itself, which are only named ([`Resolved::Local`]).

use super::endpoint::{Endpoint, ProviderKind};
use super::providers::{PROVIDERS, Provider, ProviderChoice, set};
pub use super::setup::{CatalogError, Environment, Setup};

/// What a name resolves to.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// A model on a server.
    Served(Box<Endpoint>),
    /// A model Sponde runs itself, by the name after `local/`.
    Local(String),
}

/// Resolves `name`. `base_url`, if given, overrides the environment's.
pub fn resolve(
    name: &str,
    base_url: Option<&str>,
    setup: Setup<'_>,
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
    let (place, model) = split(name, base_url, setup)?;
    if model.is_empty() {
        return Err(CatalogError::NoModel {
            name: name.to_owned(),
        });
    }
    let base_url = place.base_url(base_url, setup.environment)?;
    let endpoint = place.endpoint(&model, &base_url, setup.environment);
    if endpoint.key.is_none() && endpoint.key_command.is_none() && place.needs_key(&base_url) {
        return Err(no_key(&place));
    }
    Ok(Resolved::Served(Box::new(endpoint)))
}

pub(super) fn no_key(place: &ProviderChoice<'_>) -> CatalogError {
    CatalogError::NoKey {
        provider: place.name.clone(),
        variables: place
            .key_variables()
            .into_iter()
            .map(str::to_owned)
            .collect(),
    }
}

/// The provider that a name refers to, and the model's name there.
fn split<'a>(
    name: &str,
    base_url: Option<&str>,
    setup: Setup<'a>,
) -> Result<(ProviderChoice<'a>, String), CatalogError> {
    if let Some((prefix, model)) = name.split_once('/')
        && let Some(place) = ProviderChoice::named(prefix, setup)?
    {
        return Ok((place, model.to_owned()));
    }
    // `openai` alone means the provider's default model, if it has one.
    if let Some(place) = ProviderChoice::named(name, setup)? {
        let model = place.usual_model().unwrap_or_default().to_owned();
        return Ok((place, model));
    }
    let of = |kind| ProviderChoice::of(Provider::of(kind), setup);
    if base_url.is_some() || set(setup.environment, "OPENAI_BASE_URL").is_some() {
        return Ok((of(ProviderKind::OpenAiCompatible), name.to_owned()));
    }
    let makers = [
        ("gpt-", ProviderKind::OpenAi),
        ("claude-", ProviderKind::Anthropic),
        ("gemini-", ProviderKind::Gemini),
    ];
    makers
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map(|(_, kind)| (of(*kind), name.to_owned()))
        .ok_or_else(|| {
            let known = PROVIDERS.iter().map(|provider| provider.name);
            let own = setup.providers.keys().map(String::as_str);
            let prefix = name.split_once('/').map_or(name, |(prefix, _)| prefix);
            CatalogError::NoProvider {
                name: name.to_owned(),
                near: near(prefix, known.chain(own)),
            }
        })
}

/// Those of `names` that are similar to `name`, the most similar first; at most five.
pub(super) fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    /// Minimum similarity of two names.
    const ALIKE: f64 = 0.8;
    const MOST: usize = 5;
    let name = name.to_ascii_lowercase();
    let mut alike: Vec<(f64, &str)> = names
        .map(|known| {
            (
                strsim::jaro_winkler(&name, &known.to_ascii_lowercase()),
                known,
            )
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alike.truncate(MOST);
    alike
        .into_iter()
        .map(|(_, known)| known.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::endpoint::Key;
    use crate::llm::providers::{AllSettings, KeyCommand};

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

    /// Kind, base URL, key's variable, model id at the server, full name.
    fn summary(resolved: Resolved) -> String {
        let Resolved::Served(endpoint) = resolved else {
            panic!("not served: {resolved:?}");
        };
        let variable = endpoint.key.as_ref().and_then(Key::variable);
        format!(
            "{:?} {} {} {} {}",
            endpoint.kind,
            endpoint.base_url,
            variable.unwrap_or("-"),
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
        ("AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/"),
        ("AZURE_OPENAI_API_KEY", "z"),
        ("AWS_BEARER_TOKEN_BEDROCK", "b"),
        ("AWS_REGION", "eu-west-1"),
    ];
    const ELSEWHERE: &[(&str, &str)] = &[
        ("OPENAI_BASE_URL", "http://127.0.0.1:4010/"),
        ("OLLAMA_HOST", "0.0.0.0"),
        ("MISTRAL_BASE_URL", "https://eu.mistral.example/v1/"),
        ("MISTRAL_API_KEY", "m"),
        ("VLLM_BASE_URL", "http://gpu:9000/v1/chat/completions"),
    ];

    fn resolved(
        name: &str,
        base_url: Option<&str>,
        variables: &'static [(&str, &str)],
        providers: &AllSettings,
    ) -> Result<Resolved, CatalogError> {
        let environment = environment(variables);
        let setup = Setup {
            environment: &environment,
            providers,
        };
        resolve(name, base_url, setup)
    }

    /// Checks pairs of a name and its expected [`summary`].
    fn check(variables: &'static [(&str, &str)], cases: &[(&str, &str)]) {
        for (name, expected) in cases {
            let resolved = resolved(name, None, variables, &AllSettings::new()).unwrap();
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
            (
                "openai-chat/gpt-4o",
                "OpenAiChat https://api.openai.com/v1 OPENAI_API_KEY gpt-4o openai-chat/gpt-4o",
            ),
            (
                "azure/my-gpt",
                "Azure https://r.openai.azure.com AZURE_OPENAI_API_KEY my-gpt azure/my-gpt",
            ),
            (
                "bedrock/eu.anthropic.claude-sonnet-5",
                "Bedrock https://bedrock-runtime.eu-west-1.amazonaws.com/anthropic AWS_BEARER_TOKEN_BEDROCK eu.anthropic.claude-sonnet-5 bedrock/eu.anthropic.claude-sonnet-5",
            ),
            (
                "bedrock/openai.gpt-oss-120b-1:0",
                "Bedrock https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1 AWS_BEARER_TOKEN_BEDROCK openai.gpt-oss-120b-1:0 bedrock/openai.gpt-oss-120b-1:0",
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
                "openai-responses/gpt-4o",
                "OpenAiResponses http://127.0.0.1:4010/v1 - gpt-4o openai-responses/gpt-4o",
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
        let resolved = resolved("llama3", given, ELSEWHERE, &AllSettings::new()).unwrap();
        assert_eq!(
            summary(resolved),
            "OpenAiCompatible https://x.example/api - llama3 openai-compatible/llama3"
        );
    }

    #[test]
    fn local_models_are_only_named() {
        assert_eq!(
            resolved("local/qwen2.5-coder-1.5b", None, &[], &AllSettings::new()),
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
            (
                "azure/x",
                "`azure` needs a base URL: `AZURE_OPENAI_ENDPOINT` is not set",
            ),
            (
                "bedrock/x",
                "`bedrock` needs a base URL: `AWS_REGION` is not set",
            ),
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
            let error = resolved(name, None, BAD, &AllSettings::new()).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }

    /// Providers as config.toml has them.
    fn providers(toml: &str) -> AllSettings {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn a_person_has_providers_of_their_own() {
        let own = providers(
            r#"
            [box]
            kind = "vllm"
            base_url = "http://box.lan:8000"
            api_key_env = "BOX_KEY"
            context-window = 32768
            vision = true
            price = { input = 0.5, output = 1.0 }
            model = "qwen3-32b"

            [work]
            kind = "openai-compatible"
            base-url = "https://work.example/v1"
            api-key-command = ["pass", "show", "work"]

            [groq]
            api_key_command = "pass show groq"
            "#,
        );
        let variables: &[_] = &[("BOX_KEY", "x"), ("OPENAI_API_KEY", "sk-o")];

        let Ok(Resolved::Served(at_box)) = resolved("box", None, variables, &own) else {
            panic!("not served");
        };
        assert_eq!(
            summary(Resolved::Served(at_box.clone())),
            "Vllm http://box.lan:8000/v1 BOX_KEY qwen3-32b box/qwen3-32b"
        );
        let info = at_box.info;
        assert_eq!(
            (info.context_window, info.vision, info.known),
            (Some(32_768), true, true)
        );
        let price = info.price.unwrap();
        assert!((price.output - 1.0).abs() < 1e-9 && (price.cached - 0.5).abs() < 1e-9);

        // Another provider's key is not sent there.
        let Ok(Resolved::Served(at_work)) = resolved("work/m", None, variables, &own) else {
            panic!("not served");
        };
        let words = ["pass", "show", "work"].map(str::to_owned).to_vec();
        assert_eq!(
            (at_work.key, at_work.key_command),
            (None, Some(KeyCommand::Words(words)))
        );

        // Settings extend a known provider, and the environment takes precedence.
        let command = KeyCommand::Shell("pass show groq".to_owned());
        let Ok(Resolved::Served(groq)) = resolved("groq/m", None, variables, &own) else {
            panic!("not served");
        };
        assert_eq!(groq.base_url, "https://api.groq.com/openai/v1");
        assert_eq!((groq.key, groq.key_command), (None, Some(command)));
        let Ok(Resolved::Served(groq)) = resolved("groq/m", None, &[("GROQ_API_KEY", "g")], &own)
        else {
            panic!("not served");
        };
        assert!(groq.key.is_some() && groq.key_command.is_none());
    }

    #[test]
    fn what_is_wrong_in_the_configuration_is_named() {
        let own = providers(
            r#"
            [kindless]
            base-url = "http://x"
            [odd]
            kind = "chatgpt"
            [nowhere]
            kind = "vllm"
            [keyless]
            kind = "openai-compatible"
            base-url = "http://x"
            api-key-env = "NO_KEY"
            [homeless]
            kind = "openai-compatible"
            "#,
        );
        let cases = [
            (
                "kindless/x",
                "`[providers.kindless]` in config.toml has no `kind`",
            ),
            (
                "odd/x",
                "`[providers.odd]` in config.toml: there is no kind `chatgpt`",
            ),
            ("keyless/x", "no key for keyless: `NO_KEY` is not set"),
            (
                "homeless/x",
                "`homeless` needs a base URL: `base-url of [providers.homeless]` is not set",
            ),
        ];
        for (name, expected) in cases {
            let error = resolved(name, None, &[], &own).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        assert!(resolved("nowhere/x", None, &[], &own).is_ok());
        let unknown: Result<AllSettings, _> = toml::from_str("[x]\napi-key = \"sk-secret\"\n");
        assert!(unknown.is_err(), "a key in the file is no setting");
    }

    #[test]
    fn names_that_look_alike_are_found() {
        let known = ["gpt-4o", "gpt-4o-mini", "o3", "claude-sonnet-5"];
        assert_eq!(near("gpt-40", known.into_iter()), ["gpt-4o", "gpt-4o-mini"]);
        assert_eq!(near("llama", known.into_iter()), [""; 0]);
        let error = resolved("antropic/x", None, &[], &AllSettings::new()).unwrap_err();
        assert!(
            matches!(&error, CatalogError::NoProvider { near, .. } if near == &["anthropic"]),
            "{error:?}"
        );
    }
}
