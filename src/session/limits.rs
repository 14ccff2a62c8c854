//! Limits on how much output is kept: per cell, per session, and in files.
//!
//! The defaults are far above what people look at and below what makes a notebook hard to open (editors slow down and
//! code hosts refuse files of 50 to 100 MB).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is kept of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputLimits {
    /// Bytes of text (streams, tracebacks) of a cell: one half from its beginning, the other from its end.
    pub cell_text: usize,
    /// Bytes of displays and results of a cell, as they lie in memory.
    pub cell_rich: usize,
    /// Outputs of a cell.
    pub cell_outputs: usize,
    /// Of these, pictures.
    pub cell_images: usize,
    /// Bytes of all outputs of a session or notebook together.
    pub session: usize,
    /// Bytes of the files that a session may write with what is not kept; 0 for no files.
    pub files: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            cell_text: 4 << 20,
            cell_rich: 40 << 20,
            cell_outputs: 10_000,
            cell_images: 500,
            session: 64 << 20,
            files: 2 << 30,
        }
    }
}

impl OutputLimits {
    /// Text that a cell may keep even in a full session.
    const LEAST_TEXT: usize = 64 << 10;

    /// The limits for one cell when all others keep `others` bytes.
    pub(crate) fn of_cell(&self, others: usize) -> CellLimits {
        let left = self.session.saturating_sub(others);
        CellLimits {
            text: self.cell_text.min(left.max(Self::LEAST_TEXT)),
            rich: self.cell_rich.min(left),
            both: left.max(Self::LEAST_TEXT),
            outputs: self.cell_outputs,
            images: self.cell_images,
        }
    }
}

/// The current limits of one cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellLimits {
    pub(crate) text: usize,
    pub(crate) rich: usize,
    /// Of text and rich outputs together.
    pub(crate) both: usize,
    pub(crate) outputs: usize,
    pub(crate) images: usize,
}

/// Where all of a cell's output is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// In the cell.
    #[default]
    Here,
    /// In files.
    Files(OutputFolderPath),
    /// In files from the beginning on, but not to the end, for this reason.
    Partly(OutputFolderPath, String),
    /// Nowhere, for this reason if there is one to tell.
    Nowhere(Option<String>),
}

/// A folder with outputs of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFolderPath {
    /// Relative to the notebook: never a path of the person's home.
    pub beside_notebook: String,
    /// As code in the kernel opens it.
    pub for_code: String,
}

impl OutputFolderPath {
    /// Reads the folders from metadata. The path for code is not stored there, because the file may have moved.
    pub(crate) fn read(files: Option<&Value>) -> Vec<Option<Self>> {
        let files = files.and_then(Value::as_array).into_iter().flatten();
        let place = |file: &Value| {
            let file = file.as_str()?.to_owned();
            Some(Self {
                beside_notebook: file.clone(),
                for_code: file,
            })
        };
        files.map(place).collect()
    }
}

impl Whole {
    /// Whether the cell itself has all of it.
    pub(crate) fn is_here(&self) -> bool {
        *self == Self::Here
    }

    /// The end of a sentence that says how much was dropped.
    pub(crate) fn for_notebook(&self) -> String {
        match self {
            Self::Here | Self::Nowhere(None) => String::new(),
            Self::Files(place) => format!("; all of it is in `{}/`", place.beside_notebook),
            Self::Partly(place, reason) => {
                format!(
                    "; the first part of it is in `{}/` ({reason})",
                    place.beside_notebook
                )
            }
            Self::Nowhere(Some(reason)) => format!("; it could not be written to a file: {reason}"),
        }
    }

    /// The notice for a person when a cell's output exceeds its limit.
    pub(crate) fn notice(&self) -> Option<String> {
        let (Self::Files(place) | Self::Partly(place, _)) = self else {
            return None;
        };
        Some(format!(
            "large output: the notebook keeps the beginning and the end; the complete output is in `{}/`",
            place.beside_notebook
        ))
    }

    /// A line that tells a model where to find the rest, if it is kept.
    pub(crate) fn for_model(&self) -> Option<String> {
        let (place, how_much) = match self {
            Self::Here | Self::Nowhere(_) => return None,
            Self::Files(place) => (place, "All of the output"),
            Self::Partly(place, _) => (place, "The first part of the output"),
        };
        Some(format!(
            "[{how_much} is in files in `{}/`: text in stdout.txt and stderr.txt, displays numbered]",
            place.for_code
        ))
    }
}
