//! The JSON schemas of the session protocol (`docs/events.md`), derived from the Rust types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use super::attach::{FromClient, FromServer};
use crate::agent::stream::snapshot::SnapshotLine;
use crate::agent::stream::{Item, VERSION};
use crate::agent::{Command, Event};

/// The schema of a session's output (draft 2020-12): `Event` is a line of `--json`, `Item` and `SnapshotLine` are
/// lines of `attach --json`, `FromServer` is a line of the socket.
pub fn events() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let roots = [
        root::<Event>(&mut generator),
        root::<Item>(&mut generator),
        root::<SnapshotLine<'_>>(&mut generator),
        root::<FromServer>(&mut generator),
    ];
    document("Events of Sponde's sessions", &roots, generator)
}

/// The schema of a session's input: `Command`, and `FromClient` as a line of the socket.
pub fn commands() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let roots = [
        root::<Command>(&mut generator),
        root::<FromClient>(&mut generator),
    ];
    document("Commands for Sponde's sessions", &roots, generator)
}

fn root<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn document(title: &str, roots: &[Value], mut generator: SchemaGenerator) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "version": VERSION,
        "anyOf": roots,
        "$defs": generator.take_definitions(true),
    })
}
