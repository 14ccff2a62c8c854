//! What tools answer as `structuredContent`. Each type is the data and, by its schema, the `outputSchema` of its tool, so that
//! they cannot differ.
//!
//! A tool with an `outputSchema` must answer `structuredContent` each time that it succeeds. `run_code`, `ask` and `read_file`
//! have none: what has pictures is content alone.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::query::{FileEntry, FrameWindow, VariableBrief};

/// Of `list_variables`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Variables<'a> {
    /// The variables.
    pub(super) variables: Vec<VariableBrief<'a>>,
    /// How many more there are.
    pub(super) more: usize,
}

/// Of `read_variable`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ReadVariable<'a> {
    /// Rows of a table.
    Rows(&'a FrameWindow),
    /// The beginning of anything else.
    Beginning(VariableBrief<'a>),
}

/// Of `list_files`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Files {
    /// What is in the directory.
    pub(super) entries: Vec<FileEntry>,
}

/// Of `write_file`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Written {
    /// The file, relative to the workspace.
    pub(super) path: String,
    /// How many bytes it has.
    pub(super) bytes: u64,
}

/// Of `new_session`.
#[derive(Serialize, JsonSchema)]
pub(super) struct OpenSession<'a> {
    /// Its name, for the other tools.
    pub(super) session: &'a str,
    /// Its id, for `sponde sessions`.
    pub(super) id: &'a str,
    /// The languages of its kernels, the main one first.
    pub(super) languages: Vec<&'a str>,
    /// The path of its notebook.
    pub(super) notebook: String,
    /// The URI of its notebook as a resource.
    pub(super) resource: String,
    /// What code can do, in words.
    pub(super) sandbox: &'a str,
}

/// The `outputSchema` for `T`.
pub(super) fn schema<T: JsonSchema>() -> Value {
    // JSON Schema knows no `uint64`, and validators warn about formats that they do not know.
    let plain = RecursiveTransform(|schema: &mut schemars::Schema| {
        schema.remove("format");
    });
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = inlined::<T>(settings.with_transform(plain));
    if let Value::Object(fields) = &mut schema {
        // The root is an object by the protocol, also where it is one of several.
        fields.insert("type".to_owned(), json!("object"));
    }
    schema
}

/// The schema for `T` without references to other schemas, and without a name.
pub(super) fn inlined<T: JsonSchema>(mut settings: SchemaSettings) -> Value {
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value();
    if let Value::Object(fields) = &mut schema {
        fields.remove("title");
        fields.remove("description");
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_objects_of_plain_json_schema() {
        assert_eq!(
            schema::<Written>(),
            json!({
                "type": "object",
                "properties": {
                    "path": { "description": "The file, relative to the workspace.", "type": "string" },
                    "bytes": { "description": "How many bytes it has.", "type": "integer", "minimum": 0 },
                },
                "required": ["path", "bytes"],
            })
        );
        let either = schema::<ReadVariable<'_>>();
        assert_eq!(either["type"], "object");
        assert_eq!(
            either["anyOf"].as_array().map(Vec::len),
            Some(2),
            "{either}"
        );
        assert!(!either.to_string().contains("\"format\""), "{either}");
    }
}
