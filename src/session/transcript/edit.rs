//! Changes to a transcript.
//!
//! They are the journal's records ([`crate::session::journal`]), so today's format will be read for years. A new
//! variant of [`Edit`] needs nothing but serde's derive; a Sponde that does not know it reports and skips it. A new
//! field of a variant, or of a type in one, gets `#[serde(default)]`; a field or variant is never renamed or given
//! another meaning. A new field of the transcript must be reproduced by
//! [`Transcript::snapshot`](super::Transcript::snapshot) (the compiler points there), and one of a cell gets
//! `#[serde(default)]`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Accounts, Author, Cell, CodeStatus, KernelIdentity, Reading};
use crate::jupyter::nbformat::Notebook;
use crate::kernel::OutputEvent;
use crate::llm::types::{Native, Usage};
use crate::session::carried::CarriedFile;
use crate::session::changes::FilesChanged;
use crate::session::compaction::Compaction;
use crate::session::limits::{OutputFolderPath, Whole};

/// A change to a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// The person says something.
    Say {
        /// Id of the new cell.
        cell: String,
        /// The words.
        text: String,
    },
    /// Something is pointed out to the model.
    Note {
        /// Id of the new cell.
        cell: String,
        /// The words.
        text: String,
    },
    /// The model says something (more).
    AppendText {
        /// Id of the cell; it is made if it is not there.
        cell: String,
        /// Number of the reply.
        step: u32,
        /// The words.
        text: String,
    },
    /// The reply with these words broke off and is asked for again.
    CutOff {
        /// Which cell of the model's words.
        cell: String,
        /// Why.
        reason: String,
    },
    /// Code that may run.
    Propose {
        /// Id of the new cell.
        cell: String,
        /// Who wrote it.
        author: Author,
        /// Its language; `None` is that of the main kernel.
        language: Option<String>,
        /// The code.
        source: String,
    },
    /// The person changed proposed code.
    Change {
        /// Which cell.
        cell: String,
        /// The new code.
        source: String,
    },
    /// Something is pointed out to the model with a cell's outputs; replaces an earlier hint.
    Hint {
        /// Which cell.
        cell: String,
        /// The words.
        text: String,
    },
    /// The kernel took the code.
    Start {
        /// Which cell.
        cell: String,
        /// When, ISO 8601.
        at: String,
    },
    /// The kernel numbered the code.
    Number {
        /// Which cell.
        cell: String,
        /// The `In [n]` number.
        count: i64,
    },
    /// Output of the code.
    Emit {
        /// Which cell.
        cell: String,
        /// What came.
        output: OutputEvent,
    },
    /// What is over the limits goes; where all of it is.
    Cut {
        /// Which cell.
        cell: String,
        /// Where all of its output is.
        whole: Whole,
    },
    /// Where the pictures of a cell are as files, in the order of its outputs.
    Pictures {
        /// Which cell.
        cell: String,
        /// The files.
        places: Vec<Option<OutputFolderPath>>,
    },
    /// What a cell did to the files of the workspace.
    Files {
        /// Which cell.
        cell: String,
        /// What it did.
        files: FilesChanged,
    },
    /// The model read more of an output.
    Read {
        /// Id of the new cell.
        cell: String,
        /// What it asked for, as it wrote it.
        arguments: String,
        /// What it got.
        reading: Reading,
    },
    /// Cells are compacted for the model.
    Compact {
        /// Id of the new cell.
        cell: String,
        /// What the model reads.
        text: String,
        /// Which cells, and what becomes of them.
        compaction: Compaction,
    },
    /// The end of the code.
    Finish {
        /// Which cell.
        cell: String,
        /// How it ended.
        status: CodeStatus,
        /// When, ISO 8601.
        at: String,
    },
    /// This cell and all after it are no part of the conversation any more.
    TakeBack {
        /// Which cell.
        cell: String,
    },
    /// The main kernel is known: the one that the notebook names.
    SetKernel(KernelIdentity),
    /// The kernel of another language is known; replaces an earlier one of that language.
    AddKernel(KernelIdentity),
    /// Which model answers from the next step on.
    SetModel(String),
    /// Who answered, and the first step of each, latest last: of another session, or of a journal that was made shorter.
    Models(Vec<(String, u32)>),
    /// What the provider wants back of a reply.
    Keep {
        /// Number of the reply.
        step: u32,
        /// What it wants.
        native: Native,
    },
    /// A request was paid for.
    Spend(Usage),
    /// The turn is over, after so many milliseconds.
    EndTurn {
        /// From its question on.
        milliseconds: u64,
    },
    /// What the session and its turns have cost: of another session, or of a journal that was made shorter.
    Accounts(Box<Accounts>),
    /// A cell as it was, at the end: of another session, or of a journal that was made shorter.
    Restore(Box<Cell>),
    /// What the notebook's file says besides, of a notebook that goes on.
    Carry(Box<CarriedFile>),
    /// The notebook's file was changed by others: what they changed, added and deleted is taken over.
    Reload(Box<Notebook>),
}

/// Why an edit cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No such cell.
    #[error("there is no cell `{0}`")]
    NoCell(String),
    /// The cell is not a code cell.
    #[error("cell `{0}` is not code")]
    NotCode(String),
    /// Another cell has this id.
    #[error("there is already a cell `{0}`")]
    Taken(String),
}
