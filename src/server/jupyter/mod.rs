//! Jupyter's REST API and websocket below `/jupyter`, for front ends and programs that use them (`docs/jupyter.md`).
//!
//! - [`kernels`], [`channels`]: kernels without a session, and those of the sessions that run here.
//! - [`specs`], [`sessions`], [`contents`], [`status`]: the other requests that clients need.
//!
//! Fields and statuses follow jupyter_server 2, for which clients were written. Access is the same as for all other
//! routes. `app::registry` and `kernel::Hub` decide what runs in which kernel, and who gets which message.

mod channels;
mod checkpoints;
mod contents;
mod kernels;
mod listing;
pub(super) mod notebooks;
mod sessions;
mod specs;
pub(super) mod state;
mod status;
mod upgrade;

use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::extract::DefaultBodyLimit;
use axum::extract::Query;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use self::checkpoints::Checkpoint;
use self::kernels::KernelModel;
use self::listing::ContentsModel;
use self::sessions::SessionModel;
use super::operation::{Add, operation};
use super::problem::Problem;
use crate::app::registry::StartError;

/// Maximum bytes of a body with a notebook or a file.
const LARGEST_BODY: usize = 128 << 20;

/// What is answered of a path in contents, by what is asked of it.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Contents {
    /// A file, a notebook or a directory.
    Model(Box<ContentsModel>),
    /// Its checkpoints.
    Checkpoints(Vec<Checkpoint>),
    /// A new one.
    Checkpoint(Checkpoint),
}

/// Adds the routes to the server's table.
pub(super) fn routes(add: &mut Add<'_>) {
    let read = |summary| operation("get", summary);
    let send = |summary| operation("post", summary);
    let end = |summary| operation("delete", summary);
    let set = |summary| operation("put", summary);
    let change = |summary| operation("patch", summary);
    add(
        "/jupyter/api",
        get(status::version),
        vec![read("Jupyter: whose API this is").answer::<status::Version>()],
    );
    add(
        "/jupyter/api/status",
        get(status::status),
        vec![read("Jupyter: how much runs").answer::<status::Status>()],
    );
    add(
        "/jupyter/api/me",
        get(status::me),
        vec![read("Jupyter: whose server this is").answer::<status::Me>()],
    );
    add(
        "/jupyter/api/config/{section}",
        get(status::config)
            .put(status::set_config)
            .patch(status::change_config),
        vec![
            read("Jupyter: a front end's settings").answer::<Map<String, Value>>(),
            set("Jupyter: replace them"),
            change("Jupyter: change some").answer::<Map<String, Value>>(),
        ],
    );
    add(
        "/jupyter/api/kernelspecs",
        get(specs::list),
        vec![read("Jupyter: kernels that can be started").answer::<specs::SpecList>()],
    );
    add(
        "/jupyter/api/kernelspecs/{name}",
        get(specs::one),
        vec![read("Jupyter: one of them").answer::<specs::SpecModel>()],
    );
    add(
        "/jupyter/kernelspecs/{name}/{file}",
        get(specs::logo),
        vec![read("Jupyter: its logo").bytes("image/*")],
    );
    of_kernels(add);
    add(
        "/jupyter/api/sessions",
        get(sessions::list).post(sessions::create),
        vec![
            read("Jupyter: notebooks with kernels, Sponde's sessions too")
                .answer::<Vec<SessionModel>>(),
            send("Jupyter: a kernel for a notebook").answer::<SessionModel>(),
        ],
    );
    add(
        "/jupyter/api/sessions/{id}",
        get(sessions::get)
            .patch(sessions::change)
            .delete(sessions::end),
        vec![
            read("Jupyter: one of them").answer::<SessionModel>(),
            change("Jupyter: rename it, or give it another kernel").answer::<SessionModel>(),
            end("Jupyter: end it with its kernel"),
        ],
    );
    let large = DefaultBodyLimit::max(LARGEST_BODY);
    add(
        "/jupyter/api/contents",
        get(contents::get_root)
            .post(contents::create_in_root)
            .layer(large),
        vec![
            read("Jupyter: the server's directory").answer::<ContentsModel>(),
            send("Jupyter: a new file in it").answer::<ContentsModel>(),
        ],
    );
    add(
        "/jupyter/api/contents/{*path}",
        any(contents::any).layer(large),
        vec![
            read("Jupyter: a notebook, a file, a directory, or checkpoints of one")
                .answer::<Contents>(),
            send("Jupyter: a new file in a directory, or a checkpoint").answer::<Contents>(),
            set("Jupyter: save").answer::<ContentsModel>(),
            change("Jupyter: rename").answer::<ContentsModel>(),
            end("Jupyter: remove"),
        ],
    );
    add(
        "/jupyter/files/{*path}",
        get(contents::download),
        vec![read("Jupyter: a file's bytes").bytes("*/*")],
    );
}

fn of_kernels(add: &mut Add<'_>) {
    add(
        "/jupyter/api/kernels",
        get(kernels::list).post(kernels::start),
        vec![
            operation(
                "get",
                "Jupyter: kernels that run, those of Sponde's sessions too",
            )
            .answer::<Vec<KernelModel>>(),
            operation("post", "Jupyter: start a kernel").answer::<KernelModel>(),
        ],
    );
    add(
        "/jupyter/api/kernels/{id}",
        get(kernels::get).delete(kernels::end),
        vec![
            operation("get", "Jupyter: one of them").answer::<KernelModel>(),
            operation("delete", "Jupyter: end it"),
        ],
    );
    add(
        "/jupyter/api/kernels/{id}/interrupt",
        post(kernels::interrupt),
        vec![operation("post", "Jupyter: interrupt what runs")],
    );
    add(
        "/jupyter/api/kernels/{id}/restart",
        post(kernels::restart),
        vec![operation("post", "Jupyter: restart it").answer::<KernelModel>()],
    );
    add(
        "/jupyter/api/kernels/{id}/channels",
        get(channels::channels),
        vec![operation("get", "Jupyter: its messages, by websocket")],
    );
}

/// Whether a path is below `/jupyter`.
pub(super) fn is_at(path: &str) -> bool {
    path.starts_with("/jupyter/")
}

/// The token in the query, where Jupyter's clients send it.
pub(super) fn token_of(uri: &Uri) -> Option<String> {
    #[derive(Deserialize)]
    struct Given {
        token: Option<String>,
    }
    if !is_at(uri.path()) {
        return None;
    }
    let Query(given) = Query::<Given>::try_from_uri(uri).ok()?;
    given.token
}

/// A [`Problem`] in Jupyter's format.
pub(super) struct Refused(Problem);

/// A handler's result.
type Answer = Result<Response, Refused>;

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        self.0.into_jupyter()
    }
}

impl<T: Into<Problem>> From<T> for Refused {
    fn from(problem: T) -> Self {
        Self(problem.into())
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Registry(error) => error.into(),
            StartError::Failed(failure) => failure.into(),
            StartError::Kernel(error) => error.into(),
        }
    }
}

/// Consistent after every change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Parses a body that may be missing. Its content type does not matter: no route here can be used without a token, or
/// from another page with a cookie.
fn body<T: Default + for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad_request(format!("the body cannot be read: {error}")))
}
