//! Chooses the model: the one that the person named, otherwise one that this machine offers.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;

use super::Context;
use crate::agent::guidance::Coaching;
use crate::error::{Failure, FailureKind};
use crate::llm::catalog::{self, CatalogError, Resolved, Setup};
use crate::llm::detect::{self, ModelSource};
use crate::llm::endpoint::{Endpoint, Key, KeySource};
use crate::llm::http;
use crate::llm::key_command;
use crate::llm::listing;
use crate::llm::local::installed_models;
use crate::llm::mode::CodeMode;
use crate::llm::providers::PROVIDERS;
use crate::llm::retry::{Retry, RetryOptions};
use crate::llm::rig::{RigOptions, RigProvider};
use crate::llm::types::Provider;
use crate::llm::verify_name;

mod code_mode;
mod listed;
mod local;
mod switch;

pub(super) use code_mode::OUTPUT_BUDGET;
pub use listed::{ListedModel, listed};
pub use local::OwnServer;
pub use switch::Switchboard;

/// How long a server may take to report its model's abilities.
const INSPECT_WITHIN: Duration = Duration::from_millis(1500);

/// How to get a model, for errors.
pub const HOW: &str = "set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama or another local server, or get \
     a small model for this machine with `sponde models pull`";

/// A model, ready to be asked.
pub struct Chosen {
    /// The provider to ask.
    pub provider: Arc<dyn Provider>,
    /// Whether the model is reminded of what it forgets.
    pub coaching: Coaching,
    /// How many bytes of a cell's text it gets.
    pub output_budget: usize,
    /// Its system prompt.
    pub system: String,
    /// The server that runs it, if we started that.
    pub own: Option<OwnServer>,
}

/// How to ask a model.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// How it asks to run code; `None`: what suits it.
    pub mode: Option<CodeMode>,
    /// The main kernel's language.
    pub language: &'a str,
}

/// The model that `name` means, otherwise the best one found; `None` if no model is named and none is found.
pub async fn choose(
    name: Option<&str>,
    wanted: &Wanted<'_>,
    context: &Context,
) -> Result<Option<Chosen>, Failure> {
    if !context.may_ask {
        return match name {
            Some(_) => Err(
                Failure::new(FailureKind::Usage, "this key is not for asking a model").hint(
                    "its scope is `run` or `read`; the server's person can give it the scope `ask`",
                ),
            ),
            None => Ok(None),
        };
    }
    let environment = variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    let resolved = match name {
        Some(name) => {
            catalog::resolve(name, None, setup).map_err(|error| catalog_failure(&error))?
        }
        None => match find(&context.paths, setup).await? {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    match resolved {
        Resolved::Served(mut endpoint) => {
            let client = complete(name, &mut endpoint, setup).await?;
            learn(&endpoint, context);
            let provider = Arc::new(plain(&endpoint, client, context));
            Ok(Some(code_mode::ready(
                provider,
                endpoint.kind,
                wanted,
                &context.notify,
            )))
        }
        Resolved::Local(name) => local::start(&name, wanted, context).await.map(Some),
    }
}

/// The failure when there is no model.
pub fn none() -> Failure {
    Failure::new(FailureKind::Provider, "there is no model to ask").hint(HOW)
}

/// Redacts the key from now on.
fn learn(endpoint: &Endpoint, context: &Context) {
    if let Some(key) = &endpoint.key {
        context.redactor.add(key.secret.expose());
    }
}

/// A model to inspect, rather than to talk to.
pub struct Target {
    /// The provider to ask.
    pub provider: Arc<dyn Provider>,
    /// The same, but pictures are sent even if it is not known to accept them; `None` for a local one.
    pub seeing: Option<Arc<dyn Provider>>,
    /// Its address.
    pub base_url: String,
    /// The server that runs it, if we started that.
    pub own: Option<OwnServer>,
}

/// The model that `name` means, over its own wire and without help.
pub async fn open(name: &str, context: &Context) -> Result<Target, Failure> {
    let environment = variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    match catalog::resolve(name, None, setup).map_err(|error| catalog_failure(&error))? {
        Resolved::Served(mut endpoint) => {
            let client = complete(Some(name), &mut endpoint, setup).await?;
            learn(&endpoint, context);
            let mut seeing = (*endpoint).clone();
            seeing.info.vision = true;
            Ok(Target {
                provider: Arc::new(plain(&endpoint, client.clone(), context)),
                seeing: Some(Arc::new(plain(&seeing, client, context))),
                base_url: endpoint.base_url,
                own: None,
            })
        }
        Resolved::Local(name) => {
            let usual = Wanted {
                mode: None,
                language: "python",
            };
            let chosen = local::start(&name, &usual, context).await?;
            Ok(Target {
                provider: chosen.provider,
                seeing: None,
                base_url: "this machine".to_owned(),
                own: chosen.own,
            })
        }
    }
}

/// Looks up variables; an empty one counts as unset.
pub fn variables(context: &Context) -> impl Fn(&str) -> Option<String> + Send + Sync + 'static {
    let environment = context.paths.environment.clone();
    move |name: &str| environment.get(name).map(str::to_owned)
}

/// Whether there is a model although nobody named one.
pub async fn is_any(context: &Context) -> bool {
    let environment = variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    // The fast checks come first: servers are asked again when one is chosen.
    !installed_models(&context.paths.models()).is_empty()
        || !detect::keys(setup).is_empty()
        || matches!(find(&context.paths, setup).await, Ok(Some(_)))
}

async fn find(paths: &crate::paths::Paths, setup: Setup<'_>) -> Result<Option<Resolved>, Failure> {
    for found in detect::detect(setup).await {
        match found {
            ModelSource::Key { model, .. } => {
                return catalog::resolve(&model, None, setup)
                    .map(Some)
                    .map_err(|error| catalog_failure(&error));
            }
            ModelSource::Server(server) => {
                if let Some(model) = server.models.first() {
                    let endpoint = server.endpoint(model, setup);
                    return Ok(Some(Resolved::Served(Box::new(endpoint))));
                }
            }
        }
    }
    let installed = installed_models(&paths.models());
    Ok(installed.first().map(|model| Resolved::Local(model.name())))
}

/// Fills in what only other programs can tell: the key that a command prints, whether a server has the model `name`,
/// and what it reports about it.
async fn complete(
    name: Option<&str>,
    endpoint: &mut Endpoint,
    setup: Setup<'_>,
) -> Result<Client, Failure> {
    if let Some(command) = &endpoint.key_command {
        let provider = endpoint.provider.clone();
        let secret = key_command::run(command, key_command::LIMIT)
            .await
            .map_err(|error| {
                let message = format!("no key for {provider}: its `api-key-command`: {error}");
                Failure::new(FailureKind::Provider, message).hint(format!(
                    "it is in `[providers.{provider}]` of config.toml and must print the key and nothing else"
                ))
            })?;
        endpoint.key = Some(Key {
            secret,
            source: KeySource::Command(provider),
        });
    }
    let client = http::client(&endpoint.base_url)
        .map_err(|error| Failure::new(FailureKind::Provider, error.to_string()))?;
    if let Some(name) = name {
        let checked = verify_name::check(name, endpoint, &client, setup).await;
        checked.map_err(|error| catalog_failure(&error))?;
    }
    if endpoint.info.context_window.is_none() || !endpoint.info.known {
        let said = listing::inspect(&client, endpoint);
        if let Ok(Some(said)) = tokio::time::timeout(INSPECT_WITHIN, said).await {
            said.fill(&mut endpoint.info);
        }
    }
    Ok(client)
}

/// A provider for the model, without help for small ones.
fn plain(endpoint: &Endpoint, client: Client, context: &Context) -> Retry {
    retrying(RigProvider::new(endpoint, client, rig_options(context)))
}

/// Options from the configuration.
fn rig_options(context: &Context) -> RigOptions {
    let mut options = RigOptions::default();
    if let Some(seed) = context.config.seed {
        options.extra.insert("seed".to_owned(), seed.into());
    }
    options
}

fn retrying(provider: RigProvider) -> Retry {
    Retry::new(Arc::new(provider), RetryOptions::default())
}

/// The failure shown for it.
pub fn catalog_failure(error: &CatalogError) -> Failure {
    let failure = Failure::new(FailureKind::Usage, error.to_string());
    match error {
        CatalogError::NoKey {
            provider,
            variables,
        } => {
            let how = match variables.as_slice() {
                [] => format!("name `api-key-env` or `api-key-command` in `[providers.{provider}]`"),
                variables => format!("set `{}` to your key", variables.join("` or `")),
            };
            Failure {
                kind: FailureKind::Provider,
                ..failure
            }
            .hint(format!("{how}, or choose another model"))
        }
        CatalogError::NoProvider { near, .. } if !near.is_empty() => failure.hint(format!(
            "write provider/name; there is `{}`",
            near.join("`, `")
        )),
        CatalogError::NotListed { name, near, .. } => {
            let near = match near.as_slice() {
                [] => String::new(),
                near => format!("there is `{}`; ", near.join("`, `")),
            };
            failure.hint(format!(
                "{near}if the server in OPENAI_BASE_URL has it all the same, write openai-compatible/{name}"
            ))
        }
        CatalogError::Misspelt { name, meant, .. } => failure.hint(format!(
            "there is `{meant}`; if the server in OPENAI_BASE_URL is meant, write openai-compatible/{name}"
        )),
        CatalogError::NoProvider { .. } | CatalogError::NoModel { .. } => failure.hint(
            "write provider/name, for example openai/gpt-5.2, ollama/qwen3 or local/qwen2.5-coder-1.5b, or set \
             OPENAI_BASE_URL for a server of your own",
        ),
        CatalogError::NoBaseUrl { variable, .. } => failure.hint(format!("set `{variable}`")),
        CatalogError::NoKind { .. } | CatalogError::BadKind { .. } => {
            let kinds: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
            failure.hint(format!("kinds are: {}", kinds.join(", ")))
        }
        CatalogError::BadBaseUrl { .. } => failure,
    }
}
