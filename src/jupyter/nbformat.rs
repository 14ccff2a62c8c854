//! The notebook file: reads 4.0 to 4.5 (and 2, 3), holds 4.5, writes the bytes Jupyter would write.
//!
//! Invariants:
//! - Lossless: unknown fields, cell types and output types survive reading and writing.
//! - Byte-stable: [`Notebook::to_json`] returns what Python's `nbformat.write` (5.11) writes, so a notebook that is
//!   only read and written causes no diff.
//! - In memory there is one form: text is one string, in MIME bundles too; line arrays exist in the file only.
//! - Pure: bytes in, bytes out; new cell ids come from the caller's closure.
//!
//! Limits, reported as warnings: numbers are those of `serde_json`. An integer beyond 64 bits becomes a float, `NaN`
//! and the infinities (which Python writes although JSON has none) become null, both with a [`Warning`]; `-0` becomes
//! `-0.0`.
//!
//! Deliberately not here: files, locks, the JSON schema, sessions, signing.

mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod lexical;
mod read;
mod read_output;
mod upgrade;
mod validate;
mod write;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::mime::MimeBundle;
pub use error::{NbformatError, Warning};
pub use validate::{Problem, Rule, is_cell_id, validate};

/// The major version that is written, and the newest that is read.
pub const MAJOR: u64 = 4;
/// The minor version that is written.
pub const MINOR: u64 = 5;

/// Root metadata about one copy of a notebook: read, but neither kept nor written.
const TRANSIENT: [&str; 3] = ["orig_nbformat", "orig_nbformat_minor", "signature"];
/// The same for a cell.
const TRANSIENT_CELL: [&str; 1] = ["trusted"];

/// A notebook in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Notebook {
    /// `kernelspec`, `language_info` and any other fields.
    pub metadata: Map<String, Value>,
    /// The cells, top to bottom.
    pub cells: Vec<Cell>,
    /// The minor version as read (0 for notebooks of version 3 and older). [`MINOR`] is written, or this if it is
    /// newer: a file of a newer version keeps its version and its fields.
    pub nbformat_minor: u64,
    /// Root fields that 4.5 does not define.
    pub extra: Map<String, Value>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// 1 to 64 of `[a-zA-Z0-9-_]`, unique in the notebook (JEP 62).
    pub id: String,
    /// The cell's type and its type-specific fields.
    pub kind: CellType,
    /// The source as one string.
    pub source: String,
    /// The cell's metadata: `tags`, `execution` and any other fields.
    pub metadata: Map<String, Value>,
    /// File name to MIME bundle; `None` if the cell has no such field.
    pub attachments: Option<Map<String, Value>>,
    /// Fields that 4.5 does not define for this type of cell.
    pub extra: Map<String, Value>,
}

/// The types of cell.
#[derive(Debug, Clone, PartialEq)]
pub enum CellType {
    /// Code for the kernel.
    Code {
        /// The `In [n]` number; `None` if it did not run.
        execution_count: Option<i64>,
        /// The outputs, in order.
        outputs: Vec<Output>,
    },
    /// Text in Markdown.
    Markdown,
    /// Raw text for nbconvert.
    Raw,
    /// A type that 4.5 does not define.
    Other {
        /// `cell_type` in the file.
        cell_type: String,
        /// Whether it has a `source`: an unknown type need not have one.
        has_source: bool,
    },
}

/// One output of a code cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Text written to stdout or stderr.
    Stream {
        /// `stdout` or `stderr`.
        name: String,
        /// The text as one string.
        text: String,
        /// Fields that 4.5 does not define.
        extra: Map<String, Value>,
    },
    /// The output of `display()`.
    DisplayData {
        /// Its representations.
        data: MimeBundle,
        /// Metadata by MIME type.
        metadata: Map<String, Value>,
        /// Fields that 4.5 does not define.
        extra: Map<String, Value>,
    },
    /// The value of the cell's last expression.
    ExecuteResult {
        /// The `Out [n]` number.
        execution_count: Option<i64>,
        /// Its representations.
        data: MimeBundle,
        /// Metadata by MIME type.
        metadata: Map<String, Value>,
        /// Fields that 4.5 does not define.
        extra: Map<String, Value>,
    },
    /// An exception.
    Error {
        /// Its name; some kernels leave it empty.
        ename: String,
        /// Its message.
        evalue: String,
        /// The traceback, one frame or line per entry, often with ANSI colours.
        traceback: Vec<String>,
        /// Fields that 4.5 does not define.
        extra: Map<String, Value>,
    },
    /// An output of a type that 4.5 does not define, or with fields that do not fit its type: kept unchanged.
    Other(Value),
}

/// The result of reading a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The notebook, in the form of 4.5.
    pub notebook: Notebook,
    /// What was repaired or unusual. Empty for a valid notebook of a version we know.
    pub warnings: Vec<Warning>,
}

impl Notebook {
    /// An empty notebook.
    pub fn new() -> Self {
        Self {
            metadata: Map::new(),
            cells: Vec::new(),
            nbformat_minor: MINOR,
            extra: Map::new(),
        }
    }

    /// Reads a notebook of version 2 to 4 and upgrades it to 4.5. Cells without an id, as all were before 4.5, get one
    /// from `new_id`, and so do duplicates; [`random_cell_id`] is what Jupyter uses.
    pub fn read(bytes: &[u8], new_id: &mut dyn FnMut() -> String) -> Result<Loaded, NbformatError> {
        read::read(bytes, new_id)
    }

    /// The file's text as Python's `nbformat.write` writes it, with a final newline.
    pub fn to_json(&self) -> String {
        write::notebook(self)
    }

    /// Writes the text of [`Notebook::to_json`] in pieces.
    ///
    /// # Errors
    /// The first error of `to`.
    pub fn write_to(&self, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        write::stream(self, to)
    }

    /// The file's text before its first cell and after its last one, for changing a file in place. Between them go one
    /// or more cells, each written by [`Cell::write_piece`].
    pub fn frame(&self) -> (String, String) {
        write::frame(self)
    }
}

impl Default for Notebook {
    fn default() -> Self {
        Self::new()
    }
}

impl Cell {
    /// A code cell that has not run.
    pub fn code(id: impl Into<String>, source: impl Into<String>) -> Self {
        let kind = CellType::Code {
            execution_count: None,
            outputs: Vec::new(),
        };
        Self::with_kind(id, source, kind)
    }

    /// A Markdown cell.
    pub fn markdown(id: impl Into<String>, source: impl Into<String>) -> Self {
        Self::with_kind(id, source, CellType::Markdown)
    }

    /// A raw cell.
    pub fn raw(id: impl Into<String>, source: impl Into<String>) -> Self {
        Self::with_kind(id, source, CellType::Raw)
    }

    /// Writes the cell as it appears among others in a notebook's file.
    ///
    /// # Errors
    /// The first error of `to`.
    pub fn write_piece(&self, is_first: bool, to: &mut dyn std::io::Write) -> std::io::Result<()> {
        write::cell(self, is_first, to)
    }

    /// The outputs; none for cells that are not code.
    pub fn outputs(&self) -> &[Output] {
        match &self.kind {
            CellType::Code { outputs, .. } => outputs,
            CellType::Markdown | CellType::Raw | CellType::Other { .. } => &[],
        }
    }

    fn with_kind(id: impl Into<String>, source: impl Into<String>, kind: CellType) -> Self {
        Self {
            id: id.into(),
            kind,
            source: source.into(),
            metadata: Map::new(),
            attachments: None,
            extra: Map::new(),
        }
    }
}

impl CellType {
    /// `cell_type` in the file.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Code { .. } => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
            Self::Other { cell_type, .. } => cell_type,
        }
    }

    /// Whether a cell of this kind has a `source` in the file.
    fn has_source(&self) -> bool {
        match self {
            Self::Code { .. } | Self::Markdown | Self::Raw => true,
            Self::Other { has_source, .. } => *has_source,
        }
    }
}

impl Output {
    /// Text written to stdout or stderr.
    pub fn stream(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::Stream {
            name: name.into(),
            text: text.into(),
            extra: Map::new(),
        }
    }

    /// The output of `display()`.
    pub fn display(data: MimeBundle, metadata: Map<String, Value>) -> Self {
        Self::DisplayData {
            data,
            metadata,
            extra: Map::new(),
        }
    }

    /// The value of a cell's last expression.
    pub fn result(
        execution_count: Option<i64>,
        data: MimeBundle,
        metadata: Map<String, Value>,
    ) -> Self {
        Self::ExecuteResult {
            execution_count,
            data,
            metadata,
            extra: Map::new(),
        }
    }

    /// An exception.
    pub fn error(
        ename: impl Into<String>,
        evalue: impl Into<String>,
        traceback: Vec<String>,
    ) -> Self {
        Self::Error {
            ename: ename.into(),
            evalue: evalue.into(),
            traceback,
            extra: Map::new(),
        }
    }

    /// The representations of a display or a result.
    pub fn data(&self) -> Option<&MimeBundle> {
        match self {
            Self::DisplayData { data, .. } | Self::ExecuteResult { data, .. } => Some(data),
            Self::Stream { .. } | Self::Error { .. } | Self::Other(_) => None,
        }
    }

    /// Parses one output of a file or a message. Never fails: what does not fit becomes [`Output::Other`].
    pub fn from_value(value: Value) -> Self {
        read_output::output(value, &mut |_, _| ())
    }

    /// The output as JSON, with text as one string (only the writer splits lines).
    pub fn to_value(&self) -> Value {
        // It has only strings, numbers and maps with string keys, so it cannot fail.
        serde_json::to_value(self).unwrap_or_default()
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Other(whole) = self {
            return whole.serialize(serializer);
        }
        let mut fields = serializer.serialize_map(None)?;
        let extra = match self {
            Self::Stream { name, text, extra } => {
                fields.serialize_entry("output_type", "stream")?;
                fields.serialize_entry("name", name)?;
                fields.serialize_entry("text", text)?;
                extra
            }
            Self::DisplayData {
                data,
                metadata,
                extra,
            } => {
                fields.serialize_entry("output_type", "display_data")?;
                fields.serialize_entry("data", data)?;
                fields.serialize_entry("metadata", metadata)?;
                extra
            }
            Self::ExecuteResult {
                execution_count,
                data,
                metadata,
                extra,
            } => {
                fields.serialize_entry("output_type", "execute_result")?;
                fields.serialize_entry("execution_count", execution_count)?;
                fields.serialize_entry("data", data)?;
                fields.serialize_entry("metadata", metadata)?;
                extra
            }
            Self::Error {
                ename,
                evalue,
                traceback,
                extra,
            } => {
                fields.serialize_entry("output_type", "error")?;
                fields.serialize_entry("ename", ename)?;
                fields.serialize_entry("evalue", evalue)?;
                fields.serialize_entry("traceback", traceback)?;
                extra
            }
            Self::Other(_) => return fields.end(),
        };
        for (name, value) in extra {
            fields.serialize_entry(name, value)?;
        }
        fields.end()
    }
}

/// Serialized as the text of its file, for records that contain a notebook.
impl Serialize for Notebook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.to_json())
    }
}

impl<'de> Deserialize<'de> for Notebook {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let loaded = Self::read(text.as_bytes(), &mut random_cell_id);
        loaded
            .map(|loaded| loaded.notebook)
            .map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

impl JsonSchema for Notebook {
    fn schema_name() -> Cow<'static, str> {
        "Notebook".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "The text of a notebook file."})
    }
}

impl JsonSchema for Output {
    fn schema_name() -> Cow<'static, str> {
        "Output".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An output as nbformat 4.5 has it; text is one string. Kernels may send other types.",
            "type": "object",
            "properties": {
                "output_type": {"type": "string"},
                "name": {"enum": ["stdout", "stderr"]},
                "text": {"type": "string"},
                "data": {"type": "object", "description": "A MIME bundle."},
                "metadata": {"type": "object"},
                "execution_count": {"type": ["integer", "null"]},
                "ename": {"type": "string"},
                "evalue": {"type": "string"},
                "traceback": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["output_type"],
        })
    }
}

/// A cell id as Jupyter makes them: 8 random hexadecimal digits.
pub fn random_cell_id() -> String {
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(8);
    id
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn outputs_go_through_json_unchanged() {
        let mut with_extra = Output::stream("stderr", "a\nb");
        if let Output::Stream { extra, .. } = &mut with_extra {
            extra.insert("later".to_owned(), json!([1]));
        }
        let outputs = [
            with_extra,
            Output::display(MimeBundle::text("x"), Map::new()),
            Output::result(Some(1), MimeBundle::png(b"x"), Map::new()),
            Output::result(None, MimeBundle::new(), Map::new()),
            Output::error("E", "v", vec!["t".to_owned()]),
            Output::Other(json!({"output_type": "new", "text": "x"})),
            Output::Other(json!(7)),
        ];
        for output in outputs {
            let text = serde_json::to_string(&output).unwrap();
            assert_eq!(serde_json::from_str::<Output>(&text).unwrap(), output);
            assert_eq!(Output::from_value(output.to_value()), output);
        }
    }

    #[test]
    fn a_message_becomes_an_output() {
        let content = json!({
            "output_type": "display_data", "data": {"text/plain": ["a\n", "b"]}, "metadata": {},
        });
        let expected = Output::display(MimeBundle::text("a\nb"), Map::new());
        assert_eq!(Output::from_value(content), expected);
    }

    #[test]
    fn random_ids_have_the_form_of_ids() {
        let id = random_cell_id();
        assert!(is_cell_id(&id) && id.len() == 8, "{id}");
    }
}
