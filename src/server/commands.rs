//! Commands by POST, each carried out once: a repeated request with the same key gets the first one's answer.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::events::client_name;
use super::extract::{Json, Path};
use super::keys::Answer;
use super::problem::Problem;
use super::sessions::may_be;
use super::state::Shared;
use crate::agent::Command;
use crate::agent::stream::{ItemId, Rejection};
use crate::app::registry::LiveSession;
use crate::task;

/// Maximum characters of a key.
const KEY: usize = 128;
/// How long a session may take to accept or reject: it may be writing its files.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// What the route takes: a command, and beside it who sends it.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Sent {
    #[serde(flatten)]
    command: Command,
    key: Option<String>,
    #[serde(rename = "as")]
    name: Option<String>,
}

/// What it answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Accepted {
    /// What the command leads to comes behind this item.
    after: ItemId,
}

/// Takes a command.
pub(super) async fn command(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Json(sent): Json<Sent>,
) -> Result<(StatusCode, axum::Json<Accepted>), Problem> {
    let Sent { command, key, name } = sent;
    let live = shared.live(&id)?;
    if let Command::SetApproval { approval } = &command {
        may_be(*approval, &shared)?;
    }
    live.touch();
    let name = client_name(name.as_deref());
    let answer = match key {
        None => carry_out(&live, name, command),
        Some(key) if key.is_empty() || key.len() > KEY => {
            return Err(Problem::bad_request("a key has 1 to 128 characters"));
        }
        Some(key) => {
            let known = shared.keys.enter((id, key), &command, || {
                carry_out(&live, name, command.clone())
            });
            known.ok_or_else(|| {
                Problem::new(
                    StatusCode::CONFLICT,
                    "key_reused",
                    "this key was sent with another command",
                )
            })?
        }
    };
    let after = answered(answer).await?;
    Ok((StatusCode::ACCEPTED, axum::Json(Accepted { after })))
}

/// Sends `command`, even if the client stops waiting: a half-sent command would be repeated.
fn carry_out(live: &Arc<LiveSession>, name: String, command: Command) -> Answer {
    let (answer, answered) = watch::channel(None);
    let handle = live.handle().clone();
    task::spawn("command", async move {
        let sent = handle.send(&name, command).await;
        let _ = answer.send(Some(sent));
    })
    .detach();
    answered
}

async fn answered(mut answer: Answer) -> Result<ItemId, Problem> {
    let answered = tokio::time::timeout(ANSWER_WITHIN, answer.wait_for(Option::is_some)).await;
    match answered {
        Ok(Ok(answer)) => match &*answer {
            Some(Ok(after)) => Ok(*after),
            Some(Err(rejection)) => Err(rejection.clone().into()),
            None => Err(Rejection::Ended.into()),
        },
        Ok(Err(_)) => Err(Rejection::Ended.into()),
        Err(_) => Err(Problem::new(
            StatusCode::GATEWAY_TIMEOUT,
            "timeout",
            "the session does not answer; the command may still be carried out",
        )
        .hint("send it again with the same key")),
    }
}
