//! Changes to the outputs of cells.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::jupyter::mime::MimeBundle;
use crate::jupyter::nbformat::Output;
use crate::kernel::OutputEvent;

/// A change to a cell's outputs, in the notebook's terms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum OutputChange {
    /// A new output; text of a stream continues the last one of that stream.
    Append {
        /// As nbformat has it.
        output: Output,
        /// Its name for updates.
        #[serde(skip_serializing_if = "Option::is_none")]
        display_id: Option<String>,
    },
    /// New data for the displays of that name, in any cell.
    Update {
        /// Which displays.
        display_id: String,
        /// The representations.
        data: MimeBundle,
        /// Metadata for each of them.
        metadata: Map<String, Value>,
    },
    /// Clear the outputs of the cell.
    Clear {
        /// When the next output comes, not now.
        wait: bool,
    },
}

impl From<OutputEvent> for OutputChange {
    fn from(event: OutputEvent) -> Self {
        let append = |output, display_id| Self::Append { output, display_id };
        match event {
            OutputEvent::Stream(stream) => append(Output::stream(stream.name, stream.text), None),
            OutputEvent::Display {
                data,
                metadata,
                display_id,
            } => append(Output::display(data, metadata), display_id),
            OutputEvent::Result {
                data,
                metadata,
                count,
                display_id,
            } => append(Output::result(count, data, metadata), display_id),
            OutputEvent::Error(error) => append(
                Output::error(error.ename, error.evalue, error.traceback),
                None,
            ),
            OutputEvent::Update {
                data,
                metadata,
                display_id,
            } => Self::Update {
                display_id,
                data,
                metadata,
            },
            OutputEvent::Clear { wait } => Self::Clear { wait },
            OutputEvent::Lost(what) => append(
                Output::stream("stderr", format!("[sponde: {what}]\n")),
                None,
            ),
        }
    }
}
