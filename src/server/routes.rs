//! All routes with their description in `/openapi.json`: the router and the document are made from the same table.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{Add, Operation, Route, Schema, operation};
use super::problem::{ErrorAnswer, JupyterError};
use super::state::Shared;
use super::{
    about, catalog, codeapi, commands, dify, e2b, events, files, guard, jupyter, kernel, mcp,
    metrics, notebook, openai, outputs, page,
};
use super::{render, sessions, terminal};
use crate::agent::query::{
    CodeAt, ColumnProfile, CompletionList, Documentation, FileEntry, FrameWindow, OutputPage, Rows,
    VariableInfo,
};
use crate::agent::stream::snapshot::SnapshotLine;
use crate::app::model::ListedModel;

/// The router, without its layers.
pub(super) fn router() -> Router<Arc<Shared>> {
    table().into_iter().fold(Router::new(), |router, route| {
        router.route(route.path, route.router)
    })
}

fn table() -> Vec<Route> {
    let mut table = Vec::new();
    let mut add = |path, router, operations| {
        table.push(Route {
            path,
            router,
            operations,
        });
    };
    let read = |summary| operation("get", summary);
    add(
        "/",
        get(page::index),
        vec![read("The page").bytes("text/html").open()],
    );
    add(
        "/assets/{*path}",
        get(page::asset),
        vec![read("A file of the page").bytes("*/*").open()],
    );
    add(
        "/health",
        get(page::health),
        vec![
            read("Whether the server lives")
                .answer::<page::Health>()
                .open(),
        ],
    );
    add(
        "/metrics",
        get(metrics::metrics),
        vec![read("Numbers for Prometheus").bytes("text/plain")],
    );
    add(
        "/openapi.json",
        get(document),
        vec![read("This document").answer::<Map<String, Value>>()],
    );
    add(
        "/api/login",
        post(guard::login),
        vec![
            operation("post", "Exchange the token for a cookie")
                .body::<guard::Login>()
                .open(),
        ],
    );
    add(
        "/api/sessions",
        get(sessions::list).post(sessions::create),
        vec![
            read("Sessions that run, and those that can be resumed").answer::<sessions::Listed>(),
            operation("post", "Create or resume a session")
                .body::<sessions::Create>()
                .answer::<sessions::Created>(),
        ],
    );
    add(
        "/api/sessions/{id}",
        get(sessions::snapshot).delete(sessions::end),
        vec![
            read("A snapshot of the session: the snapshot item of docs/events.md")
                .answer::<SnapshotLine<'static>>(),
            operation("delete", "End the session; its files stay").query::<sessions::Ender>(),
        ],
    );
    add(
        "/api/sessions/{id}/events",
        get(events::events),
        vec![
            read("Items of docs/events.md as server-sent events; `Last-Event-ID` resumes")
                .query::<events::Wanted>()
                .stream::<events::StreamLine>(),
        ],
    );
    add(
        "/api/sessions/{id}/commands",
        post(commands::command),
        vec![
            operation("post", "A command of docs/events.md")
                .body::<commands::Sent>()
                .answer::<commands::Accepted>(),
        ],
    );
    add(
        "/api/sessions/{id}/fork",
        post(sessions::fork),
        vec![
            operation("post", "Open another session that begins as this one did")
                .body::<sessions::ForkAt>()
                .answer::<sessions::Created>(),
        ],
    );
    add(
        "/api/sessions/{id}/{file}",
        get(notebook::notebook),
        vec![read("The conversation: notebook.ipynb, .html, .md or .py").bytes("*/*")],
    );
    of_outputs(&mut add);
    of_kernels(&mut add);
    of_files(&mut add);
    jupyter::routes(&mut add);
    mcp::routes(&mut add);
    openai::routes(&mut add);
    codeapi::routes(&mut add);
    dify::routes(&mut add);
    terminal::routes(&mut add);
    e2b::routes(&mut add);
    add(
        "/api/about",
        get(about::about),
        vec![read("What code may do in this server's sessions").answer::<about::About>()],
    );
    add(
        "/api/models",
        get(catalog::models),
        vec![read("Models, the usual one first").answer::<Vec<ListedModel>>()],
    );
    add(
        "/api/kernels",
        get(catalog::kernels),
        vec![read("Kernels that can be named").answer::<Vec<catalog::ListedKernel>>()],
    );
    table
}

fn of_outputs(add: &mut Add<'_>) {
    add(
        "/api/sessions/{id}/cells/{cell}/outputs/{n}",
        get(outputs::types),
        vec![operation("get", "The types that an output has").answer::<outputs::OutputTypes>()],
    );
    add(
        "/api/sessions/{id}/cells/{cell}/outputs/{n}/{mime}",
        get(outputs::bytes),
        vec![
            operation(
                "get",
                "The bytes of one type, ranges too; `html` is safe HTML, or the address of a frame",
            )
            .answer::<outputs::Shown>()
            .bytes("*/*"),
        ],
    );
    add(
        "/out/{ticket}/{cell}/{n}",
        get(outputs::frame),
        vec![
            operation("get", "The document of a frame")
                .bytes("text/html")
                .open(),
        ],
    );
    add(
        "/api/markdown",
        post(render::markdown),
        vec![
            operation("post", "Markdown as safe HTML")
                .body::<render::Texts>()
                .answer::<render::Htmls>(),
        ],
    );
    add(
        "/api/highlight",
        post(render::highlight),
        vec![
            operation("post", "Code with the classes of its tokens")
                .body::<render::Code>()
                .answer::<render::Html>(),
        ],
    );
}

fn of_kernels(add: &mut Add<'_>) {
    add(
        "/api/sessions/{id}/variables",
        get(kernel::variables),
        vec![
            operation("get", "Variables of a kernel")
                .query::<kernel::Whose>()
                .answer::<Vec<VariableInfo>>(),
        ],
    );
    add(
        "/api/sessions/{id}/complete",
        get(kernel::complete),
        vec![
            operation("get", "What could stand at the cursor")
                .query::<CodeAt>()
                .answer::<CompletionList>(),
        ],
    );
    add(
        "/api/sessions/{id}/inspect",
        get(kernel::inspect),
        vec![
            operation("get", "Documentation for what stands at the cursor")
                .query::<kernel::Inspected>()
                .answer::<Documentation>(),
        ],
    );
    add(
        "/api/sessions/{id}/cells/{cell}/text",
        get(kernel::output),
        vec![
            operation("get", "Lines of what a cell has put out, all of it")
                .query::<kernel::WhichLines>()
                .answer::<OutputPage>(),
        ],
    );
    add(
        "/api/sessions/{id}/frames/{name}",
        get(kernel::window),
        vec![
            operation("get", "Rows of a table")
                .query::<Rows>()
                .answer::<FrameWindow>(),
        ],
    );
    add(
        "/api/sessions/{id}/frames/{name}/columns/{column}",
        get(kernel::profile),
        vec![operation("get", "What a column has in it").answer::<ColumnProfile>()],
    );
    add(
        "/api/sessions/{id}/frames/{name}/export",
        get(kernel::export),
        vec![
            operation("get", "A table as csv, parquet or xlsx")
                .query::<kernel::Export>()
                .bytes("*/*"),
        ],
    );
}

fn of_files(add: &mut Add<'_>) {
    add(
        "/api/sessions/{id}/files",
        get(files::list).post(files::drop_files).layer(any_size()),
        vec![
            operation("get", "What is in a directory")
                .query::<files::Where>()
                .answer::<Vec<FileEntry>>(),
            operation("post", "Files of a form (multipart) into a directory")
                .query::<files::Where>()
                .answer::<Vec<files::Dropped>>(),
        ],
    );
    add(
        "/api/sessions/{id}/files/{*path}",
        get(files::get)
            .put(files::put)
            .delete(files::delete)
            .layer(any_size()),
        vec![
            operation("get", "A file's bytes, ranges too").bytes("*/*"),
            operation("put", "Write a file, whole or not at all").answer::<files::Written>(),
            operation("delete", "Remove a file or an empty directory"),
        ],
    );
}

/// For routes that check the size themselves while they write.
fn any_size() -> DefaultBodyLimit {
    DefaultBodyLimit::disable()
}

/// `/openapi.json`.
async fn document(State(_): State<Arc<Shared>>) -> Response {
    axum::Json(openapi()).into_response()
}

/// The routes as an OpenAPI 3.1 document.
fn openapi() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = "/components/schemas".into();
    // The input and output schema of a type can differ: optional fields are always present in answers.
    let mut answers = settings.clone().for_serialize();
    answers.definitions_path = "/components/schemas/Answers/$defs".into();
    let mut generators = Generators {
        bodies: settings.into_generator(),
        answers: answers.into_generator(),
    };
    let error = generators.answers.subschema_for::<ErrorAnswer>();
    let jupyter_error = generators.answers.subschema_for::<JupyterError>();
    let failed = |schema: schemars::Schema| {
        json!({
            "description": "It was not done",
            "content": { "application/json": { "schema": schema } },
        })
    };
    let mut paths = Map::new();
    for route in table() {
        let mut item = Map::new();
        for operation in &route.operations {
            let described = described(route.path, operation, &mut generators);
            item.insert(operation.method.to_owned(), described);
        }
        // OpenAPI has no notation for the rest of a path.
        paths.insert(route.path.replace("{*", "{"), Value::Object(item));
    }
    let Generators {
        mut bodies,
        mut answers,
    } = generators;
    let mut schemas = bodies.take_definitions(true);
    let answers = json!({ "$defs": answers.take_definitions(true) });
    schemas.insert("Answers".to_owned(), answers);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sponde",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions of a code interpreter; see docs/server.md and docs/events.md.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
            "responses": {
                "Error": failed(error),
                "JupyterError": failed(jupyter_error),
            },
        },
    })
}

/// Generators for input types and for output types.
struct Generators {
    bodies: SchemaGenerator,
    answers: SchemaGenerator,
}

fn described(path: &str, operation: &Operation, generators: &mut Generators) -> Value {
    let mut parameters: Vec<Value> = names(path)
        .map(|name| {
            json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
        })
        .collect();
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(query, &mut generators.bodies));
    }
    let error = if jupyter::is_at(path) {
        "JupyterError"
    } else {
        "Error"
    };
    let mut described = json!({
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "2XX": { "description": "Done" },
            "default": { "$ref": format!("#/components/responses/{error}") },
        },
    });
    let json_of = |schema: Value| json!({ "application/json": { "schema": schema } });
    if let Some(body) = operation.body {
        described["requestBody"] =
            json!({ "required": true, "content": json_of(body(&mut generators.bodies)) });
    }
    let mut content = Map::new();
    if let Some(answer) = operation.answer {
        let mime = operation.stream.unwrap_or("application/json");
        let schema = answer(&mut generators.answers);
        content.insert(mime.to_owned(), json!({ "schema": schema }));
    }
    if let Some(mime) = operation.bytes {
        content.insert(mime.to_owned(), json!({}));
    }
    if !content.is_empty() {
        described["responses"]["2XX"]["content"] = Value::Object(content);
    }
    if !operation.needs_token {
        described["security"] = json!([]);
    }
    described
}

/// The fields of a type as query parameters.
fn query_parameters(query: Schema, generator: &mut SchemaGenerator) -> Vec<Value> {
    let schema = query(generator);
    let name = schema["$ref"].as_str().and_then(|it| it.rsplit('/').next());
    let whole = name.and_then(|name| generator.definitions().get(name).cloned());
    let fields = whole.as_ref().and_then(|it| it.get("properties"));
    let fields = fields.and_then(Value::as_object).cloned();
    let fields = fields.unwrap_or_default().into_iter();
    fields
        .map(|(name, schema)| json!({ "name": name, "in": "query", "schema": schema }))
        .collect()
}

/// The names in a path's braces.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('{')
        .skip(1)
        .filter_map(|rest| rest.split('}').next())
        .map(|name| name.trim_start_matches('*'))
}
