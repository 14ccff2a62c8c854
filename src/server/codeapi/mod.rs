//! LibreChat's Code API at `/codeapi` (`docs/librechat.md`): code runs as a script, files are uploaded and downloaded
//! by id. `app::containers` runs the code and stores the files; this module only translates to LibreChat's format.

mod exec;
mod files;
mod ids;
pub(super) mod state;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};

use super::operation::{Add, operation};
use super::problem::Problem;
use crate::app::containers::ContainerError;

/// Minutes that files are kept without use: LibreChat uploads a file again after 23 hours.
const KEPT: u32 = 24 * 60;
/// The name of these programs, as other clients see it.
const BY: &str = "librechat";

/// Adds the routes.
pub(super) fn routes(add: &mut Add<'_>) {
    add(
        "/codeapi/exec",
        post(exec::exec),
        vec![operation("post", "LibreChat: run code").body::<exec::Exec>()],
    );
    add(
        "/codeapi/exec/programmatic",
        post(exec::programmatic),
        vec![operation(
            "post",
            "LibreChat: refused; code cannot call LibreChat's tools",
        )],
    );
    add(
        "/codeapi/upload",
        post(files::upload).layer(DefaultBodyLimit::disable()),
        vec![operation("post", "LibreChat: a file (multipart)")],
    );
    add(
        "/codeapi/upload/batch",
        post(files::upload_batch).layer(DefaultBodyLimit::disable()),
        vec![operation("post", "LibreChat: files (multipart)")],
    );
    add(
        "/codeapi/files/{session}",
        get(files::list),
        vec![operation("get", "LibreChat: files of an upload or a run").query::<files::Wanted>()],
    );
    add(
        "/codeapi/files/{session}/{file}",
        delete(files::remove),
        vec![operation("delete", "LibreChat: delete a file")],
    );
    add(
        "/codeapi/download/{session}/{file}",
        get(files::download),
        vec![operation("get", "LibreChat: the bytes of a file").bytes("*/*")],
    );
    add(
        "/codeapi/sessions/{session}/objects/{file}",
        get(files::object),
        vec![operation("get", "LibreChat: what is known of a file")],
    );
    add(
        "/codeapi/health",
        get(health),
        vec![operation("get", "LibreChat: whether it lives")],
    );
}

async fn health() -> &'static str {
    "OK"
}

/// A [`Problem`] in LibreChat's form.
pub(super) struct Refused(Problem);

/// A handler's result.
type Answer = Result<Response, Refused>;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.into_codeapi()
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

/// The error for a file that does not exist or has expired.
fn no_file() -> Refused {
    let status = StatusCode::NOT_FOUND;
    let problem = Problem::new(status, "not_found", "File not found");
    Refused(problem.hint("The file may have expired or does not exist"))
}
