//! `/v1/models`: the names that can be used as a model.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::super::extract::Path;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::Answer;
use crate::app::model;

/// The name of the server's own model, whichever it is.
pub(super) const OWN: &str = "sponde";

/// The server's own model, and all others that it found.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Answer {
    let data = all(&shared).await;
    Ok(Json(json!({ "object": "list", "data": data })).into_response())
}

/// One model.
pub(super) async fn retrieve(State(shared): State<Arc<Shared>>, Path(id): Path<String>) -> Answer {
    let found = all(&shared)
        .await
        .into_iter()
        .find(|it| it["id"] == id.as_str());
    let found = found.ok_or_else(|| {
        Problem::not_found("there is no such model")
            .hint("`GET /v1/models` lists those that there are")
    })?;
    Ok(Json(found).into_response())
}

async fn all(shared: &Shared) -> Vec<Value> {
    let listed = model::listed(shared.registry.context()).await;
    let configured = shared.defaults.model.clone();
    let mut names = vec![OWN.to_owned()];
    for name in configured
        .into_iter()
        .chain(listed.into_iter().map(|it| it.name))
    {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let started = jiff::Timestamp::now().as_second();
    let object = |name: String| {
        let owner = name.split_once('/').map_or(OWN, |(provider, _)| provider);
        json!({ "id": name, "object": "model", "created": started, "owned_by": owner })
    };
    names.into_iter().map(object).collect()
}
