//! `new_session`, `undo` and `export_notebook`.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::call::Call;
use super::super::change::Change;
use super::super::resources::{notebook_uri, notebook_uri_as};
use super::super::state::McpServer;
use super::{Arguments, Failed, default_session, fields, said};
use crate::app::executor::{Opening, UndoOutcome};
use crate::app::exported::Exported;

/// Runs that can be taken back at once.
const TURNS: u32 = 100;

/// What `new_session` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewSession {
    /// What it is called; default is a name that is free.
    name: Option<String>,
    /// The main kernel, by its name or language; default is Python.
    kernel: Option<String>,
}

/// What `undo` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    /// The session.
    #[serde(default = "default_session")]
    session: String,
    /// How many runs to take back; default is 1.
    turns: Option<u32>,
    /// Also if not all will be as it was. Without it you are told what would not be.
    #[serde(default)]
    anyway: bool,
}

/// What `export_notebook` takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportNotebook {
    /// The session.
    #[serde(default = "default_session")]
    session: String,
    /// `ipynb`, `html`, `md` or `py`; default is what `path` ends with, else `ipynb`.
    format: Option<String>,
    /// Where to write it, relative to the workspace.
    path: Option<String>,
}

pub(super) async fn create(
    server: &McpServer,
    arguments: Arguments<NewSession>,
) -> Result<Value, Failed> {
    let NewSession { name, kernel } = arguments?;
    if let Some(kernel) = kernel
        .as_deref()
        .filter(|it| it.contains('/') || it.starts_with('.'))
    {
        // A path would start a program of the client's choice.
        return Err(
            Failed::new(format!("`{kernel}` is a path, and a kernel is named"))
                .hint("name a language, such as python, r or bash"),
        );
    }
    let opening = Opening {
        kernel,
        ..Opening::default()
    };
    let session = server
        .executor()
        .new_session(name.as_deref(), opening)
        .await?;
    server.changed(Change::List);
    let languages: Vec<&str> = session
        .live
        .kernels
        .iter()
        .map(|it| &*it.language)
        .collect();
    let notebook = session.live.notebook.display().to_string();
    let mut text = format!(
        "session `{}` is open for {}; its notebook is {notebook}",
        session.name,
        languages.join(", ")
    );
    for note in &session.notes {
        let _ = write!(text, "\n[{note}]");
    }
    let fields = fields::OpenSession {
        session: &session.name,
        id: &session.live.id,
        languages,
        notebook,
        resource: notebook_uri(&session.name),
        sandbox: &session.live.sandbox,
    };
    Ok(said(text, &fields))
}

pub(super) async fn undo(
    server: &McpServer,
    call: &Call,
    arguments: Arguments<Undo>,
) -> Result<Value, Failed> {
    let Undo {
        session,
        turns,
        anyway,
    } = arguments?;
    let session = server.executor().running(&session)?;
    let turns = turns.unwrap_or(1).clamp(1, TURNS);
    match session.undo(&call.caller.name, turns, anyway).await? {
        UndoOutcome::Undone(undone) => {
            server.changed(Change::List);
            server.changed(Change::Updated(notebook_uri(&session.name)));
            let mut text = format!(
                "cells undone: {}; variables: {}",
                undone.cells, undone.variables
            );
            for (what, files) in [("restored", &undone.restored), ("removed", &undone.removed)] {
                if !files.is_empty() {
                    let _ = write!(text, "\n{what}: {}", files.join(", "));
                }
            }
            for note in &undone.notes {
                let _ = write!(text, "\n[{note}]");
            }
            Ok(said(text, &undone))
        }
        UndoOutcome::Inexact(what) => Err(Failed::new(format!(
            "nothing was undone, because undo would be incomplete: {}",
            what.join("; ")
        ))
        .hint("call it with `anyway` if that does not matter")),
        UndoOutcome::Refused(why) => Err(Failed::new(format!("nothing was undone: {why}"))),
    }
}

pub(super) async fn export(
    server: &McpServer,
    arguments: Arguments<ExportNotebook>,
) -> Result<Value, Failed> {
    let ExportNotebook {
        session,
        format,
        path,
    } = arguments?;
    let session = server.executor().running(&session)?;
    let of_path = path.as_deref().and_then(|path| path.rsplit_once('.'));
    let ending = format.or_else(|| of_path.map(|(_, ending)| ending.to_owned()));
    let ending = ending.unwrap_or_else(|| "ipynb".to_owned());
    let format = Exported::of_ending(&ending).ok_or_else(|| {
        Failed::new(format!("`{ending}` is not a format")).hint("there are ipynb, html, md and py")
    })?;
    let uri = notebook_uri_as(&session.name, &ending);
    let link = json!({
        "type": "resource_link",
        "uri": uri,
        "name": format!("{}.{ending}", session.name),
        "mimeType": format.mime(),
    });
    let Some(path) = path else {
        let kept = session.live.notebook.display();
        let text = format!("{uri}\nthe notebook itself is kept in {kept}");
        return Ok(json!({ "content": [{ "type": "text", "text": text }, link] }));
    };
    let exported = session.export(format).await;
    let exported = exported.ok_or_else(|| Failed::new("the session has ended"))?;
    let workspace = server.executor().workspace();
    let to = path.clone();
    let written = tokio::task::spawn_blocking(move || workspace.write(&to, exported.as_bytes()));
    let written = written
        .await
        .map_err(|error| Failed::new(error.to_string()))?;
    let bytes = written.map_err(|error| Failed::new(error.to_string()).or_hint(error.hint()))?;
    let text = format!("wrote {bytes} bytes to {path}");
    Ok(json!({ "content": [{ "type": "text", "text": text }, link] }))
}
