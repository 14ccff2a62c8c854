//! Notebooks, cell by cell, as in Open Terminal: each file has a kernel, which executes cells and writes the results
//! back.
//!
//! The file is authoritative: each call reads and writes it, so changes by the user or code in between are kept. A
//! cell that raises an exception is written as well.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::extract::{Json as Body, Path};
use super::super::jupyter::notebooks::for_client;
use super::super::problem::Problem;
use super::super::state::Shared;
use super::state::OpenedNotebook;
use super::{Answer, BY, Refused, user_of};
use crate::app::executor::{FileError, Opening, Unattended, Workspace};
use crate::jupyter::nbformat::{Cell, CellType, Notebook, Output, random_cell_id};

/// Time limit of a cell.
const LIMIT: Duration = Duration::from_mins(2);
/// The kernel of a notebook that names none.
const USUAL: &str = "python3";

/// Which notebook.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Which {
    path: String,
}

/// Which cell.
#[derive(Deserialize, JsonSchema)]
pub(super) struct Execute {
    /// From 0.
    cell_index: usize,
    /// Takes the place of what the cell has.
    source: Option<String>,
}

/// Opens a notebook and starts its kernel.
pub(super) async fn open(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Body(wanted): Body<Which>,
) -> Answer {
    let executor = &shared.terminal.executor;
    let path = wanted.path.clone();
    let notebook = read(executor.workspace(), path).await?;
    let named = notebook.metadata.get("kernelspec");
    let named = named.and_then(|it| it.get("name")?.as_str());
    let opened = OpenedNotebook {
        id: uuid::Uuid::new_v4().simple().to_string(),
        owner: user_of(&headers).map(str::to_owned),
        path: wanted.path,
        kernel: named.unwrap_or(USUAL).to_owned(),
        running: tokio::sync::Mutex::default(),
    };
    let opening = Opening {
        kernel: Some(opened.kernel.clone()),
        ..Opening::default()
    };
    executor.open(&opened.session(), opening).await?;
    let answer = json!({ "id": opened.id, "kernel": opened.kernel, "status": "ready" });
    if let Some(oldest) = shared.terminal.notebooks.add(opened) {
        executor.forget(&oldest.session()).await;
    }
    Ok(Json(answer).into_response())
}

/// Runs a cell, and writes its result to the file.
pub(super) async fn execute(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(wanted): Body<Execute>,
) -> Answer {
    let opened = shared.terminal.notebooks.get(&id, user_of(&headers))?;
    let Ok(_running) = opened.running.try_lock() else {
        let message = "a cell of this notebook runs already";
        return Err(Problem::new(StatusCode::CONFLICT, "busy", message).into());
    };
    let executor = &shared.terminal.executor;
    let mut notebook = read(executor.workspace(), opened.path.clone()).await?;
    let source = {
        let cell = cell_at(&mut notebook, wanted.cell_index)?;
        if let Some(source) = wanted.source {
            cell.source = source;
        }
        match cell.kind {
            CellType::Code { .. } => Some(cell.source.clone()),
            CellType::Markdown | CellType::Raw | CellType::Other { .. } => None,
        }
    };
    let (mut status, mut count, mut made) = ("ok", None, Vec::new());
    if let Some(source) = source {
        let opening = Opening {
            kernel: Some(opened.kernel.clone()),
            ..Opening::default()
        };
        let session = executor.open(&opened.session(), opening).await?;
        let mut turn = session.run(BY, source, None, Some(LIMIT)).await?;
        let unattended = Unattended {
            no_input: "nobody can be asked for input: write the value into the code",
        };
        while unattended.next(&mut turn).await.is_some() {}
        let outcome = turn.outcome().clone();
        drop(turn);
        count = outcome.count;
        if let Some(cell) = outcome.cells.last()
            && let Some(cell) = session.cell(cell).await
        {
            made = cell.outputs.to_notebook();
        }
        if outcome.word() != "ok" {
            status = "error";
            if !made.iter().any(|it| matches!(it, Output::Error { .. })) {
                made.push(stopped(&session.told(&outcome, String::new(), true)));
            }
        }
        let cell = cell_at(&mut notebook, wanted.cell_index)?;
        cell.kind = CellType::Code {
            execution_count: count,
            outputs: made,
        };
    }
    let text = notebook.to_json();
    let outputs = outputs_of(text.as_bytes(), wanted.cell_index)?;
    let (workspace, path) = (executor.workspace(), opened.path.clone());
    blocking(move || workspace.write(&path, text.as_bytes())).await?;
    Ok(
        Json(json!({ "status": status, "execution_count": count, "outputs": outputs }))
            .into_response(),
    )
}

/// Whether a cell of a notebook is running.
pub(super) async fn status(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let opened = shared.terminal.notebooks.get(&id, user_of(&headers))?;
    let status = match opened.running.try_lock() {
        Ok(_) => "ready",
        Err(_) => "busy",
    };
    let answer =
        json!({ "id": opened.id, "path": opened.path, "kernel": opened.kernel, "status": status });
    Ok(Json(answer).into_response())
}

/// Ends the kernel of a notebook.
pub(super) async fn close(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let opened = shared.terminal.notebooks.get(&id, user_of(&headers))?;
    shared.terminal.notebooks.remove(&id);
    shared.terminal.executor.forget(&opened.session()).await;
    Ok(Json(json!({ "status": "stopped" })).into_response())
}

async fn read(workspace: Workspace, path: String) -> Result<Notebook, Refused> {
    let bytes = blocking(move || workspace.read(&path)).await?;
    let loaded = Notebook::read(&bytes, &mut random_cell_id);
    let loaded = loaded
        .map_err(|error| Problem::bad_request(format!("this notebook cannot be read: {error}")))?;
    Ok(loaded.notebook)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|error| Problem::internal(error.to_string()))??)
}

fn cell_at(notebook: &mut Notebook, index: usize) -> Result<&mut Cell, Problem> {
    let count = notebook.cells.len();
    notebook.cells.get_mut(index).ok_or_else(|| {
        Problem::bad_request(format!(
            "there is no cell {index}: the notebook has {count}, counted from 0"
        ))
    })
}

/// The outputs of a cell in the clients' format.
fn outputs_of(notebook: &[u8], index: usize) -> Result<Value, Problem> {
    let mut notebook = for_client(notebook)?;
    let outputs = notebook.pointer_mut(&format!("/cells/{index}/outputs"));
    Ok(outputs.map_or_else(|| json!([]), Value::take))
}

/// The output of a cell that was stopped.
fn stopped(words: &str) -> Output {
    Output::Error {
        ename: "Stopped".to_owned(),
        evalue: words.trim().to_owned(),
        traceback: vec![words.trim().to_owned()],
        extra: Map::new(),
    }
}
