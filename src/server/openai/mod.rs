//! OpenAI's wire at `/v1`: containers and their files, responses with the code interpreter, chat completions, models
//! (`docs/openai.md`). `app` runs the code and stores the data; this module only translates to OpenAI's format.

mod building;
mod chat;
mod containers;
mod conversation;
mod files;
mod ids;
mod input;
mod listing;
mod models;
mod outgoing;
mod request;
mod responses;
mod shown;
pub(super) mod state;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::operation::{Add, operation};
use super::problem::Problem;
use crate::app::containers::ContainerError;
use crate::app::executor::ExecutorError;

/// Maximum bytes of a request with pictures.
const BODY: usize = 96 << 20;
/// The message for code that asks for input.
const NO_INPUT: &str = "nobody can be asked for input over this API: write the value into the code";
/// The name of these programs, as other clients see it.
const BY: &str = "openai";

/// Adds the routes.
pub(super) fn routes(add: &mut Add<'_>) {
    let large = || DefaultBodyLimit::max(BODY);
    add(
        "/v1/models",
        get(models::list),
        vec![operation("get", "OpenAI: models")],
    );
    add(
        "/v1/models/{*id}",
        get(models::retrieve),
        vec![operation("get", "OpenAI: a model")],
    );
    add(
        "/v1/files",
        get(files::list)
            .post(files::create)
            .layer(DefaultBodyLimit::disable()),
        vec![
            operation("get", "OpenAI: files").query::<listing::Wanted>(),
            operation("post", "OpenAI: a file for containers (multipart)"),
        ],
    );
    add(
        "/v1/files/{id}",
        get(files::retrieve).delete(files::delete),
        vec![
            operation("get", "OpenAI: a file"),
            operation("delete", "OpenAI: delete a file"),
        ],
    );
    add(
        "/v1/files/{id}/content",
        get(files::content),
        vec![operation("get", "OpenAI: the bytes of a file").bytes("*/*")],
    );
    add(
        "/v1/containers",
        get(containers::list).post(containers::create),
        vec![
            operation("get", "OpenAI: containers").query::<listing::Wanted>(),
            operation("post", "OpenAI: a new container").body::<containers::Create>(),
        ],
    );
    add(
        "/v1/containers/{id}",
        get(containers::retrieve).delete(containers::delete),
        vec![
            operation("get", "OpenAI: a container"),
            operation("delete", "OpenAI: delete a container with its files"),
        ],
    );
    add(
        "/v1/containers/{id}/files",
        get(containers::files)
            .post(containers::upload)
            .layer(DefaultBodyLimit::disable()),
        vec![
            operation("get", "OpenAI: files of a container").query::<listing::Wanted>(),
            operation("post", "OpenAI: a file into a container (multipart)"),
        ],
    );
    add(
        "/v1/containers/{id}/files/{file}",
        get(containers::file).delete(containers::delete_file),
        vec![
            operation("get", "OpenAI: a file of a container"),
            operation("delete", "OpenAI: delete a file of a container"),
        ],
    );
    add(
        "/v1/containers/{id}/files/{file}/content",
        get(containers::content),
        vec![operation("get", "OpenAI: the bytes of a file of a container").bytes("*/*")],
    );
    add(
        "/v1/responses",
        post(responses::create).layer(large()),
        vec![operation("post", "OpenAI: ask, with the code interpreter")],
    );
    add(
        "/v1/responses/{id}",
        get(responses::retrieve).delete(responses::delete),
        vec![
            operation("get", "OpenAI: a response"),
            operation("delete", "OpenAI: forget a response"),
        ],
    );
    add(
        "/v1/responses/{id}/cancel",
        post(responses::cancel),
        vec![operation(
            "post",
            "OpenAI: refused; close the connection instead",
        )],
    );
    add(
        "/v1/responses/{id}/input_items",
        get(responses::input_items),
        vec![operation("get", "OpenAI: what a response was asked").query::<listing::Wanted>()],
    );
    add(
        "/v1/chat/completions",
        post(chat::create).layer(large()),
        vec![operation("post", "OpenAI: chat with a session")],
    );
}

/// A [`Problem`] in OpenAI's format.
pub(super) struct Refused(Problem);

/// A handler's result.
type Answer = Result<Response, Refused>;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.into_openai()
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<ContainerError> for Refused {
    fn from(error: ContainerError) -> Self {
        Self(error.into())
    }
}

impl From<ExecutorError> for Refused {
    fn from(error: ExecutorError) -> Self {
        Self(error.into())
    }
}

/// The error for an OpenAI feature that this server does not support.
fn unsupported(what: &str) -> Refused {
    let problem = Problem::new(
        StatusCode::BAD_REQUEST,
        "unsupported",
        format!("{what} is not supported by this server"),
    );
    Refused(problem.hint("docs/openai.md lists what is supported"))
}
