//! What a client can ask of a session beside its cells, and the answers (docs/events.md, "Queries").
//!
//! A query gets one answer, which goes only to the client that asked. It changes nothing, and never disturbs a running
//! cell. [`crate::agent::asides`] answers it.

mod error;
mod status;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::jupyter::mime::MimeBundle;
use crate::kernel::{Completeness, Completions, Variable};
use crate::session::numbered::{CellPlace, FileChange, NumberedCell};
pub use error::{QueryError, QueryReason};
pub use status::{ContextUse, SessionStatus};

/// What is asked. `language` is that of a kernel; without it the main kernel is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "query", rename_all = "snake_case")]
pub enum Query {
    /// What could stand at the cursor.
    Complete(CodeAt),
    /// Whether code is a whole statement.
    IsComplete {
        /// The code.
        code: String,
        /// Of the kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// Documentation for what stands at the cursor.
    Inspect {
        /// Where.
        #[serde(flatten)]
        at: CodeAt,
        /// Whether the source is wanted too.
        #[serde(default)]
        source: bool,
    },
    /// The variables that live in a kernel.
    Variables {
        /// Of the kernel.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language: Option<String>,
    },
    /// Rows of a table in the Python kernel.
    Frame {
        /// The variable.
        name: String,
        /// Which rows.
        #[serde(flatten)]
        rows: Rows,
    },
    /// What a column of a table has in it.
    Profile {
        /// The variable.
        name: String,
        /// The column.
        column: String,
    },
    /// What is in a directory of the workspace.
    Files {
        /// Relative to the session's directory, which an empty one means.
        #[serde(default)]
        path: String,
    },
    /// Lines of what a cell has put out: all of it, also where the notebook keeps only beginning and end.
    Output(OutputLines),
    /// A cell, whole.
    Cell {
        /// Its place in the session, from 1; without it the latest that is code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<usize>,
    },
    /// The place of a cell in the session.
    Position {
        /// Its id.
        cell: String,
    },
    /// What the session has done to the files of its workspace.
    ChangedFiles,
    /// How the session stands.
    Status,
}

/// Code, and where the cursor stands in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeAt {
    /// The code.
    pub code: String,
    /// In unicode code points; without it at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<usize>,
    /// Of the kernel; without it the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
}

/// Which rows of a table, in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rows {
    /// The first one, from 0.
    pub offset: u64,
    /// How many, at most 500; 100 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The column to sort by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
    /// Largest first.
    pub descending: bool,
    /// Only rows with this text in them, in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// Which lines of what a cell has put out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputLines {
    /// The cell: its id, or its number in the main kernel.
    pub cell: String,
    /// The first line, from 1; a negative number counts from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<i64>,
    /// How many; 200 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// Only lines with this text in them, in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<String>,
    /// The file, where the output of a cell is in several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum QueryAnswer {
    /// To [`Query::Complete`].
    Completions(CompletionList),
    /// To [`Query::IsComplete`].
    Completeness(CodeState),
    /// To [`Query::Inspect`].
    Documentation(Documentation),
    /// To [`Query::Variables`].
    Variables(VariableList),
    /// To [`Query::Frame`].
    Frame(FrameWindow),
    /// To [`Query::Profile`].
    Profile(ColumnProfile),
    /// To [`Query::Files`].
    Files {
        /// By name; at most 10,000.
        entries: Vec<FileEntry>,
    },
    /// To [`Query::Output`].
    Output(OutputPage),
    /// To [`Query::Cell`].
    Cell(NumberedCell),
    /// To [`Query::Position`].
    Position {
        /// Null if there is no such cell.
        place: Option<CellPlace>,
    },
    /// To [`Query::ChangedFiles`].
    ChangedFiles {
        /// By name.
        files: Vec<FileChange>,
    },
    /// To [`Query::Status`].
    Status(Box<SessionStatus>),
}

/// What could stand at a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CompletionList {
    /// The candidates.
    pub matches: Vec<String>,
    /// Where the text begins that they replace, in unicode code points.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

/// Whether code is a whole statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum CodeState {
    /// It can be run.
    Complete,
    /// More lines are needed.
    Incomplete {
        /// What the next line begins with.
        indent: String,
    },
    /// It will never be right.
    Invalid,
    /// The kernel cannot tell, or is busy.
    Unknown,
}

/// Documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Documentation {
    /// By MIME type; null if nothing is known.
    pub data: Option<MimeBundle>,
}

/// The variables of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariableList {
    /// In the order in which they were made.
    pub variables: Vec<VariableInfo>,
    /// How many more there are.
    pub more: usize,
}

/// A variable that lives in a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariableInfo {
    /// Its name.
    pub name: String,
    /// Its type, in the language's own words.
    #[serde(rename = "type")]
    pub kind: String,
    /// Rows and columns, as `1000 x 3`.
    pub shape: Option<String>,
    /// How many elements it has.
    pub size: Option<u64>,
    /// Bytes of memory that its values take, where that is known at once.
    pub bytes: Option<u64>,
    /// The beginning of what it prints as.
    pub preview: String,
}

/// A variable, as programs get it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VariableBrief<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its type, in the language's own words.
    #[serde(rename = "type")]
    pub kind: &'a str,
    /// Rows and columns, or how many elements; empty if it has neither.
    pub shape: String,
    /// Bytes of memory that its values take, where that is known at once.
    pub bytes: Option<u64>,
    /// The beginning of what it prints as.
    pub preview: &'a str,
}

/// A window of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameWindow {
    /// Its columns, an index that is no plain numbering first.
    pub columns: Vec<FrameColumn>,
    /// The rows of the window, a value for each column: null, a truth value, a number or text.
    pub rows: Vec<Vec<Value>>,
    /// How many rows there are that the filter lets through.
    pub total: u64,
    /// The first row of the window.
    pub offset: u64,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrameColumn {
    /// Its name.
    pub name: String,
    /// Its type, in the library's own words.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What a column has in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnProfile {
    /// Its rows.
    pub count: u64,
    /// How many of them have no value.
    pub missing: u64,
    /// Different values; null where that cannot be counted.
    pub distinct: Option<u64>,
    /// The most frequent values.
    #[serde(default)]
    pub top: Vec<ValueCount>,
    /// Of numbers and moments, the least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// The largest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    /// Of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<HistogramBin>>,
}

/// How often a value is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValueCount {
    /// The value.
    pub value: Value,
    /// How often.
    pub count: u64,
}

/// How many numbers are between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBin {
    /// The least.
    pub from: f64,
    /// Up to this one.
    pub to: f64,
    /// How many.
    pub count: u64,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Its size.
    pub bytes: u64,
    /// When it was changed, in ISO 8601.
    pub modified: Option<String>,
}

/// What an entry of a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A link, which is not followed.
    Link,
    /// A socket, a device, ..
    Other,
}

/// Lines of what a cell has put out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputPage {
    /// The file that they are of; null if they are of the notebook.
    pub file: Option<String>,
    /// All files of the cell, with their sizes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, u64>,
    /// The lines, without the codes of terminals.
    pub lines: Vec<OutputLine>,
    /// How many lines there are.
    pub total: usize,
    /// How many of them have the text in them that was searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<usize>,
}

/// A line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputLine {
    /// From 1. A line of more than 2,000 bytes counts as several.
    pub number: usize,
    /// Without its end.
    pub text: String,
}

impl From<Completions> for CompletionList {
    fn from(completions: Completions) -> Self {
        Self {
            matches: completions.matches,
            start: completions.cursor_start,
            end: completions.cursor_end,
        }
    }
}

impl From<Completeness> for CodeState {
    fn from(completeness: Completeness) -> Self {
        match completeness {
            Completeness::Complete => Self::Complete,
            Completeness::Incomplete { indent } => Self::Incomplete { indent },
            Completeness::Invalid => Self::Invalid,
            Completeness::Unknown => Self::Unknown,
        }
    }
}

impl From<Variable> for VariableInfo {
    fn from(it: Variable) -> Self {
        let (shape, size) = if it.shape.contains('x') {
            (Some(it.shape), None)
        } else {
            (None, it.shape.parse().ok())
        };
        Self {
            name: it.name,
            kind: it.kind,
            shape,
            size,
            bytes: it.bytes,
            preview: it.head,
        }
    }
}

impl VariableList {
    /// The first `most` variables, and how many more there are.
    pub fn first(mut self, most: usize) -> (Vec<VariableInfo>, usize) {
        let more = self.more + self.variables.len().saturating_sub(most);
        self.variables.truncate(most);
        (self.variables, more)
    }
}

impl VariableInfo {
    /// What programs get of it.
    pub fn brief(&self) -> VariableBrief<'_> {
        VariableBrief {
            name: &self.name,
            kind: &self.kind,
            shape: self.extent(),
            bytes: self.bytes,
            preview: &self.preview,
        }
    }

    /// Its shape or size in words; empty if it has neither.
    pub fn extent(&self) -> String {
        match (&self.shape, self.size) {
            (Some(shape), _) => shape.clone(),
            (None, Some(size)) => size.to_string(),
            (None, None) => String::new(),
        }
    }
}
