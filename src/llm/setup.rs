//! What a person has set up for models, and why a name may stand for none.

use super::providers::AllSettings;

/// Looks up an environment variable.
pub type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

/// What a person has set up: variables, and providers in the configuration.
#[derive(Clone, Copy)]
pub struct Setup<'a> {
    /// The environment.
    pub environment: Environment<'a>,
    /// Every `[providers.NAME]`.
    pub providers: &'a AllSettings,
}

/// Why a name stands for nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Neither a provider's name nor a model we know the maker of.
    #[error("model `{name}` names no provider")]
    NoProvider {
        /// The name as given.
        name: String,
        /// Names of providers that look like what it begins with.
        near: Vec<String>,
    },
    /// A name with a slash that begins with no provider, and is no model of the server in `OPENAI_BASE_URL`.
    #[error("model `{name}` names no provider, and `{server}` does not list it")]
    NotListed {
        /// The name as given.
        name: String,
        /// Where that server is.
        server: String,
        /// Names of providers or of its models that look like it.
        near: Vec<String>,
    },
    /// The same of a server that lists nothing, where the name begins nearly like a provider.
    #[error("model `{name}` names no provider: there is no `{prefix}`")]
    Misspelt {
        /// The name as given.
        name: String,
        /// What it begins with.
        prefix: String,
        /// The provider that is called nearly so.
        meant: String,
    },
    /// A provider without a model.
    #[error("`{name}` names no model")]
    NoModel {
        /// The name as given.
        name: String,
    },
    /// The provider wants a key and the environment has none.
    #[error("no key for {provider}: {}", not_set(.variables))]
    NoKey {
        /// The provider's name.
        provider: String,
        /// The variables looked at; none for a provider that the configuration names no variable for.
        variables: Vec<String>,
    },
    /// A server without an address.
    #[error("`{provider}` needs a base URL: `{variable}` is not set")]
    NoBaseUrl {
        /// The provider's name.
        provider: String,
        /// The variable looked at.
        variable: String,
    },
    /// A base URL that is none. The URL itself is not repeated: it may hold a password.
    #[error("the base URL from {source_name} {problem}")]
    BadBaseUrl {
        /// Where it is written.
        source_name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A provider in the configuration without a kind, and no known one either.
    #[error("`[providers.{provider}]` in config.toml has no `kind`")]
    NoKind {
        /// The provider's name.
        provider: String,
    },
    /// A provider in the configuration of a kind that is none.
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
        [] => "its configuration names none".to_owned(),
        variables => format!("`{}` is not set", variables.join("` or `")),
    }
}
