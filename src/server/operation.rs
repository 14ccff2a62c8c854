//! A route, and what `/openapi.json` says of each of its methods.

use std::sync::Arc;

use axum::routing::MethodRouter;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::state::Shared;

/// A path and what can be done there.
pub(super) struct Route {
    pub(super) path: &'static str,
    pub(super) router: MethodRouter<Arc<Shared>>,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) summary: &'static str,
    /// The parameters behind the question mark.
    pub(super) query: Option<Schema>,
    pub(super) body: Option<Schema>,
    /// The JSON that is answered.
    pub(super) answer: Option<Schema>,
    /// The type of a stream whose messages that is.
    pub(super) stream: Option<&'static str>,
    /// The type of what is answered else; with neither it is nothing (204).
    pub(super) bytes: Option<&'static str>,
    pub(super) needs_token: bool,
}

/// Makes the schema of a type.
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

    /// Messages with JSON of a type are answered, as server-sent events.
    pub(super) fn stream<T: JsonSchema>(mut self) -> Self {
        self.stream = Some("text/event-stream");
        self.answer::<T>()
    }

    /// Something else than JSON is answered.
    pub(super) fn bytes(mut self, mime: &'static str) -> Self {
        self.bytes = Some(mime);
        self
    }

    pub(super) fn open(mut self) -> Self {
        self.needs_token = false;
        self
    }
}

/// Takes a route.
pub(super) type Add<'a> = dyn FnMut(&'static str, MethodRouter<Arc<Shared>>, Vec<Operation>) + 'a;
