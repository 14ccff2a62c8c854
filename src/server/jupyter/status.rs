//! Requests about the server itself, and settings that front ends store on it.

use std::sync::Arc;
use std::time::SystemTime;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::extract::{Path, Query};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::{Answer, Refused, body, lock};

/// The version of Jupyter Server whose API this implements.
const API: &str = "2.21.0";
/// Maximum number of settings sections.
const SECTIONS: usize = 100;
/// Maximum bytes of each; see [`SECTIONS`].
const SECTION: usize = 1 << 20;

/// What `/api` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Version {
    /// Of Jupyter Server.
    version: &'static str,
    /// Of this program.
    sponde: &'static str,
}

/// The version of this API.
pub(super) async fn version() -> Json<Version> {
    Json(Version {
        version: API,
        sponde: env!("CARGO_PKG_VERSION"),
    })
}

/// What `/api/status` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    started: Option<String>,
    last_activity: Option<String>,
    connections: usize,
    kernels: usize,
}

/// How many kernels and connections are active.
pub(super) async fn status(State(shared): State<Arc<Shared>>) -> Json<Status> {
    let kernels = shared.kernels.list().await;
    let activities = kernels.iter().map(|it| it.activity());
    let connections: usize = activities.clone().map(|it| it.connections).sum();
    let started = SystemTime::now() - shared.started.elapsed();
    let last = activities.map(|it| it.last).max().unwrap_or(started);
    Json(Status {
        started: time(started),
        last_activity: time(last),
        connections,
        kernels: kernels.len(),
    })
}

/// The permissions that a client asks about.
#[derive(Deserialize)]
pub(super) struct Asked {
    permissions: Option<String>,
}

/// What `/api/me` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Me {
    identity: Identity,
    permissions: Map<String, Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Identity {
    username: String,
    name: String,
    display_name: String,
    initials: String,
    avatar_url: Option<String>,
    color: Option<String>,
}

/// The user: everyone with the token is the server's person.
pub(super) async fn me(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Asked>,
) -> Result<Json<Me>, Refused> {
    let environment = &shared.registry.context().paths.environment;
    let name = environment.get("USER").unwrap_or("sponde");
    let permissions = asked.permissions.as_deref().unwrap_or("{}");
    let permissions: Map<String, Value> = serde_json::from_str(permissions)
        .map_err(|_| Problem::bad_request("`permissions` is a JSON object"))?;
    let initials: String = name.chars().take(2).collect();
    Ok(Json(Me {
        identity: Identity {
            username: name.to_owned(),
            name: name.to_owned(),
            display_name: name.to_owned(),
            initials: initials.to_uppercase(),
            avatar_url: None,
            color: None,
        },
        permissions,
    }))
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

/// Changes parts of it: null values are removed, objects are merged.
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

/// A time in Jupyter's format: its clients require exactly six decimal places of the second.
pub(super) fn time(at: SystemTime) -> Option<String> {
    let at = jiff::Timestamp::try_from(at).ok()?;
    Some(at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_have_six_digits_behind_the_second() {
        let at = |nanos| SystemTime::UNIX_EPOCH + Duration::new(1_795_446_000, nanos);
        assert_eq!(time(at(0)).unwrap(), "2026-11-23T15:00:00.000000Z");
        assert_eq!(
            time(at(123_456_789)).unwrap(),
            "2026-11-23T15:00:00.123456Z"
        );
    }
}
