//! The control plane: sandboxes are made, looked at, kept and ended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::failure::E2bFailure;
use super::missing::Missing;
use super::{ENVD, InSandbox, parsed};
use crate::app::sandboxes::{LONGEST, NewSandbox, ProgramSandbox, SandboxState, moment};
use crate::server::extract::{Path, Query};
use crate::server::state::Shared;

/// How long a sandbox lives if nobody says it.
const LIFETIME: u64 = 300;

/// What `POST /sandboxes` takes. What else clients send is about a machine, or is how all sandboxes are here.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct New {
    #[serde(rename = "templateID")]
    template: Option<String>,
    timeout: Option<u64>,
    auto_pause: Option<bool>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    volume_mounts: Option<Vec<Value>>,
    mcp: Option<Value>,
}

/// How long.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Lifetime {
    timeout: Option<u64>,
    /// The same in another request's words.
    duration: Option<u64>,
}

impl Lifetime {
    fn seconds(&self) -> Result<Duration, E2bFailure> {
        lifetime(self.timeout.or(self.duration))
    }
}

pub(super) fn lifetime(seconds: Option<u64>) -> Result<Duration, E2bFailure> {
    let lifetime = Duration::from_secs(seconds.unwrap_or(LIFETIME));
    if lifetime > LONGEST {
        let hours = LONGEST.as_secs() / 3600;
        return Err(E2bFailure::new(
            StatusCode::BAD_REQUEST,
            format!("Timeout cannot be greater than {hours} hours"),
        ));
    }
    Ok(lifetime)
}

/// Makes a sandbox.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    request: Request,
) -> Result<Response, E2bFailure> {
    let new: New = parsed(request).await?;
    if new.volume_mounts.is_some_and(|it| !it.is_empty()) {
        return Err(Missing::Volume.into());
    }
    if new.mcp.is_some_and(|it| !it.is_null()) {
        return Err(Missing::McpGateway.into());
    }
    let new = NewSandbox {
        template: new.template.unwrap_or_else(|| "base".to_owned()),
        lifetime: Some(lifetime(new.timeout)?),
        metadata: new.metadata.unwrap_or_default(),
        variables: new.env_vars.unwrap_or_default().into_iter().collect(),
        pauses: new.auto_pause.unwrap_or(false),
        id: None,
    };
    let sandbox = shared.e2b.sandboxes.create(new).await?;
    Ok((StatusCode::CREATED, Json(made(&sandbox))).into_response())
}

/// What the program of a sandbox needs to use it.
pub(super) fn made(sandbox: &ProgramSandbox) -> Value {
    json!({
        "sandboxID": sandbox.id(),
        "templateID": sandbox.template(),
        "clientID": "sponde",
        "envdVersion": ENVD,
        "envdAccessToken": sandbox.token(),
        "trafficAccessToken": sandbox.token(),
        "domain": null,
    })
}

/// What is known of a sandbox, without its token.
pub(super) fn listed(sandbox: &ProgramSandbox) -> Value {
    let size = sandbox.size();
    json!({
        "sandboxID": sandbox.id(),
        "templateID": sandbox.template(),
        "clientID": "sponde",
        "startedAt": moment(sandbox.started()),
        "endAt": moment(sandbox.ends()),
        "cpuCount": size.processors,
        "memoryMB": size.memory >> 20,
        "diskSizeMB": size.disk >> 20,
        "metadata": sandbox.metadata(),
        "state": match sandbox.state() {
            SandboxState::Running => "running",
            SandboxState::Paused => "paused",
        },
        "envdVersion": ENVD,
    })
}

/// A sandbox.
pub(super) async fn detail(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, E2bFailure> {
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    let mut detail = listed(&sandbox);
    let on_timeout = if sandbox.pauses() { "pause" } else { "kill" };
    if let Some(fields) = detail.as_object_mut() {
        fields.insert("envdAccessToken".to_owned(), sandbox.token().into());
        fields.insert("domain".to_owned(), Value::Null);
        let lifecycle = json!({ "autoResume": false, "onTimeout": on_timeout });
        fields.insert("lifecycle".to_owned(), lifecycle);
    }
    Ok(Json(detail))
}

/// Ends a sandbox.
pub(super) async fn kill(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<StatusCode, E2bFailure> {
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    shared.e2b.sandboxes.kill(sandbox.id()).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Has a sandbox live longer; one that is paused goes on.
pub(super) async fn connect(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, E2bFailure> {
    let wanted: Lifetime = parsed(request).await?;
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    let status = if sandbox.connect(wanted.seconds()?).await {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, Json(made(&sandbox))).into_response())
}

/// Stops a sandbox with all that runs in it.
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<StatusCode, E2bFailure> {
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    if !sandbox.pause().await {
        return Err(E2bFailure::new(
            StatusCode::CONFLICT,
            format!("sandbox \"{id}\" is paused already"),
        ));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// When a sandbox ends.
pub(super) async fn timeout(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, E2bFailure> {
    let wanted: Lifetime = parsed(request).await?;
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    sandbox.running()?;
    sandbox.set_lifetime(wanted.seconds()?);
    Ok(StatusCode::NO_CONTENT)
}

/// A sandbox ends later.
pub(super) async fn refresh(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, E2bFailure> {
    let wanted: Lifetime = parsed(request).await?;
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    let lifetime = wanted.seconds()?;
    sandbox.running()?.connect(lifetime).await;
    Ok(StatusCode::NO_CONTENT)
}

/// When it was measured, in seconds since 1970.
#[derive(Deserialize)]
pub(super) struct Between {
    start: Option<u64>,
    end: Option<u64>,
}

/// What a sandbox takes now.
pub(super) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(between): Query<Between>,
) -> Result<Json<Value>, E2bFailure> {
    let sandbox = shared.e2b.sandboxes.get(&id)?;
    let (size, (memory, cpu)) = (sandbox.size(), sandbox.usage().await);
    let now = SystemTime::now();
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    // Only what is now is known.
    let is_before = between.end.is_some_and(|end| end < seconds);
    if is_before || between.start.is_some_and(|start| start > seconds + 1) {
        return Ok(Json(json!([])));
    }
    Ok(Json(json!([{
        "timestamp": moment(now),
        "timestampUnix": seconds,
        "cpuCount": size.processors,
        // Since it was asked before.
        "cpuUsedPct": cpu,
        "memUsed": memory,
        "memTotal": size.memory,
        "memCache": 0,
        "diskUsed": size.disk_used,
        "diskTotal": size.disk,
    }])))
}

/// Environment variables of a sandbox.
pub(super) async fn variables(InSandbox(sandbox): InSandbox) -> Json<Map<String, Value>> {
    let variables = sandbox.variables().iter().cloned();
    Json(
        variables
            .map(|(name, value)| (name, value.into()))
            .collect(),
    )
}
