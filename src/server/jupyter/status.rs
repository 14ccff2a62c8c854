//! What clients ask about the server itself, and settings that front ends keep on it.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::extract::{Path, Query};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::{Answer, body, lock};

/// The version of Jupyter Server whose API this is.
const API: &str = "2.21.0";
/// Sections of settings, and bytes of each.
const SECTIONS: usize = 100;
/// See [`SECTIONS`].
const SECTION: usize = 1 << 20;

/// Whose API this is.
pub(super) async fn version() -> Answer {
    let sponde = env!("CARGO_PKG_VERSION");
    Ok(axum::Json(json!({ "version": API, "sponde": sponde })).into_response())
}

/// How much runs.
pub(super) async fn status(State(shared): State<Arc<Shared>>) -> Answer {
    let kernels = shared.kernels.list().await;
    let activities = kernels.iter().map(|it| it.activity());
    let connections: usize = activities.clone().map(|it| it.connections).sum();
    let started = SystemTime::now() - shared.started.elapsed();
    let last = activities.map(|it| it.last).max().unwrap_or(started);
    let answer = json!({
        "started": time(started),
        "last_activity": time(last),
        "connections": connections,
        "kernels": kernels.len(),
    });
    Ok(axum::Json(answer).into_response())
}

/// Which permissions a client asks about.
#[derive(Deserialize)]
pub(super) struct Asked {
    permissions: Option<String>,
}

/// Whose server this is: everybody with the token is its person.
pub(super) async fn me(State(shared): State<Arc<Shared>>, Query(asked): Query<Asked>) -> Answer {
    let environment = &shared.registry.context().paths.environment;
    let name = environment.get("USER").unwrap_or("sponde");
    let permissions = asked.permissions.as_deref().unwrap_or("{}");
    let permissions: Map<String, Value> = serde_json::from_str(permissions)
        .map_err(|_| Problem::bad_request("`permissions` is a JSON object"))?;
    let initials: String = name.chars().take(2).collect();
    let answer = json!({
        "identity": {
            "username": name,
            "name": name,
            "display_name": name,
            "initials": initials.to_uppercase(),
            "avatar_url": null,
            "color": null,
        },
        "permissions": permissions,
    });
    Ok(axum::Json(answer).into_response())
}

/// A section of a front end's settings.
pub(super) async fn config(
    State(shared): State<Arc<Shared>>,
    Path(section): Path<String>,
) -> Answer {
    let known = lock(&shared.jupyter.config).get(&section).cloned();
    Ok(axum::Json(known.unwrap_or_default()).into_response())
}

/// Replaces one.
pub(super) async fn set_config(
    State(shared): State<Arc<Shared>>,
    Path(section): Path<String>,
    bytes: Bytes,
) -> Answer {
    keep(&shared, section, body(&bytes)?)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Changes some of it: what is null is removed, objects are merged.
pub(super) async fn change_config(
    State(shared): State<Arc<Shared>>,
    Path(section): Path<String>,
    bytes: Bytes,
) -> Answer {
    let changes: Map<String, Value> = body(&bytes)?;
    let known = lock(&shared.jupyter.config).get(&section).cloned();
    let mut known = known.unwrap_or_default();
    merge(&mut known, changes);
    keep(&shared, section, known.clone())?;
    Ok(axum::Json(known).into_response())
}

fn keep(shared: &Shared, section: String, settings: Map<String, Value>) -> Result<(), Problem> {
    let size = serde_json::to_vec(&settings).map_or(0, |it| it.len());
    let mut config = lock(&shared.jupyter.config);
    let is_new = !config.contains_key(&section);
    if size > SECTION || section.len() > 200 || is_new && config.len() >= SECTIONS {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            "these are too many settings",
        ));
    }
    config.insert(section, settings);
    Ok(())
}

fn merge(into: &mut Map<String, Value>, changes: Map<String, Value>) {
    for (key, value) in changes {
        match (into.get_mut(&key), value) {
            (_, Value::Null) => {
                into.remove(&key);
            }
            (Some(Value::Object(known)), Value::Object(changes)) => merge(known, changes),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// As Jupyter writes times.
pub(super) fn time(at: SystemTime) -> Option<String> {
    super::super::files::iso(at)
}
