//! The available providers: names, addresses and key variables, with the person's overrides from `config.toml`.
//!
//! Pure: the environment is a function passed in. [`super::catalog`] decides which provider a name means,
//! [`super::key_command`] runs a command that prints a key.
//!
//! Invariant: a key is only sent to its own provider. A server that a person configured gets the key configured for it
//! and no other; a known provider's variables are for that provider.

mod address;
mod settings;
mod table;

use std::time::Duration;

use super::endpoint::{Endpoint, Key, KeySource, ProviderKind, Secret};
pub use super::provider::Provider;
use super::rig::models;
use super::setup::{CatalogError, Environment, Setup};
use super::types::{ModelInfo, Price};

pub(super) use address::is_claude;
pub use settings::{AllSettings, KeyCommand, PriceSettings, Settings};
pub use table::PROVIDERS;

/// The context window for Ollama if `OLLAMA_CONTEXT_LENGTH` is not set: its own default is too small for a conversation
/// with outputs, and it truncates silently.
const OLLAMA_WINDOW: u64 = 16_384;

/// Models with at most this many billion parameters are small.
const SMALL: f64 = 4.0;

/// Azure's default `api-version`: the latest non-preview one for deployment routes.
const AZURE_API_VERSION: &str = "2024-10-21";

/// A provider together with the person's settings for it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderChoice<'a> {
    /// Its name, as used in model names.
    pub name: String,
    /// What is known about servers of its kind.
    pub provider: &'static Provider,
    settings: Option<&'a Settings>,
    /// Whether it is the person's own rather than from the table.
    own: bool,
}

impl<'a> ProviderChoice<'a> {
    /// The provider called `name`; `None` if there is none.
    pub fn named(name: &str, setup: Setup<'a>) -> Result<Option<Self>, CatalogError> {
        let Some((name, settings)) = setup.providers.get_key_value(name) else {
            return Ok(Provider::named(name).map(|provider| Self::of(provider, setup)));
        };
        let known = Provider::named(name);
        let provider = match (&settings.kind, known) {
            (Some(kind), _) => Provider::named(kind).ok_or_else(|| CatalogError::BadKind {
                provider: name.clone(),
                kind: kind.clone(),
            })?,
            (None, Some(known)) => known,
            (None, None) => {
                return Err(CatalogError::NoKind {
                    provider: name.clone(),
                });
            }
        };
        Ok(Some(Self {
            name: name.clone(),
            provider,
            settings: Some(settings),
            own: known.is_none(),
        }))
    }

    /// A provider of the table.
    pub fn of(provider: &'static Provider, setup: Setup<'a>) -> Self {
        let settings = setup.providers.get(provider.name);
        let kind = settings.and_then(|settings| Provider::named(settings.kind.as_deref()?));
        Self {
            name: provider.name.to_owned(),
            provider: kind.unwrap_or(provider),
            settings,
            own: false,
        }
    }

    /// All providers: the table's and the person's own.
    pub fn all(setup: Setup<'a>) -> Vec<Result<Self, CatalogError>> {
        let own = setup
            .providers
            .keys()
            .filter(|name| Provider::named(name).is_none());
        let own = own.filter_map(|name| Self::named(name, setup).transpose());
        let table = PROVIDERS.iter().map(|row| Ok(Self::of(row, setup)));
        own.chain(table).collect()
    }

    /// The model that the provider's name alone means.
    pub fn usual_model(&self) -> Option<&str> {
        let told = self.settings.and_then(|settings| settings.model.as_deref());
        told.or(self.provider.default_model.filter(|_| !self.own))
    }

    /// Its key from the environment.
    pub fn key(&self, environment: Environment<'_>) -> Option<Key> {
        self.key_variables().into_iter().find_map(|variable| {
            Some(Key {
                secret: Secret::new(set(environment, variable)?),
                source: KeySource::Variable(variable.to_owned()),
            })
        })
    }

    /// The command that prints its key.
    pub fn key_command(&self) -> Option<&'a KeyCommand> {
        self.settings?.api_key_command.as_ref()
    }

    /// The variables that may hold its key.
    pub fn key_variables(&self) -> Vec<&str> {
        match self
            .settings
            .and_then(|settings| settings.api_key_env.as_deref())
        {
            Some(variable) => vec![variable],
            None if self.own => Vec::new(),
            None => self.provider.key_variables.to_vec(),
        }
    }

    /// Its address. `given` takes precedence.
    pub fn base_url(
        &self,
        given: Option<&str>,
        environment: Environment<'_>,
    ) -> Result<String, CatalogError> {
        let setting = || self.settings?.base_url.clone();
        let told = given
            .map(|url| (url.to_owned(), "the configuration".to_owned()))
            .or_else(|| {
                let (variable, url) =
                    self.variable(self.provider.base_url_variables, environment)?;
                Some((url, format!("`{variable}`")))
            })
            .or_else(|| {
                Some((
                    setting()?,
                    format!("`base-url` of `[providers.{}]`", self.name),
                ))
            });
        if let Some((url, source_name)) = told {
            return address::clean(self.provider.kind, &url).map_err(|problem| {
                CatalogError::BadBaseUrl {
                    source_name,
                    problem,
                }
            });
        }
        if self.provider.kind == ProviderKind::Bedrock {
            let (_, region) = self
                .variable(&["AWS_REGION", "AWS_DEFAULT_REGION"], environment)
                .ok_or_else(|| self.no_base_url("AWS_REGION"))?;
            return Ok(format!("https://bedrock-runtime.{region}.amazonaws.com"));
        }
        match self.provider.base_url {
            "" => {
                let variable = self.provider.base_url_variables.first();
                Err(self.no_base_url(variable.copied().unwrap_or_default()))
            }
            url => Ok(url.to_owned()),
        }
    }

    /// An endpoint for one of its models; `base_url` comes from [`Self::base_url`].
    pub fn endpoint(&self, model: &str, base_url: &str, environment: Environment<'_>) -> Endpoint {
        let home = address::is_at(base_url, self.provider.base_url);
        let kind = match self.provider.kind {
            // Servers that imitate OpenAI mostly support only its older wire.
            ProviderKind::OpenAi | ProviderKind::OpenAiChat if !home => {
                ProviderKind::OpenAiCompatible
            }
            kind => kind,
        };
        let key = self.key(environment);
        Endpoint {
            kind,
            provider: self.name.clone(),
            base_url: match kind {
                ProviderKind::Bedrock => address::bedrock(base_url, model),
                _ => base_url.to_owned(),
            },
            key_command: self.key_command().filter(|_| key.is_none()).cloned(),
            key,
            model: model.to_owned(),
            api_version: (kind == ProviderKind::Azure).then(|| self.api_version(environment)),
            idle_timeout: self
                .settings
                .and_then(|settings| settings.idle_timeout.map(Duration::from_secs)),
            info: self.info(model, base_url, environment),
        }
    }

    /// Whether every request to that address needs a key.
    pub(super) fn needs_key(&self, base_url: &str) -> bool {
        let home = self.provider.base_url;
        let named = self.settings.is_some_and(|it| it.api_key_env.is_some());
        named || (self.provider.needs_key && (home.is_empty() || address::is_at(base_url, home)))
    }

    /// What is known of one of its models.
    fn info(&self, model: &str, base_url: &str, environment: Environment<'_>) -> ModelInfo {
        let known = models::facts(self.provider.vendor, model);
        let window = known.and_then(|facts| facts.context_window);
        let here = reqwest::Url::parse(base_url).is_ok_and(|url| super::http::is_loopback(&url));
        let mut info = ModelInfo {
            name: format!("{}/{model}", self.name),
            host: None,
            context_window: match self.provider.kind {
                ProviderKind::Ollama => Some(ollama_window(window, environment)),
                _ => window,
            },
            max_output: known.and_then(|facts| facts.max_output),
            // An unreadable image fails the request; an omitted one only loses information.
            vision: known.is_some_and(|facts| facts.vision),
            tools: known.map(|facts| facts.tools),
            price: known.and_then(|facts| facts.price).or_else(|| {
                let at_home = here && self.provider.kind.runs_at_home();
                at_home.then_some(Price::FREE)
            }),
            small: parameters(model).is_some_and(|size| size <= SMALL),
            known: known.is_some(),
        };
        if let Some(settings) = self.settings {
            settings.overlay(&mut info);
        }
        info
    }

    fn api_version(&self, environment: Environment<'_>) -> String {
        let variables = ["AZURE_OPENAI_API_VERSION", "OPENAI_API_VERSION"];
        self.variable(&variables, environment)
            .map(|(_, version)| version)
            .or_else(|| self.settings?.api_version.clone())
            .unwrap_or_else(|| AZURE_API_VERSION.to_owned())
    }

    /// The first of the variables that is set; the table's variables do not apply to the person's own servers.
    fn variable(
        &self,
        variables: &[&'static str],
        environment: Environment<'_>,
    ) -> Option<(&'static str, String)> {
        if self.own {
            return None;
        }
        variables
            .iter()
            .find_map(|variable| Some((*variable, set(environment, variable)?)))
    }

    fn no_base_url(&self, variable: &str) -> CatalogError {
        CatalogError::NoBaseUrl {
            provider: self.name.clone(),
            variable: if self.own {
                format!("base-url of [providers.{}]", self.name)
            } else {
                variable.to_owned()
            },
        }
    }
}

/// A provider's models in the catalog, without deprecated ones.
pub(super) fn catalogued(kind: ProviderKind) -> Vec<&'static str> {
    match Provider::of(kind).vendor {
        "" => Vec::new(),
        vendor => models::of_vendor(vendor),
    }
}

/// A variable's value, if set and not empty.
pub(super) fn set(environment: Environment<'_>, variable: &str) -> Option<String> {
    environment(variable)
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

fn ollama_window(known: Option<u64>, environment: Environment<'_>) -> u64 {
    set(environment, "OLLAMA_CONTEXT_LENGTH")
        .and_then(|length| length.parse().ok())
        .unwrap_or_else(|| known.unwrap_or(OLLAMA_WINDOW).min(OLLAMA_WINDOW))
}

/// The parameter count in a model's name, in billions: the last part like `1.5b` or `135m`.
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
    fn every_kind_has_one_row() {
        for provider in &PROVIDERS {
            assert_eq!(Provider::of(provider.kind), provider);
            assert_eq!(Provider::named(provider.name), Some(provider));
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
        let terra = models::facts("openai", "gpt-5.6-terra").unwrap();
        assert_eq!(
            (terra.context_window, terra.vision, terra.tools),
            (Some(1_050_000), true, true)
        );
        assert!(terra.price.unwrap().output > 0.0);
        // Served by an unknown host under its maker's name.
        let elsewhere = models::facts("", "proxy/claude-sonnet-5-5").unwrap();
        assert_eq!((elsewhere.vision, elsewhere.price), (true, None));
        assert_eq!(models::facts("", "local"), None);
    }
}
