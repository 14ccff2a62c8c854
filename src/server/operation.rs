//! A route, and the description of its methods in `/openapi.json`.

use std::sync::Arc;

use axum::routing::MethodRouter;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::state::Shared;

/// A path and its operations.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) router: MethodRouter<Arc<Shared>>,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) summary: &'static str,
    /// The query parameters.
    pub(super) query: Option<Schema>,
    pub(super) body: Option<Schema>,
    /// The JSON of the answer.
    pub(super) answer: Option<Schema>,
    /// The MIME type of a stream whose messages have that schema.
    pub(super) stream: Option<&'static str>,
    /// The MIME type of another answer; without both, the answer is empty (204).
    pub(super) bytes: Option<&'static str>,
    pub(super) needs_token: bool,
}

/// Generates the schema of a type.
pub(super) type Schema = fn(&mut SchemaGenerator) -> Value;

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

pub(super) fn operation(method: &'static str, summary: &'static str) -> Operation {
    Operation {
        method,
        summary,
        query: None,
        body: None,
        answer: None,
        stream: None,
        bytes: None,
        needs_token: true,
    }
}

impl Operation {
    pub(super) fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(schema::<T>);
        self
    }

    pub(super) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(schema::<T>);
        self
    }

    pub(super) fn answer<T: JsonSchema>(mut self) -> Self {
        self.answer = Some(schema::<T>);
        self
    }

    /// The answer is a stream of server-sent events with JSON of a type.
    pub(super) fn stream<T: JsonSchema>(mut self) -> Self {
        self.stream = Some("text/event-stream");
        self.answer::<T>()
    }

    /// The answer is not JSON.
    pub(super) fn bytes(mut self, mime: &'static str) -> Self {
        self.bytes = Some(mime);
        self
    }

    pub(super) fn open(mut self) -> Self {
        self.needs_token = false;
        self
    }
}

/// Receives a route.
pub(super) type Add<'a> = dyn FnMut(&'static str, MethodRouter<Arc<Shared>>, Vec<Operation>) + 'a;
