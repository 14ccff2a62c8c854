//! Where a model is and how to be let in: what naming a model resolves to.
//!
//! Plain data. Choosing one is the job of [`super::catalog`], talking to it that of [`super::rig`].

use std::fmt;
use std::time::Duration;

use super::provider::Provider;
pub use super::provider::ProviderKind;
use super::providers::KeyCommand;
use super::types::ModelInfo;

/// Where a model is served, and everything needed to ask it.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// What kind of server it is, which decides the wire.
    pub kind: ProviderKind,
    /// What the provider is called.
    pub provider: String,
    /// Base URL without credentials and without a slash at the end.
    pub base_url: String,
    /// The key, if one is known. Servers at home mostly want none.
    pub key: Option<Key>,
    /// The program that prints the key, where the environment has none; to be run before the first request
    /// ([`super::key_command`]).
    pub key_command: Option<KeyCommand>,
    /// The model's id as the server knows it.
    pub model: String,
    /// Azure's `api-version`.
    pub api_version: Option<String>,
    /// How long the server may send nothing, if the person said so.
    pub idle_timeout: Option<Duration>,
    /// What is known about the model.
    pub info: ModelInfo,
}

impl Endpoint {
    /// One that nothing else is known of.
    pub fn new(kind: ProviderKind, base_url: &str, model: &str) -> Self {
        let provider = Provider::of(kind).name;
        Self {
            kind,
            provider: provider.to_owned(),
            base_url: base_url.to_owned(),
            key: None,
            key_command: None,
            model: model.to_owned(),
            api_version: None,
            idle_timeout: None,
            info: ModelInfo {
                name: format!("{provider}/{model}"),
                ..ModelInfo::default()
            },
        }
    }
}

/// A key and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key itself.
    pub secret: Secret,
    /// Where it came from, named in errors.
    pub source: KeySource,
}

/// Where a key came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable.
    Variable(String),
    /// The `api-key-command` of this provider.
    Command(String),
    /// We made it, for a server of ours.
    Ours,
}

impl Key {
    /// The environment variable it was taken from.
    pub fn variable(&self) -> Option<&str> {
        match &self.source {
            KeySource::Variable(name) => Some(name),
            KeySource::Command(_) | KeySource::Ours => None,
        }
    }
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
            source: KeySource::Variable("OPENAI_API_KEY".to_owned()),
        };

        assert_eq!(
            format!("{key:?}"),
            r#"Key { secret: Secret(***), source: Variable("OPENAI_API_KEY") }"#
        );
        assert_eq!(
            key.secret.redact("Incorrect API key provided: sk-hunter2."),
            "Incorrect API key provided: ***."
        );
        assert_eq!(Secret::new("x").redact("xylophone"), "xylophone");
    }
}
