//! The models that a front end can offer: those with a key, those of servers on this machine, and installed ones.

use schemars::JsonSchema;
use serde::Serialize;

use super::variables;
use crate::app::Context;
use crate::llm::catalog::Setup;
use crate::llm::detect::{self, ModelSource};
use crate::llm::local::installed_models;

/// A model that can be named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ListedModel {
    /// As for `--model`.
    pub name: String,
    /// Where it comes from: `configured`, `key`, `server` or `installed`.
    pub source: &'static str,
}

/// The available models, best first: the first one is the default of a session.
pub async fn listed(context: &Context) -> Vec<ListedModel> {
    let environment = variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    let mut models = Vec::new();
    let mut add = |name: String, source| {
        if !models.iter().any(|it: &ListedModel| it.name == name) {
            models.push(ListedModel { name, source });
        }
    };
    if let Some(model) = &context.config.model {
        add(model.clone(), "configured");
    }
    for found in detect::detect(setup).await {
        match found {
            ModelSource::Key { model, .. } => add(model, "key"),
            ModelSource::Server(server) => {
                for model in &server.models {
                    add(server.endpoint(model, setup).info.name, "server");
                }
            }
        }
    }
    for model in installed_models(&context.paths.models()) {
        add(model.name(), "installed");
    }
    models
}
