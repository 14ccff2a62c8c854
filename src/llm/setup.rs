//! The person's model configuration, and why a name cannot be resolved.

use super::providers::AllSettings;

/// Looks up an environment variable.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// The person's configuration: environment variables, and providers in config.toml.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The environment.
    pub environment: Environment<'a>,
    /// Every `[providers.NAME]`.
    pub providers: &'a AllSettings,
}

/// Why a name cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Neither a provider's name nor a model of a known maker.
    #[error("model `{name}` names no provider")]
    NoProvider {
        /// The name as given.
        name: String,
        /// Provider names similar to its beginning.
        near: Vec<String>,
    },
    /// A name whose first part is not a provider, and which the server in `OPENAI_BASE_URL` does not list.
    #[error("model `{name}` names no provider, and `{server}` does not list it")]
    NotListed {
        /// The name as given.
        name: String,
        /// That server's address.
        server: String,
        /// Similar names of providers or of its models.
        near: Vec<String>,
    },
    /// Like `NotListed`, for a server that lists nothing, where the name's beginning resembles a provider's.
    #[error("model `{name}` names no provider: there is no `{prefix}`")]
    Misspelt {
        /// The name as given.
        name: String,
        /// The name's first part.
        prefix: String,
        /// The provider it resembles.
        meant: String,
    },
    /// A provider without a model.
    #[error("`{name}` names no model")]
    NoModel {
        /// The name as given.
        name: String,
    },
    /// The provider needs a key and the environment has none.
    #[error("no key for {provider}: {}", not_set(.variables))]
    NoKey {
        /// The provider's name.
        provider: String,
        /// The variables checked; empty if the configuration names none for the provider.
        variables: Vec<String>,
    },
    /// A server without a known address.
    #[error("`{provider}` needs a base URL: `{variable}` is not set")]
    NoBaseUrl {
        /// The provider's name.
        provider: String,
        /// The variable checked.
        variable: String,
    },
    /// The base URL is invalid. The URL itself is not repeated: it may contain a password.
    #[error("the base URL from {source_name} {problem}")]
    BadBaseUrl {
        /// Where it is configured.
        source_name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A configured provider without a kind, whose name is not a known provider.
    #[error("`[providers.{provider}]` in config.toml has no `kind`")]
    NoKind {
        /// The provider's name.
        provider: String,
    },
    /// A configured provider with an unknown kind.
    #[error("`[providers.{provider}]` in config.toml: there is no kind `{kind}`")]
    BadKind {
        /// The provider's name.
        provider: String,
        /// The kind as written.
        kind: String,
    },
}

fn not_set(variables: &[String]) -> String {
    match variables {
        [] => "its configuration names no variable for the key".to_owned(),
        variables => format!("`{}` is not set", variables.join("` or `")),
    }
}
