//! What can be wrong with a notebook file: so wrong that it is none, or wrong and repaired.

use std::fmt;

use super::{MAJOR, MINOR};

/// Something that was odd in a notebook that could be read all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The file says it is newer than 4.5; what 4.5 does not know is kept as it is.
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
        /// How many.
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
                "notebook format {MAJOR}.{minor} is newer than {MAJOR}.{MINOR}: what is new in it is kept, not understood"
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
        /// Its place in the line, in bytes.
        column: usize,
    },
    /// Text, but not JSON.
    #[error("not JSON: {reason}, at line {line}, column {column}: `{found}`")]
    NotJson {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// What the parser says.
        reason: String,
        /// The text there, at most 40 characters.
        found: String,
    },
    /// JSON that stops: a file that was not written to its end.
    #[error("not JSON: the file ends in the middle of it, in line {line}")]
    CutShort {
        /// The last line.
        line: usize,
    },
    /// A merge conflict of git that was not resolved.
    #[error("an unresolved merge conflict begins at line {line}")]
    MergeConflict {
        /// Line of the first marker.
        line: usize,
    },
    /// Half of a UTF-16 pair, which no UTF-8 file can hold.
    #[error("`\\u{unit:04x}` at line {line}, column {column} is half a character")]
    LoneSurrogate {
        /// The line.
        line: usize,
        /// The column.
        column: usize,
        /// The code unit, 0xd800 to 0xdfff.
        unit: u16,
    },
    /// JSON, but something else.
    #[error("JSON, but not a notebook: {found}")]
    NotANotebook {
        /// What it is.
        found: String,
    },
    /// A version this reader does not know.
    #[error("notebook format {major} cannot be read (known are 2, 3 and 4)")]
    UnknownVersion {
        /// `nbformat` as it stands in the file.
        major: String,
    },
    /// A notebook whose skeleton is broken.
    #[error("`{path}` should be {expected}, found {found}")]
    Malformed {
        /// Where, as in `cells[3]`.
        path: String,
        /// What has to be there.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
}
