//! The tools: their arguments and their results.
//!
//! A tool that fails returns `isError` with text for the client's model: what was tried, what happened, what to do.
//! Only a violation of the protocol is a protocol error.

mod ask;
mod fields;
mod files;
mod follow;
mod results;
mod sessions;
mod variables;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::app;
use super::call::Call;
use super::state::McpServer;
use crate::agent::event::Undone;
use crate::app::executor::{DEFAULT, ExecutorError};
use crate::rpc::RpcError;

/// A tool's effect on the world, as reported to clients.
#[derive(Clone, Copy)]
enum Effect {
    /// It is read-only.
    Reads,
    /// It may change or remove something.
    Changes,
}

/// The tools, in a stable order.
pub(super) fn list(has_model: bool) -> Vec<Value> {
    let mut tools = vec![
        with_page(tool::<follow::RunCode>(
            "run_code",
            "Run code",
            "Run code in a live kernel and get what it prints, its result and its plots. Variables stay for the next call with the \
             same session. Every run is kept as a cell of the session's notebook. Long output is cut in the middle, and a link \
             leads to all of it. The working directory is the workspace.",
            Effect::Changes,
        )),
        gives::<fields::Variables<'_>>(tool::<variables::ListVariables>(
            "list_variables",
            "List variables",
            "The variables that live in a session's kernel: name, type, shape and how each begins. Runs no code of yours.",
            Effect::Reads,
        )),
        gives::<fields::ReadVariable<'_>>(tool::<variables::ReadVariable>(
            "read_variable",
            "Read a variable",
            "Rows of a table (data frame, series, array) in a Python session, sorted and filtered in the kernel, a window at a time; \
             of another variable its beginning.",
            Effect::Reads,
        )),
        gives::<fields::Files>(tool::<files::ListFiles>(
            "list_files",
            "List files",
            "What is in a directory of the workspace.",
            Effect::Reads,
        )),
        tool::<files::ReadFile>(
            "read_file",
            "Read a file",
            "A file of the workspace: text by lines, a picture as an image, anything else as bytes. Look at large tables with code \
             instead.",
            Effect::Reads,
        ),
        gives::<fields::Written>(tool::<files::WriteFile>(
            "write_file",
            "Write a file",
            "Write a file of the workspace, whole or not at all; directories are made. One that is there is replaced.",
            Effect::Changes,
        )),
        gives::<fields::OpenSession<'_>>(tool::<sessions::NewSession>(
            "new_session",
            "New session",
            "Open another session: its own kernel, variables and notebook, in the same workspace.",
            Effect::Changes,
        )),
        gives::<Undone>(tool::<sessions::Undo>(
            "undo",
            "Undo",
            "Take the last runs of a session back: their cells, the variables of a Python kernel, and the files that they changed in \
             the workspace.",
            Effect::Changes,
        )),
        tool::<sessions::ExportNotebook>(
            "export_notebook",
            "Export the notebook",
            "All that a session has run, as a notebook (ipynb), a web page (html), Markdown (md) or a script (py): as a file in the \
             workspace if you give a path, else as a resource.",
            Effect::Changes,
        ),
    ];
    if has_model {
        tools.push(with_page(tool::<ask::Ask>(
            "ask",
            "Ask the data analyst",
            "Give a whole question to Sponde's own agent: it writes and runs code in the session until it has the answer. It sees the \
             session's variables and files.",
            Effect::Changes,
        )));
    }
    tools
}

/// Declares the fields that a tool returns whenever it succeeds.
fn gives<T: JsonSchema>(mut tool: Value) -> Value {
    if let Value::Object(own) = &mut tool {
        own.insert("outputSchema".to_owned(), fields::schema::<T>());
    }
    tool
}

/// Adds the page to a tool whose results are outputs of cells.
fn with_page(mut tool: Value) -> Value {
    if let Value::Object(fields) = &mut tool {
        fields.insert("_meta".to_owned(), app::meta());
    }
    tool
}

fn tool<T: JsonSchema>(name: &str, title: &str, description: &str, effect: Effect) -> Value {
    let is_read = matches!(effect, Effect::Reads);
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": input_schema::<T>(),
        "annotations": {
            "title": title,
            "readOnlyHint": is_read,
            "destructiveHint": !is_read,
            "openWorldHint": false,
        },
    })
}

/// The `inputSchema` for `T`.
fn input_schema<T: JsonSchema>() -> Value {
    let mut schema = fields::inlined::<T>(SchemaSettings::draft2020_12());
    if let Value::Object(fields) = &mut schema {
        fields.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Calls a tool.
///
/// # Errors
/// There is no such tool, or the call is malformed.
pub(super) async fn call(
    server: &McpServer,
    params: &Map<String, Value>,
    call: &Call,
) -> Result<Value, RpcError> {
    let name = params.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| RpcError::params("`name` is missing"))?;
    if params.contains_key("requestState") {
        return follow::go_on(server, params, call).await;
    }
    match name {
        "run_code" => follow::run_code(server, params, call).await,
        "list_variables" => answered(variables::list(server, arguments(params)).await),
        "read_variable" => answered(variables::read(server, arguments(params)).await),
        "list_files" => answered(files::list(server, arguments(params)).await),
        "read_file" => answered(files::read(server, arguments(params)).await),
        "write_file" => answered(files::write(server, arguments(params)).await),
        "new_session" => answered(sessions::create(server, arguments(params)).await),
        "undo" => answered(sessions::undo(server, call, arguments(params)).await),
        "export_notebook" => answered(sessions::export(server, arguments(params)).await),
        "ask" if server.has_model().await => ask::ask(server, params, call).await,
        other => Err(RpcError::params(format!(
            "there is no tool `{other}`: `tools/list` says which there are"
        ))),
    }
}

/// A tool's arguments, or why they are invalid.
type Arguments<T> = Result<T, Failed>;

/// The arguments of a call.
fn arguments<T: DeserializeOwned>(params: &Map<String, Value>) -> Arguments<T> {
    let given = params.get("arguments").cloned();
    let given = given
        .filter(|it| !it.is_null())
        .unwrap_or_else(|| json!({}));
    T::deserialize(given).map_err(|error| {
        Failed::new(format!("the arguments do not fit: {error}"))
            .hint("the tool's input schema says what it takes")
    })
}

/// A failed tool: text for the client's model.
#[derive(Debug)]
pub(super) struct Failed {
    message: String,
    hint: Option<String>,
}

impl Failed {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn or_hint(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// The failure as a result.
    pub(super) fn result(&self) -> Value {
        let mut text = format!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            text.push_str("\nhint: ");
            text.push_str(hint);
        }
        json!({ "content": [{ "type": "text", "text": text }], "isError": true })
    }
}

impl From<ExecutorError> for Failed {
    fn from(error: ExecutorError) -> Self {
        let hint = error.hint();
        Self::new(error.to_string()).or_hint(hint)
    }
}

/// A result whose text and fields have the same content.
fn said(text: impl Into<String>, fields: &impl Serialize) -> Value {
    let text: String = text.into();
    json!({ "content": [{ "type": "text", "text": text }], "structuredContent": fields })
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "as all answers of a request: a tool that fails is an answer"
)]
fn answered(outcome: Result<Value, Failed>) -> Result<Value, RpcError> {
    Ok(outcome.unwrap_or_else(|failed| failed.result()))
}

fn default_session() -> String {
    DEFAULT.to_owned()
}
