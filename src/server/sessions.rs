//! Creates, resumes, lists, describes and ends sessions.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::directories;
use super::events::client_name;
use super::extract::{Json, Path, Query};
use super::problem::Problem;
use super::state::Shared;
use crate::agent::approval::Approval;
use crate::agent::sessions::Found;
use crate::app::registry::{LiveSession, OpenRequest, is_id};
use crate::app::{ModelAt, Notice, SessionSettings, forks, session};

/// Maximum bytes of a client's instructions.
const INSTRUCTIONS: usize = 64 << 10;

/// The variable that tells Bokeh where its charts find the library.
const BOKEH: &str = "BOKEH_RESOURCES";

/// What `POST /api/sessions` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Create {
    /// The model, as for `--model`.
    model: Option<String>,
    /// The main kernel, by name or language.
    kernel: Option<String>,
    /// Where the notebook is kept; one that is there goes on.
    notebook: Option<String>,
    /// Files that the model is told about, relative to the directory.
    files: Vec<String>,
    /// When a person is asked before code runs.
    approval: Option<Approval>,
    /// What is added to the model's system prompt, at most 64 KiB.
    instructions: Option<String>,
    /// The session that goes on.
    resume: Option<String>,
    /// Where it works, relative to the server's directory.
    directory: Option<String>,
}

/// What it answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Created {
    id: String,
    /// What a person should know about the start.
    notices: Vec<String>,
}

/// Creates a session, or resumes one.
pub(super) async fn create(
    State(shared): State<Arc<Shared>>,
    Json(wanted): Json<Create>,
) -> Result<Response, Problem> {
    if let Some(id) = &wanted.resume {
        check_place(&shared, id).await?;
    }
    let created = open(&shared, wanted).await?;
    Ok((StatusCode::CREATED, axum::Json(created)).into_response())
}

/// What `POST /api/sessions/{id}/fork` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ForkAt {
    /// The last cell that is taken over: its id, or its number from 1; without it all are.
    at: Option<String>,
}

/// Creates another session that begins like this one.
pub(super) async fn fork(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Json(wanted): Json<ForkAt>,
) -> Result<Response, Problem> {
    if !is_id(&id) {
        return Err(Problem::no_session(&id));
    }
    check_place(&shared, &id).await?;
    let context = shared.registry.context().clone();
    let making =
        tokio::task::spawn_blocking(move || forks::fork(&id, wanted.at.as_deref(), &context));
    let forked = making
        .await
        .map_err(|error| Problem::internal(error.to_string()))??;
    let opened = open(
        &shared,
        Create {
            resume: Some(forked.id.clone()),
            ..Create::default()
        },
    )
    .await;
    if opened.is_err() {
        let context = shared.registry.context().clone();
        let discarding = move || forks::discard(&forked.id, &context);
        // The error says what went wrong.
        let _ = tokio::task::spawn_blocking(discarding).await;
    }
    Ok((StatusCode::CREATED, axum::Json(opened?)).into_response())
}

async fn open(shared: &Shared, wanted: Create) -> Result<Created, Problem> {
    let request = request(shared, wanted)?;
    let (live, notices) = shared.registry.open(request).await?;
    let notices = notices.into_iter().filter_map(|notice| match notice {
        Notice::Info(text) | Notice::Warning(text) => Some(text),
        Notice::StepBegan { .. } | Notice::StepOutput { .. } | Notice::StepEnded { .. } => None,
    });
    Ok(Created {
        id: live.id.clone(),
        notices: notices.collect(),
    })
}

/// Checks that a resumed session's directory is in the server's directory too.
async fn check_place(shared: &Shared, id: &str) -> Result<(), Problem> {
    if shared.registry.get(id).is_some() {
        return Ok(());
    }
    let stored = stored(shared).await?;
    if stored.iter().any(|it| it.id == id) {
        return Ok(());
    }
    Err(Problem::not_found(format!(
        "there is no session `{id}` that worked in the server's directory"
    ))
    .hint(
        "start the server with a --root that holds the session's directory, or use `sponde resume`",
    ))
}

/// The stored sessions whose directory is in the server's directory.
async fn stored(shared: &Shared) -> Result<Vec<Found>, Problem> {
    let (registry, root) = (shared.registry.clone(), shared.root.clone());
    let stored = tokio::task::spawn_blocking(move || {
        let mut stored = registry.stored();
        stored.retain(|it| {
            let begin = it.begin.as_ref();
            // A session whose directory is gone continues in the server's.
            begin.is_some_and(|it| match it.cwd.canonicalize() {
                Ok(cwd) => cwd.starts_with(&root),
                Err(_) => it.cwd.starts_with(&root),
            })
        });
        stored
    });
    stored
        .await
        .map_err(|error| Problem::internal(error.to_string()))
}

/// Checks a client's wishes against its permissions.
fn request(shared: &Shared, wanted: Create) -> Result<OpenRequest, Problem> {
    let root = &shared.root;
    let directory = directories::of_session(root, wanted.directory.as_deref())?;
    let defaults = &shared.defaults;
    if let Some(approval) = wanted.approval {
        may_be(approval, shared)?;
    }
    let instructions = wanted.instructions.filter(|it| !it.trim().is_empty());
    if let Some(bytes) = instructions.as_ref().map(String::len)
        && bytes > INSTRUCTIONS
    {
        return Err(Problem::bad_request(format!(
            "the instructions have {bytes} bytes, and at most {INSTRUCTIONS} are taken"
        ))
        .hint("put long material in a file, and name it in `files`"));
    }
    let kernels = match wanted.kernel {
        None => defaults.kernels.clone(),
        // A path would start a program of the client's choice.
        Some(kernel) if kernel.contains('/') || kernel.starts_with('.') => {
            return Err(Problem::forbidden("a kernel is named, not its path")
                .hint("`GET /api/kernels` lists them"));
        }
        Some(kernel) => vec![kernel],
    };
    let notebook = wanted.notebook.as_deref();
    let notebook = notebook.map(|it| directories::below(root, &directory, it));
    let files = wanted.files.iter();
    let files = files.map(|it| directories::below(root, &directory, it));
    let resume = wanted.resume;
    let settings = SessionSettings {
        model: wanted.model.or_else(|| defaults.model.clone()),
        kernels,
        notebook: notebook.transpose()?,
        files: files.collect::<Result<_, _>>()?,
        approval: wanted.approval.or(defaults.approval),
        instructions,
        attended: true,
        model_at: ModelAt::IfAny,
        ..defaults.clone()
    };
    // Frames of outputs have no network, so Bokeh must embed its library.
    let environment = &shared.registry.context().paths.environment;
    let bokeh = environment.get(BOKEH).is_none();
    let bokeh = bokeh.then(|| (BOKEH.to_owned(), "inline".to_owned()));
    Ok(OpenRequest {
        settings,
        directory: Some(directory),
        variables: bokeh.into_iter().collect(),
        resume,
    })
}

/// Checks the approval mode that a client wants: it can ask for more approvals than the server's mode, never for
/// fewer.
pub(super) fn may_be(approval: Approval, shared: &Shared) -> Result<(), Problem> {
    if approval <= session::usual_approval(&shared.defaults, shared.registry.context()) {
        return Ok(());
    }
    Err(
        Problem::forbidden("this server asks before code runs, and a client cannot change that")
            .hint("start it with `sponde serve --yes` if code may run unasked"),
    )
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    live: Vec<Live>,
    stored: Vec<Stored>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Live {
    id: String,
    title: Option<String>,
    directory: String,
    notebook: String,
    model: Option<String>,
    kernel: Option<String>,
    sandbox: String,
    clients: usize,
    busy: bool,
    pending: bool,
    started: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Stored {
    id: String,
    title: Option<String>,
    directory: Option<String>,
    updated: String,
    cells: usize,
    /// Whether another process has it open.
    open: bool,
}

/// Lists running sessions, and stored ones that can be resumed here.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Result<Response, Problem> {
    let stored = stored(&shared).await?;
    let live = shared.registry.list();
    let is_live = |id: &str| live.iter().any(|it| it.id == id);
    let stored = stored.into_iter().filter(|it| !is_live(&it.id));
    let listed = Listed {
        stored: stored.map(Stored::from).collect(),
        live: live.iter().map(|it| Live::from(&**it)).collect(),
    };
    Ok(axum::Json(listed).into_response())
}

impl From<&LiveSession> for Live {
    fn from(live: &LiveSession) -> Self {
        let activity = live.activity();
        Self {
            id: live.id.clone(),
            title: activity.title,
            directory: live.directory.display().to_string(),
            notebook: live.notebook.display().to_string(),
            model: activity.model,
            kernel: live.kernels.first().map(|it| it.kernel.clone()),
            sandbox: live.sandbox.clone(),
            clients: live.clients(),
            busy: activity.is_busy,
            pending: activity.is_pending,
            started: live.started.to_string(),
        }
    }
}

impl From<Found> for Stored {
    fn from(found: Found) -> Self {
        Self {
            title: found.summary.name().map(str::to_owned),
            directory: found.begin.map(|it| it.cwd.display().to_string()),
            updated: found.modified.to_string(),
            cells: found.summary.code_cells,
            open: found.open.is_some(),
            id: found.id,
        }
    }
}

/// The current state of a session.
pub(super) async fn snapshot(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let live = shared.live(&id)?;
    let snapshot = live.handle().snapshot().await?;
    Ok(axum::Json(super::events::snapshot_item(&snapshot)).into_response())
}

/// Who ends a session.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Ender {
    #[serde(rename = "as")]
    name: Option<String>,
}

/// Ends a session; its files stay.
pub(super) async fn end(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(ender): Query<Ender>,
) -> Result<StatusCode, Problem> {
    let by = client_name(ender.name.as_deref());
    let registry = shared.registry.clone();
    registry.end_for(&id, Some(&by)).await?;
    tracing::info!(id, by, "a session was ended");
    Ok(StatusCode::NO_CONTENT)
}
