//! `ask`: the whole agent as one tool.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::parked::Follow;
use super::super::state::McpServer;
use super::{Arguments, Failed, arguments, default_session};
use crate::rpc::RpcError;

/// Bytes of text of its last cell.
const TEXT: usize = 20_000;

/// What `ask` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    /// The question, with all that the agent needs to know.
    question: String,
    /// The session that it works in.
    #[serde(default = "default_session")]
    session: String,
}

/// Asks.
pub(super) async fn ask(
    server: &McpServer,
    params: &Map<String, Value>,
    call: &Call,
) -> Result<Value, RpcError> {
    match begin(server, arguments(params), call).await {
        Ok(follow) => follow.finish(server, params, call).await,
        Err(failed) => Ok(failed.result()),
    }
}

async fn begin(
    server: &McpServer,
    arguments: Arguments<Ask>,
    call: &Call,
) -> Result<Follow, Failed> {
    let Ask { question, session } = arguments?;
    if question.trim().is_empty() {
        return Err(Failed::new("the question is empty"));
    }
    let executor = server.executor();
    let session = executor.session(&session).await?;
    let turn = session.ask(&call.caller.name, question, executor).await?;
    Ok(Follow {
        session,
        turn,
        answer: Some(String::new()),
        most: TEXT,
        printed: String::new(),
        asking: None,
    })
}
