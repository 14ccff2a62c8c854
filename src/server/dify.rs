//! Dify's sandbox at `/dify` (`docs/librechat.md`): each piece of a workflow's code runs once, in its own container
//! and kernel.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extract::Json as Body;
use super::operation::{Add, operation};
use super::problem::Problem;
use super::state::Shared;
use crate::app::containers::Script;

/// Time limit of code: Dify waits a minute.
const LIMIT: Duration = Duration::from_secs(50);
/// Minutes until the remains of a run are removed if the server is killed meanwhile.
const KEPT: u32 = 20;
/// The name of these programs, as other clients see it.
const BY: &str = "dify";

/// What is to run.
#[derive(Debug, Deserialize, JsonSchema)]
struct Run {
    /// `python3` or `nodejs`.
    language: String,
    code: String,
    /// Runs before it.
    preload: Option<String>,
    /// Not read: what code reaches is said at the start of the server.
    #[serde(rename = "enable_network")]
    _enable_network: Option<bool>,
}

/// Adds the routes.
pub(super) fn routes(add: &mut Add<'_>) {
    add(
        "/dify/v1/sandbox/run",
        post(run),
        vec![operation("post", "Dify: run code").body::<Run>()],
    );
    add(
        "/dify/v1/sandbox/dependencies",
        get(dependencies),
        vec![operation("get", "Dify: packages that were added for code")],
    );
    add(
        "/dify/health",
        get(health),
        vec![operation("get", "Dify: whether it lives")],
    );
}

async fn health() -> Json<&'static str> {
    Json("ok")
}

async fn dependencies() -> Response {
    success(&json!({ "dependencies": [] }))
}

async fn run(
    State(shared): State<Arc<Shared>>,
    Body(wanted): Body<Run>,
) -> Result<Response, Refused> {
    let containers = &shared.codeapi.containers;
    let scratch = containers
        .scratch("run", KEPT)
        .await
        .map_err(Problem::from)?;
    let code = match wanted.preload {
        Some(preload) if !preload.is_empty() => format!("{preload}\n{}", wanted.code),
        _ => wanted.code,
    };
    let script = Script {
        code,
        language: wanted.language,
        arguments: Vec::new(),
        limit: LIMIT,
    };
    let outcome = containers.run_script(&scratch.id, BY, script).await;
    let outcome = outcome.map_err(Problem::from)?;
    // Dify treats any error text as a failure.
    let error = match outcome.code {
        0 => String::new(),
        code if outcome.stderr.is_empty() => format!("the code ended with exit code {code}"),
        _ => outcome.stderr,
    };
    Ok(success(&json!({
        "stdout": outcome.stdout, "error": error, "exit_code": outcome.code,
    })))
}

fn success(data: &Value) -> Response {
    Json(json!({ "code": 0, "message": "success", "data": data })).into_response()
}

/// A [`Problem`] in Dify's format.
struct Refused(Problem);

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let words = self.0.words();
        // Dify shows no message for any status except 200 and 503.
        let body = json!({ "code": -500, "message": words, "data": null });
        (StatusCode::OK, Json(body)).into_response()
    }
}
