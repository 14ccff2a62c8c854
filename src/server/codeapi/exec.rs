//! `/codeapi/exec`: runs code in a new container, or in the container of its conversation.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::extract::Json as Body;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::ids::{container_of, file_of, session_of};
use super::{Answer, BY, KEPT, Refused};
use crate::app::containers::{
    ContainerError, ContainerFile, Containers, MadeFiles, Scratch, Script, ScriptOutcome,
};

/// Time limit of code.
const LIMIT: Duration = Duration::from_mins(5);
/// Maximum files sent along with code.
const FILES: usize = 500;
/// Maximum characters of a conversation's name.
const HINT: usize = 256;
/// File suffixes of pictures.
const PICTURES: [&str; 6] = ["png", "jpg", "jpeg", "svg", "gif", "webp"];

/// What is to run.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Exec {
    /// `py`, `bash`, `js`, `ts`, `r`, `java`: whatever there is a kernel for.
    lang: String,
    code: String,
    args: Option<Vec<String>>,
    /// Files that the code finds.
    files: Option<Vec<FileRef>>,
    /// The conversation: its runs share a directory and a kernel.
    runtime_session_hint: Option<String>,
}

/// A file that was uploaded, or that an earlier run left.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
struct FileRef {
    id: String,
    #[serde(alias = "session_id")]
    storage_session_id: String,
    name: String,
}

/// The container for the code.
enum Place {
    Scratch(Scratch),
    Conversation { id: String, is_new: bool },
}

impl Place {
    fn id(&self) -> &str {
        match self {
            Self::Scratch(scratch) => &scratch.id,
            Self::Conversation { id, .. } => id,
        }
    }

    async fn of(
        shared: &Shared,
        hint: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Self, ContainerError> {
        let containers = &shared.codeapi.containers;
        let Some(hint) = hint.filter(|hint| !hint.is_empty()) else {
            return Ok(Self::Scratch(containers.scratch("run", KEPT).await?));
        };
        // Users of the same LibreChat must not reach each other's conversations by guessing a name.
        let user = headers.get("user-id").and_then(|it| it.to_str().ok());
        let hint: String = hint.chars().take(HINT).collect();
        let name = format!("{}\0{hint}", user.unwrap_or_default());
        let conversations = &shared.codeapi.conversations;
        if let Some(id) = conversations.container(&name) {
            match containers.get(&id).await {
                Ok(container) => {
                    let (id, is_new) = (container.id, false);
                    return Ok(Self::Conversation { id, is_new });
                }
                Err(ContainerError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let made = containers.create("conversation", Some(KEPT)).await?;
        conversations.keep(&name, &made.id);
        let (id, is_new) = (made.id, true);
        Ok(Self::Conversation { id, is_new })
    }
}

/// Runs code.
pub(super) async fn exec(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Body(wanted): Body<Exec>,
) -> Answer {
    let sent = wanted.files.unwrap_or_default();
    if sent.len() > FILES {
        let message = format!("{FILES} files are the most for one run");
        return Err(Problem::bad_request(message).into());
    }
    let containers = &shared.codeapi.containers;
    let hint = wanted.runtime_session_hint.as_deref();
    let place = Place::of(&shared, hint, &headers).await?;
    let id = place.id().to_owned();
    let (brought, mut missing) = bring(containers, &id, sent).await?;
    let before = MadeFiles::since(containers.files(&id).await?);
    let script = Script {
        code: wanted.code,
        language: wanted.lang,
        arguments: wanted.args.unwrap_or_default(),
        limit: LIMIT,
    };
    let mut outcome = containers.run_script(&id, BY, script).await?;
    let mut files = containers.files(&id).await?;
    let saved = before.among(files.clone());
    // A picture that was both displayed and saved is returned once.
    if !outcome.pictures.is_empty() && !saved.iter().any(is_picture) {
        let pictures = std::mem::take(&mut outcome.pictures);
        containers.keep_pictures(&id, pictures).await?;
        files = containers.files(&id).await?;
    }
    missing.push_str(&outcome.stderr);
    outcome.stderr = missing;
    let made = before.among(files.clone());
    let runtime = match &place {
        Place::Scratch(_) => None,
        Place::Conversation { is_new, .. } => Some(if *is_new { "new" } else { "reused" }),
    };
    Ok(Json(answer(&id, &outcome, &brought, &made, &files, runtime)).into_response())
}

/// Copies the files that code needs into the container. Returns their paths, and a text about the missing ones.
async fn bring(
    containers: &Containers,
    id: &str,
    sent: Vec<FileRef>,
) -> Result<(Vec<(String, FileRef)>, String), Refused> {
    let (mut brought, mut missing) = (Vec::new(), String::new());
    for file in sent {
        let from = container_of(&file.storage_session_id);
        let files = match &from {
            Some(from) => containers.files(from).await,
            None => Err(ContainerError::Unknown(file.storage_session_id.clone())),
        };
        let found = match files {
            Ok(files) => files.into_iter().find(|it| file_of(&it.id) == file.id),
            Err(ContainerError::Unknown(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(found) = found else {
            let name: String = file
                .name
                .chars()
                .filter(|it| !it.is_control())
                .take(200)
                .collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                missing,
                "`{name}` is no longer there: it has to be uploaded again"
            );
            continue;
        };
        let source = (found.container.as_str(), found.id.as_str());
        let path = containers.bring(id, &file.name, source).await?;
        brought.push((path, file));
    }
    Ok((brought, missing))
}

fn is_picture(file: &ContainerFile) -> bool {
    let ending = file
        .path
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    ending.is_some_and(|ending| PICTURES.contains(&ending.as_str()))
}

fn answer(
    id: &str,
    outcome: &ScriptOutcome,
    brought: &[(String, FileRef)],
    made: &[ContainerFile],
    files: &[ContainerFile],
    runtime: Option<&str>,
) -> Value {
    let session = session_of(id);
    let is_made = |path: &str| made.iter().any(|file| file.path == path);
    let there: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut told: Vec<Value> = made
        .iter()
        .map(|file| {
            let mut told = json!({
                "id": file_of(&file.id),
                "name": file.path,
                "storage_session_id": session,
            });
            let from = brought.iter().find(|(path, _)| *path == file.path);
            if let Some((_, from)) = from {
                told["modified_from"] =
                    json!({ "id": from.id, "storage_session_id": from.storage_session_id });
            }
            told
        })
        .collect();
    let unchanged = brought
        .iter()
        .filter(|(path, _)| there.contains(path.as_str()) && !is_made(path));
    told.extend(unchanged.map(|(_, file)| {
        json!({
            "id": file.id, "name": file.name, "storage_session_id": file.storage_session_id,
            "inherited": true,
        })
    }));
    let gone = brought
        .iter()
        .filter(|(path, _)| !there.contains(path.as_str()));
    let gone: Vec<&str> = gone.map(|(_, file)| file.name.as_str()).collect();
    let mut answer = json!({
        "session_id": session,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "files": told,
        "code": outcome.code,
        "signal": null,
        "message": null,
        "status": outcome.timed_out.then_some("TO"),
        "wall_time": u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
    });
    if !gone.is_empty() {
        answer["deleted_files"] = gone.into();
    }
    if let Some(runtime) = runtime {
        answer["runtime_session_id"] = session_of(id).into();
        answer["runtime_status"] = runtime.into();
    }
    answer
}

/// Code that calls LibreChat's own tools is not supported.
pub(super) async fn programmatic() -> Refused {
    let problem = Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "unsupported",
        "code cannot call LibreChat's tools on this server",
    );
    Refused(problem.hint("leave the capability `programmatic_tools` out of librechat.yaml"))
}
