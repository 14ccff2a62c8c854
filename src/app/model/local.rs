//! A model in a server that we start: it lives as long as its session.

use std::sync::Arc;

use super::{Chosen, Wanted, code_mode, retrying, rig_options};
use crate::app::Context;
use crate::app::prompt_cache::Beginning;
use crate::error::{Failure, FailureKind};
use crate::llm::endpoint::{Endpoint, Key, KeySource, ProviderKind, Secret};
use crate::llm::http;
use crate::llm::local::{
    self, Engine, LocalModel, LocalServer, LocalServerError, LocalServerOptions,
    LocalServerProgress,
};
use crate::llm::mode::CodeMode;
use crate::llm::rig::RigProvider;
use crate::llm::types::{ModelInfo, Price, Provider};

/// A server that we started; dropping this ends it.
pub struct OwnServer {
    server: LocalServer,
    beginning: Beginning,
    provider: Arc<dyn Provider>,
}

impl OwnServer {
    /// Shuts it down cleanly.
    pub async fn stop(self) {
        self.beginning.keep(&self.server, &self.provider).await;
        self.server.stop().await;
    }
}

/// Starts the server of the model called `local/NAME`.
pub(super) async fn start(
    name: &str,
    wanted: &Wanted<'_>,
    context: &Context,
) -> Result<Chosen, Failure> {
    let failed = |message: String| Failure::new(FailureKind::Provider, message);
    let paths = &context.paths;
    let dir = paths.models();
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
        paths.environment.get("PATH").map(std::ffi::OsStr::new),
        paths.python().as_deref(),
    )
    .map_err(server_failed)?;
    let log = paths.cache.join("model-server.log");
    let mut options =
        LocalServerOptions::for_model(&model, &dir, engine, log).map_err(server_failed)?;
    let prompts = paths.cache.join("prompts");
    // Without the directory nothing is cached, which only costs time.
    options.prompts = private_dir(&prompts).then(|| prompts.clone());
    let mode = wanted.mode.unwrap_or(CodeMode::Json);
    let mut beginning = Beginning::of(&model, options.context, mode, prompts);
    let window = u64::from(options.context);
    context.notify.info(format!(
        "sponde: starting {model} on this machine\nA small model is a demonstration: check what it says, and for real work name a better one with --model."
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
        key: Some(Key {
            secret: Secret::new(server.api_key()),
            source: KeySource::Ours,
        }),
        info: ModelInfo {
            name: format!("local/{model}"),
            context_window: Some(window),
            price: Some(Price::FREE),
            small: true,
            known: true,
            ..ModelInfo::default()
        },
        ..Endpoint::new(
            ProviderKind::OpenAiCompatible,
            server.base_url(),
            local::ALIAS,
        )
    };
    let client = http::client(&endpoint.base_url).map_err(|error| failed(error.to_string()))?;
    let provider = retrying(RigProvider::new(&endpoint, client, rig_options(context)));
    let chosen = code_mode::ready(Arc::new(provider), endpoint.kind, wanted, &context.notify);
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
