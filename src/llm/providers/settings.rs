//! Provider settings in `config.toml`: `[providers.NAME]`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::types::{ModelInfo, Price};

/// Every `[providers.NAME]`, by name.
pub type AllSettings = BTreeMap<String, Settings>;

/// `[providers.NAME]`: the person's own server, or overrides for the known provider of that name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// The kind of server: the name of a known provider.
    pub kind: Option<String>,
    /// Its address.
    #[serde(alias = "base_url")]
    pub base_url: Option<String>,
    /// The variable that holds its key.
    #[serde(alias = "api_key_env")]
    pub api_key_env: Option<String>,
    /// The command that prints its key.
    #[serde(alias = "api_key_command")]
    pub api_key_command: Option<KeyCommand>,
    /// Azure's `api-version`.
    #[serde(alias = "api_version")]
    pub api_version: Option<String>,
    /// The model that `NAME` alone means.
    pub model: Option<String>,
    /// Seconds the server may send nothing.
    #[serde(alias = "idle_timeout")]
    pub idle_timeout: Option<u64>,
    /// Context window of its models, in tokens.
    #[serde(alias = "context_window")]
    pub context_window: Option<u64>,
    /// The most tokens of a reply.
    #[serde(alias = "max_output")]
    pub max_output: Option<u64>,
    /// Whether its models read pictures.
    pub vision: Option<bool>,
    /// Whether its models call tools.
    pub tools: Option<bool>,
    /// What they cost.
    pub price: Option<PriceSettings>,
}

/// `price = { input = 1.0, output = 2.0 }`: US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Tokens sent.
    pub input: f64,
    /// Tokens received.
    pub output: f64,
    /// Sent tokens read from the cache; defaults to `input`.
    pub cached: Option<f64>,
}

/// A command line, as one string for the shell or as a list of words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum KeyCommand {
    /// For `sh -c`.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

impl Settings {
    /// Overrides what is known of a model.
    pub(super) fn overlay(&self, info: &mut ModelInfo) {
        info.context_window = self.context_window.or(info.context_window);
        info.max_output = self.max_output.or(info.max_output);
        info.vision = self.vision.unwrap_or(info.vision);
        info.tools = self.tools.or(info.tools);
        info.known |= self.vision.is_some() || self.context_window.is_some();
        if let Some(price) = self.price {
            info.price = Some(Price {
                input: price.input,
                cached: price.cached.unwrap_or(price.input),
                written: price.input,
                output: price.output,
            });
        }
    }
}
