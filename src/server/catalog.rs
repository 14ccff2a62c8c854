//! The models and kernels of this machine with which a session can be started.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::problem::Problem;
use super::state::Shared;
use crate::app::model::{self, ListedModel};

/// The models, the default one first.
pub(super) async fn models(State(shared): State<Arc<Shared>>) -> Json<Vec<ListedModel>> {
    let mut models = model::listed(shared.registry.context()).await;
    if let Some(name) = &shared.defaults.model {
        models.retain(|it| it.name != *name);
        let name = name.clone();
        let source = "configured";
        models.insert(0, ListedModel { name, source });
    }
    Json(models)
}

/// A kernel that can be named.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ListedKernel {
    name: String,
    language: String,
    display_name: String,
}

/// The kernels that can be named.
pub(super) async fn kernels(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<Vec<ListedKernel>>, Problem> {
    let paths = shared.registry.context().paths.kernels();
    let listed = tokio::task::spawn_blocking(move || paths.list()).await;
    let listed = listed.map_err(|error| Problem::internal(error.to_string()))?;
    let mut seen = BTreeSet::new();
    let kernels = listed
        .into_iter()
        .filter(|kernel| !kernel.name.contains('/'))
        .filter_map(|kernel| {
            let source = kernel.source.ok()?;
            seen.insert(kernel.name.clone()).then_some(ListedKernel {
                name: kernel.name,
                language: source.spec.language,
                display_name: source.spec.display_name,
            })
        })
        .collect();
    Ok(Json(kernels))
}
