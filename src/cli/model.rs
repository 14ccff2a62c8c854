//! Which model answers: what the person named, else what this machine offers.

use std::sync::Arc;

use crate::agent::coach::Coaching;
use crate::agent::prompt;
use crate::error::{Exit, Failure};
use crate::llm::catalog::{self, CatalogError, Resolved};
use crate::llm::constrained::{Constrained, ConstrainedOptions};
use crate::llm::detect::{self, Found};
use crate::llm::endpoint::{Endpoint, Key, ProviderKind, Secret};
use crate::llm::http;
use crate::llm::local::{
    self, Engine, LocalModel, LocalServer, LocalServerError, LocalServerOptions,
    LocalServerProgress,
};
use crate::llm::retry::{Retry, RetryOptions};
use crate::llm::rig::{RigOptions, RigProvider};
use crate::llm::types::{ModelInfo, Provider};

use super::style::{DIM, WARN, paint, stderr_colours};
use super::warm::Beginning;
use super::{Context, eprint};

/// How to get a model, for errors.
const HOW: &str = "set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama or another local server, or get \
     a small model for this machine with `sponde models pull`";

/// A model, ready to be asked.
pub(super) struct Chosen {
    /// Asks it.
    pub provider: Arc<dyn Provider>,
    /// Whether it is helped where it forgets.
    pub coaching: Coaching,
    /// Bytes of a cell's text that it gets.
    pub output_budget: usize,
    /// Its system prompt for a language.
    pub system: fn(&str) -> String,
    /// The server that runs it, if it is ours.
    pub own: Option<OwnServer>,
}

/// A server of ours; it ends with this.
pub(super) struct OwnServer {
    server: LocalServer,
    beginning: Beginning,
    provider: Arc<dyn Provider>,
}

impl OwnServer {
    /// Stops it in good order.
    pub(super) async fn stop(self) {
        self.beginning.keep(&self.server, &self.provider).await;
        self.server.stop().await;
    }
}

/// The model that `name` means, or the best there is.
pub(super) async fn choose(name: Option<&str>, context: &Context) -> Result<Chosen, Failure> {
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let resolved = match name {
        Some(name) => {
            catalog::resolve(name, None, &env).map_err(|error| catalog_failure(&error))?
        }
        None => find(context, &env).await?,
    };
    match resolved {
        Resolved::Served(endpoint) => served(&endpoint),
        Resolved::Local(name) => local(&name, context).await,
    }
}

async fn find(
    context: &Context,
    env: &(dyn Fn(&str) -> Option<String> + Send + Sync),
) -> Result<Resolved, Failure> {
    for found in detect::detect(env).await {
        match found {
            Found::Key { model, .. } => {
                return catalog::resolve(&model, None, env)
                    .map_err(|error| catalog_failure(&error));
            }
            Found::Server(server) => {
                if let Some(model) = server.models.first() {
                    return Ok(Resolved::Served(server.endpoint(model, env)));
                }
            }
        }
    }
    match local::installed_models(&context.paths.models()).first() {
        Some(model) => Ok(Resolved::Local(model.name())),
        None => Err(Failure::new(Exit::Provider, "there is no model to ask").hint(HOW)),
    }
}

fn served(endpoint: &Endpoint) -> Result<Chosen, Failure> {
    let client = http::client(&endpoint.base_url)
        .map_err(|error| Failure::new(Exit::Provider, error.to_string()))?;
    let provider = retrying(RigProvider::new(endpoint, client, RigOptions::default()));
    if endpoint.info.small && keeps_to_schemas(endpoint.kind) {
        return Ok(coached(provider));
    }
    Ok(Chosen {
        provider: Arc::new(provider),
        coaching: Coaching::Off,
        output_budget: 8_000,
        system: prompt::system,
        own: None,
    })
}

/// Whether the servers of this kind honour a JSON schema for the reply.
fn keeps_to_schemas(kind: ProviderKind) -> bool {
    match kind {
        ProviderKind::LlamaServer
        | ProviderKind::LmStudio
        | ProviderKind::Vllm
        | ProviderKind::Ollama
        | ProviderKind::OpenAiCompatible => true,
        ProviderKind::OpenAi
        | ProviderKind::Anthropic
        | ProviderKind::Gemini
        | ProviderKind::OpenRouter
        | ProviderKind::Groq
        | ProviderKind::DeepSeek
        | ProviderKind::Mistral => false,
    }
}

/// A small model: constrained to JSON, with examples, and helped where it forgets.
fn coached(provider: Retry) -> Chosen {
    let options = ConstrainedOptions {
        instructions: String::new(),
        after_output:
            "If this answers the question, reply with {\"answer\"}; otherwise run another cell."
                .to_owned(),
        after_error: String::new(),
        max_output_tokens: 700,
        few_shot: prompt::small_examples(),
        ..ConstrainedOptions::default()
    };
    Chosen {
        provider: Arc::new(Constrained::new(Arc::new(provider), options)),
        coaching: Coaching::Small,
        output_budget: 600,
        // The examples are Python; in another language the ordinary prompt does less harm.
        system: |language| match language {
            "python" => prompt::small_system(),
            other => prompt::system(other),
        },
        own: None,
    }
}

fn retrying(provider: RigProvider) -> Retry {
    Retry::new(Arc::new(provider), RetryOptions::default()).observed_by(|waiting| {
        let text = format!(
            "\nnote: {}; trying again in {} s\n",
            waiting.error,
            waiting.wait.as_secs().max(1)
        );
        eprint(&paint(WARN, &super::filter::plain(&text), stderr_colours()));
    })
}

async fn local(name: &str, context: &Context) -> Result<Chosen, Failure> {
    let failed = |message: String| Failure::new(Exit::Provider, message);
    let dir = context.paths.models();
    let model = LocalModel::find(name, &dir)
        .map_err(|error| failed(error.to_string()).hint("`sponde models` lists them"))?;
    if !model.is_installed(&dir) {
        return Err(
            failed(format!("model `local/{model}` is not on this machine"))
                .hint(format!("get it with `sponde models pull {model}`")),
        );
    }
    let engine_hint =
        "install it with `sponde models pull`, or put llama.cpp's `llama-server` on PATH";
    let server_failed = |error: LocalServerError| {
        let failure = failed(error.to_string());
        match error {
            LocalServerError::NoEngine { .. } | LocalServerError::NoPackage { .. } => {
                failure.hint(engine_hint)
            }
            _ => failure,
        }
    };
    let engine = Engine::find(
        std::env::var_os("PATH").as_deref(),
        context.paths.python().as_deref(),
    )
    .map_err(server_failed)?;
    let log = context.paths.cache.join("model-server.log");
    let mut options =
        LocalServerOptions::for_model(&model, &dir, engine, log).map_err(server_failed)?;
    let prompts = context.paths.cache.join("prompts");
    // Without the directory nothing is kept, which only costs time.
    options.prompts = private_dir(&prompts).then(|| prompts.clone());
    let mut beginning = Beginning::of(&model, options.context, prompts);
    let window = u64::from(options.context);
    let colours = stderr_colours();
    eprint(&paint(
        DIM,
        &format!(
            "sponde: starting {model} on this machine\nA small model is a demonstration: check what it says, and for real work name a better one with --model.\n"
        ),
        colours,
    ));
    let server = LocalServer::start(options, |progress| {
        if let LocalServerProgress::Ready(after) = progress {
            tracing::info!(seconds = after.as_secs_f32(), "model server is ready");
        }
    })
    .await
    .map_err(server_failed)?;
    beginning.recall(&server).await;
    let endpoint = Endpoint {
        kind: ProviderKind::OpenAiCompatible,
        base_url: server.base_url().to_owned(),
        key: Some(Key {
            secret: Secret::new(server.api_key()),
            variable: None,
        }),
        model: local::ALIAS.to_owned(),
        info: ModelInfo {
            name: format!("local/{model}"),
            context_window: Some(window),
            vision: false,
            small: true,
        },
    };
    let client = http::client(&endpoint.base_url).map_err(|error| failed(error.to_string()))?;
    let provider = retrying(RigProvider::new(&endpoint, client, RigOptions::default()));
    let chosen = coached(provider);
    let own = OwnServer {
        server,
        beginning,
        provider: Arc::clone(&chosen.provider),
    };
    Ok(Chosen {
        own: Some(own),
        ..chosen
    })
}

/// Makes a directory that only this person can read.
fn private_dir(dir: &std::path::Path) -> bool {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .is_ok()
}

fn catalog_failure(error: &CatalogError) -> Failure {
    let failure = Failure::new(Exit::Usage, error.to_string());
    match error {
        CatalogError::NoKey { variables, .. } => {
            Failure { exit: Exit::Provider, ..failure }.hint(format!("set `{}` to your key, or choose another model", variables.join("` or `")))
        }
        CatalogError::NoProvider { .. } | CatalogError::NoModel { .. } => failure.hint(
            "write provider/name, for example openai/gpt-5.2, ollama/qwen3 or local/qwen2.5-coder-1.5b, or set \
             OPENAI_BASE_URL for a server of your own",
        ),
        CatalogError::NoBaseUrl { variable, .. } => failure.hint(format!("set `{variable}`")),
        CatalogError::BadBaseUrl { .. } => failure,
    }
}
