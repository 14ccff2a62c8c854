//! What can be wrong with a notebook file: errors, and warnings about what was repaired.

use std::fmt;

use super::{MAJOR, MINOR};

/// Something unusual in a notebook that could still be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The file is of a newer version than 4.5; what 4.5 does not define is kept unchanged.
    NewerMinor {
        /// The file's minor version.
        minor: u64,
    },
    /// The file has no `nbformat_minor`; it was read as 4.0.
    NoMinor,
    /// A field that was missing or of the wrong type was repaired.
    Repaired {
        /// Where, as in `cells[3].outputs[0].text`.
        path: String,
        /// What was there: a JSON type, or `nothing`.
        found: &'static str,
    },
    /// Two cells had the same id; the later one got a new one.
    DuplicateId {
        /// The id.
        id: String,
    },
    /// `NaN`, `Infinity` or `-Infinity` became null.
    NotFinite {
        /// How many.
        count: usize,
    },
    /// Integers beyond 64 bits became floats.
    BigIntegers {
        /// Number of replaced values.
        count: usize,
        /// Line of the first, from 1.
        line: usize,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NewerMinor { minor } => write!(
                out,
                "notebook format {MAJOR}.{minor} is newer than {MAJOR}.{MINOR}: unknown fields are kept unchanged"
            ),
            Self::NoMinor => write!(out, "no `nbformat_minor`: read as {MAJOR}.0"),
            Self::Repaired { path, found } => write!(out, "`{path}`: found {found}, repaired"),
            Self::DuplicateId { id } => write!(out, "cell id `{id}` was there twice: changed"),
            Self::NotFinite { count } => {
                write!(
                    out,
                    "{count} × NaN or Infinity, which JSON does not have: now null"
                )
            }
            Self::BigIntegers { count, line } => write!(
                out,
                "{count} × an integer beyond 64 bits (first in line {line}): now a float"
            ),
        }
    }
}

/// Why a file is not a notebook that can be read. Lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NbformatError {
    /// Nothing but white space.
    #[error("the file is empty")]
    Empty,
    /// Not text.
    #[error("not UTF-8 text (line {line}, byte {column} of it)")]
    NotUtf8 {
        /// Line of the first bad byte.
        line: usize,
        /// Its position in the line, in bytes.
        column: usize,
    },
    /// Text, but not JSON.
    #[error("not JSON: {reason}, at line {line}, column {column}: `{found}`")]
    NotJson {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The parser's error.
        reason: String,
        /// The text at that position, at most 40 characters.
        found: String,
    },
    /// JSON that ends early: the file was not completely written.
    #[error("not JSON: the file ends in the middle of it, in line {line}")]
    CutShort {
        /// The last line.
        line: usize,
    },
    /// An unresolved git merge conflict.
    #[error("an unresolved merge conflict begins at line {line}")]
    MergeConflict {
        /// Line of its first marker.
        line: usize,
    },
    /// Half of a UTF-16 surrogate pair, which UTF-8 cannot represent.
    #[error("`\\u{unit:04x}` at line {line}, column {column} is half a character")]
    LoneSurrogate {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The code unit, 0xd800 to 0xdfff.
        unit: u16,
    },
    /// JSON, but not a notebook.
    #[error("JSON, but not a notebook: {found}")]
    NotANotebook {
        /// What it is instead.
        found: String,
    },
    /// A version this reader does not know.
    #[error("notebook format {major} cannot be read (known are 2, 3 and 4)")]
    UnknownVersion {
        /// `nbformat` as written in the file.
        major: String,
    },
    /// A notebook with a broken structure.
    #[error("`{path}` should be {expected}, found {found}")]
    Malformed {
        /// Where, as in `cells[3]`.
        path: String,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
}
