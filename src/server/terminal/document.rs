//! `/terminal/openapi.json`: only the tools. Each operation is a tool: its `operationId` is the name, and the model
//! reads its description. Names, paths and parameters match Open Terminal where the meaning is the same.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use super::super::state::Shared;

/// The document.
pub(super) async fn document(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let language = shared.terminal.executor.settings().kernels.first().cloned();
    Json(tools(language.as_deref().unwrap_or("python")))
}

/// A parameter or field: its name, type, description, and whether it is required.
type Field = (&'static str, &'static str, &'static str, bool);

const PATH: &str = "The file: an absolute path, or one relative to the working directory.";

fn tools(main: &str) -> Value {
    let paths = json!({
        "/run_code": { "post": tool(
            "run_code",
            &format!(
                "Run code in the live {main} kernel of this chat and get what it prints, its result and its errors. Variables, \
                 imports and loaded data stay for the next call. In Python `!command` runs a shell command. A displayed plot is \
                 saved as a file whose path is in `files`: the user sees it only when you call display_file with that path."
            ),
            &[],
            &[
                ("code", "string", "The code. The value of its last expression is shown.", true),
                (
                    "language",
                    "string",
                    "The language if it is not the main one, such as r, bash or javascript. It has a kernel of its own.",
                    false,
                ),
                ("timeout_s", "integer", "Seconds after which the code is interrupted; default is 120. Variables stay.", false),
            ],
        )},
        "/variables": { "get": tool(
            "list_variables",
            "List the variables that live in this chat's kernel: name, type, shape and how each begins. Runs no code.",
            &[("language", "string", "Of the kernel for this language; default is the main one.", false)],
            &[],
        )},
        "/variables/read": { "get": tool(
            "read_variable",
            "Read rows of a table (data frame, series, array) in this chat's Python kernel, sorted and filtered, a window at a \
             time; of another variable its beginning. Runs no code.",
            &[
                ("name", "string", "The name of the variable.", true),
                ("offset", "integer", "The first row, from 0.", false),
                ("limit", "integer", "How many rows, at most 500; default is 50.", false),
                ("sort", "string", "The column to sort by.", false),
                ("descending", "boolean", "Largest first.", false),
                ("filter", "string", "Only rows with this text in them.", false),
            ],
            &[],
        )},
        "/files/list": { "get": tool(
            "list_files",
            "List what is in a directory: names, types, sizes.",
            &[("directory", "string", "The directory; default is the working directory.", false)],
            &[],
        )},
        "/files/read": { "get": tool(
            "read_file",
            "Read a text file, or look at an image (PNG, JPEG, GIF, WebP). Look at large tables and other files with run_code. \
             Use display_file to show a file to the user.",
            &[
                ("path", "string", PATH, true),
                ("start_line", "integer", "The first line, from 1.", false),
                ("end_line", "integer", "The last line; default is 1000 lines.", false),
            ],
            &[],
        )},
        "/files/write": { "post": tool(
            "write_file",
            "Write text to a file, whole or not at all; directories are made. A file that is there is replaced.",
            &[],
            &[("path", "string", PATH, true), ("content", "string", "The text.", true)],
        )},
        "/files/display": { "get": tool(
            "display_file",
            "Show a file, such as a plot or a table, to the user. You do not get its content: use read_file for that.",
            &[("path", "string", PATH, true)],
            &[],
        )},
    });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sponde",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A live code interpreter with a directory of files.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": { "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
    })
}

fn tool(name: &str, description: &str, query: &[Field], body: &[Field]) -> Value {
    let parameter = |(name, kind, description, required): &Field| {
        json!({
            "name": name, "in": "query", "required": required,
            "schema": { "type": kind }, "description": description,
        })
    };
    let mut tool = json!({
        "operationId": name,
        "summary": name.replace('_', " "),
        "description": description,
        "parameters": query.iter().map(parameter).collect::<Vec<_>>(),
        "responses": { "200": { "description": "Done" } },
    });
    if !body.is_empty() {
        let field = |(name, kind, description, _): &Field| {
            let schema = json!({ "type": kind, "description": description });
            ((*name).to_owned(), schema)
        };
        let required = body.iter().filter(|field| field.3);
        let schema = json!({
            "type": "object",
            "properties": body.iter().map(field).collect::<Map<_, _>>(),
            "required": required.map(|field| field.0).collect::<Vec<_>>(),
        });
        let content = json!({ "application/json": { "schema": schema } });
        tool["requestBody"] = json!({ "required": true, "content": content });
    }
    tool
}
