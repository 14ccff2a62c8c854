//! A terminal server for Open WebUI at `/terminal` (`docs/open-webui.md`): Open Terminal's document of tools, with a
//! `run_code` whose variables persist. `app::executor` runs the code; this module only translates formats.

mod code;
mod document;
mod files;
mod notebooks;
pub(super) mod state;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::operation::{Add, operation};
use super::problem::Problem;
use super::state::Shared;
use crate::agent::query::QueryError;
use crate::app::executor::{ExecutorError, FileError};

/// The name of these programs, as other clients see it.
const BY: &str = "open-webui";

/// Adds the routes.
pub(super) fn routes(add: &mut Add<'_>) {
    let read = |summary| operation("get", summary);
    add(
        "/terminal/openapi.json",
        get(document::document),
        vec![read("Open WebUI: the tools")],
    );
    add(
        "/terminal/health",
        get(health),
        vec![read("Open WebUI: whether it lives")],
    );
    add(
        "/terminal/api/config",
        get(config),
        vec![read("Open WebUI: what is there")],
    );
    add(
        "/terminal/system",
        get(system),
        vec![read("Open WebUI: what a model should know")],
    );
    add(
        "/terminal/run_code",
        post(code::run),
        vec![operation("post", "Open WebUI: run code").body::<code::RunCode>()],
    );
    add(
        "/terminal/variables",
        get(code::variables),
        vec![read("Open WebUI: variables of the chat").query::<code::Whose>()],
    );
    add(
        "/terminal/variables/read",
        get(code::variable),
        vec![read("Open WebUI: rows of a table").query::<code::Which>()],
    );
    add(
        "/terminal/files/cwd",
        get(files::cwd),
        vec![read("Open WebUI: the directory of all files")],
    );
    add(
        "/terminal/files/list",
        get(files::list),
        vec![read("Open WebUI: what is in a directory").query::<files::Where>()],
    );
    add(
        "/terminal/files/read",
        get(files::read),
        vec![read("Open WebUI: lines of a text, or a picture").query::<files::Part>()],
    );
    add(
        "/terminal/files/display",
        get(files::display),
        vec![read("Open WebUI: whether a file can be shown").query::<files::Which>()],
    );
    add(
        "/terminal/files/view",
        get(files::view),
        vec![
            read("Open WebUI: the bytes of a file")
                .query::<files::Which>()
                .bytes("*/*"),
        ],
    );
    add(
        "/terminal/files/write",
        post(files::write),
        vec![operation("post", "Open WebUI: write a file").body::<files::Written>()],
    );
    add(
        "/terminal/notebooks",
        post(notebooks::open),
        vec![operation("post", "Open WebUI: open a notebook").body::<notebooks::Which>()],
    );
    add(
        "/terminal/notebooks/{id}",
        get(notebooks::status).delete(notebooks::close),
        vec![
            read("Open WebUI: whether a cell of a notebook runs"),
            operation("delete", "Open WebUI: end the kernel of a notebook"),
        ],
    );
    add(
        "/terminal/notebooks/{id}/execute",
        post(notebooks::execute),
        vec![
            operation("post", "Open WebUI: run a cell of a notebook").body::<notebooks::Execute>(),
        ],
    );
}

async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

async fn config() -> Json<Value> {
    Json(json!({ "features": { "terminal": false, "notebooks": true, "system": true } }))
}

async fn system(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let root = shared.terminal.executor.directory().display();
    let prompt = format!(
        "You have a live code interpreter. `run_code` runs code in a kernel of this chat: variables, imports and loaded data \
         stay for the next call, so load data once and go on in small steps. Code works in the directory {root}; there is no \
         other place for files. In Python `!command` runs a shell command. A plot that is displayed is saved as a file, which \
         `files` names: call `display_file` with its path so that the user sees it, and `read_file` to look at it yourself. \
         `list_variables` and `read_variable` look at data without running code."
    );
    Json(json!({ "prompt": prompt }))
}

/// The session of a chat: separate for each user and chat, so nobody reaches another one by guessing.
fn session_of(headers: &HeaderMap) -> String {
    let chat = either(headers, ["x-session-id", "x-openwebui-chat-id"]);
    state::name_of(user_of(headers), chat)
}

/// The user of a request.
fn user_of(headers: &HeaderMap) -> Option<&str> {
    either(headers, ["x-user-id", "x-openwebui-user-id"])
}

fn either<'a>(headers: &'a HeaderMap, names: [&str; 2]) -> Option<&'a str> {
    let mut values = names
        .iter()
        .filter_map(|name| headers.get(*name)?.to_str().ok());
    values.find(|value| !value.is_empty())
}

/// A [`Problem`] in Open Terminal's format.
struct Refused(Problem);

/// A handler's result.
type Answer = Result<Response, Refused>;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, detail) = self.0.into_words();
        (status, Json(json!({ "detail": detail }))).into_response()
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<ExecutorError> for Refused {
    fn from(error: ExecutorError) -> Self {
        Self(error.into())
    }
}

impl From<QueryError> for Refused {
    fn from(error: QueryError) -> Self {
        Self(error.into())
    }
}

impl From<FileError> for Refused {
    fn from(error: FileError) -> Self {
        Self(error.into())
    }
}
