//! Code of a chat, and its variables.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::extract::{Json as Body, Query};
use super::super::problem::Problem;
use super::super::state::Shared;
use super::{Answer, BY, session_of};
use crate::agent::query::{Rows, VariableInfo};
use crate::app::executor::{Looked, ProgramSession, SavedPicture, Unattended};

/// Seconds that code may run unless told otherwise, and at most.
const TIMEOUT: u64 = 120;
const LONGEST: u64 = 24 * 3600;
/// Bytes of text of a result.
const TEXT: usize = 20_000;
/// Variables of a list, and rows of a window unless told otherwise.
const VARIABLES: usize = 300;
const ROWS: u64 = 50;

/// What is to run.
#[derive(Deserialize, JsonSchema)]
pub(super) struct RunCode {
    code: String,
    language: Option<String>,
    timeout_s: Option<u64>,
}

/// Of which kernel.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Whose {
    language: Option<String>,
}

/// Which rows of which variable.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Which {
    name: String,
    #[serde(default)]
    offset: u64,
    limit: Option<u64>,
    sort: Option<String>,
    /// `true` or `True`: Open WebUI writes it as Python does.
    descending: Option<String>,
    filter: Option<String>,
}

/// Runs code.
pub(super) async fn run(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Body(wanted): Body<RunCode>,
) -> Answer {
    let executor = &shared.terminal.executor;
    let session = executor.session(&session_of(&headers)).await?;
    let limit = Duration::from_secs(wanted.timeout_s.unwrap_or(TIMEOUT).clamp(1, LONGEST));
    let turn = session.run(BY, wanted.code, given(wanted.language), Some(limit));
    let mut turn = turn.await?;
    let unattended = Unattended {
        no_input: "nobody can be asked for input: write the value into the code",
    };
    while unattended.next(&mut turn).await.is_some() {}
    let outcome = turn.outcome().clone();
    drop(turn);
    let run = session.saved(&outcome, TEXT, executor.workspace()).await;
    let mut answer = json!({
        "status": run.status,
        "output": run.text,
        "execution_count": outcome.count,
        "files": run.files.iter().map(told).collect::<Vec<_>>(),
    });
    if let Some(error) = run.error {
        answer["raised"] = json!({ "name": error.name, "value": error.value });
    }
    Ok(Json(answer).into_response())
}

fn told(picture: &SavedPicture) -> Value {
    json!({ "path": picture.path, "mime_type": picture.mime, "size": picture.bytes })
}

/// The session of a chat if it runs: who only looks opens none.
fn running(shared: &Shared, headers: &HeaderMap) -> Result<ProgramSession, Problem> {
    let running = shared.terminal.executor.running(&session_of(headers));
    running.map_err(|_| {
        Problem::not_found("no kernel runs for this chat, so there are no variables")
            .hint("`run_code` starts it")
    })
}

/// The variables of a chat.
pub(super) async fn variables(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(whose): Query<Whose>,
) -> Answer {
    let session = running(&shared, &headers)?;
    let language = given(whose.language);
    let list = session.live.asides.variables(language.as_deref()).await?;
    let (variables, more) = list.first(VARIABLES);
    let variables: Vec<_> = variables.iter().map(VariableInfo::brief).collect();
    Ok(Json(json!({ "variables": variables, "more": more })).into_response())
}

/// Rows of a table, or how another variable begins.
pub(super) async fn variable(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Query(which): Query<Which>,
) -> Answer {
    let session = running(&shared, &headers)?;
    let rows = Rows {
        offset: which.offset,
        limit: Some(which.limit.unwrap_or(ROWS)),
        sort: given(which.sort),
        descending: which
            .descending
            .is_some_and(|it| it.eq_ignore_ascii_case("true")),
        filter: given(which.filter),
    };
    Ok(match session.look_at(&which.name, &rows).await? {
        Looked::Rows(window) => Json(window).into_response(),
        Looked::Beginning(variable) => Json(variable.brief()).into_response(),
    })
}

/// Models send empty text, and Open WebUI sends `null`, for what is not given.
fn given(value: Option<String>) -> Option<String> {
    value.filter(|it| !it.trim().is_empty() && it != "null")
}
