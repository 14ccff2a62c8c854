//! Notebook content that a session does not use: other tools' metadata, attachments, unknown fields and unknown cell
//! types. It is kept and written back unchanged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a cell of a file carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Carried {
    /// What the cell is in the file, if it is a person's own: then nothing of ours is added to it. `None` for a cell that
    /// a session wrote.
    pub shape: Option<Shape>,
    /// Its metadata, without ours.
    pub metadata: Map<String, Value>,
    /// File name to MIME bundle.
    pub attachments: Option<Map<String, Value>>,
    /// Fields that nbformat 4.5 does not know.
    pub extra: Map<String, Value>,
}

/// What a person's cell is in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Code.
    Code,
    /// Text in Markdown.
    Markdown,
    /// Text that is passed through.
    Raw,
    /// A kind that nbformat 4.5 does not have.
    Other {
        /// The file's word for it.
        cell_type: String,
        /// Whether it has a `source` at all.
        has_source: bool,
    },
}

/// What the file itself carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CarriedFile {
    /// Whether the session continues a notebook that is a person's.
    pub is_foreign: bool,
    /// Its metadata, without ours.
    pub metadata: Map<String, Value>,
    /// Our metadata that this version does not know.
    pub ours: Map<String, Value>,
    /// Fields that nbformat 4.5 does not know.
    pub extra: Map<String, Value>,
    /// Its minor version, if it is newer than ours.
    pub minor: u64,
}
