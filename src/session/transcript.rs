//! The conversation: cells in order, changed only through [`Transcript::apply`].
//!
//! Questions, answers and executed code are all cells. A model's reply can contain text and several calls; cells of one
//! reply share their `step`, so that the prompt can be rebuilt exactly.
//!
//! The cost of an edit does not depend on the length of the session: cells are indexed by id, and the total size of
//! outputs is maintained incrementally.
//!
//! [`Edit`] says how edits may evolve: they are the journal's records.

mod accounts;
mod apply;
mod cells;
mod edit;
mod keeping;
mod restored;
mod status;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::carried::{Carried, CarriedFile};
use super::changes::FilesChanged;
use super::compaction::Compaction;
use super::limits::{OutputFolderPath, OutputLimits};
use super::outputs::Outputs;
use super::visual::Visual;
use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::llm::types::Native;
pub use accounts::{Accounts, Spent};
use cells::Cells;
pub use edit::{Edit, EditError};
pub(super) use restored::Restored;
pub use status::CellStatus;

/// A session's conversation. Two transcripts are equal if their content is, whatever edits produced it.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    cells: Cells,
    revision: u64,
    kernel: Option<KernelIdentity>,
    others: Vec<KernelIdentity>,
    /// The models that answered, with the first step of each; the latest is last.
    models: Vec<(String, u32)>,
    accounts: Accounts,
    natives: BTreeMap<u32, Native>,
    limits: OutputLimits,
    file: CarriedFile,
}

/// What a notebook says about its kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelIdentity {
    /// The kernelspec's name.
    pub name: String,
    /// For people.
    pub display_name: String,
    /// The language.
    pub language: String,
    /// `language_info` as the kernel gave it.
    pub language_info: Map<String, Value>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its id, as the notebook stores it (JEP 62).
    pub id: String,
    /// What it is.
    pub kind: CellKind,
    /// The text or the code.
    pub source: String,
    /// What the notebook that it was read from says of it besides; `None` for one that no file had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Box<Carried>>,
}

/// What a cell is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CellKind {
    /// The person speaks.
    User,
    /// A word to the model that no person typed: what is missing, what went wrong. Shown dim, kept in the notebook's
    /// metadata order so that a prompt can be rebuilt.
    Note,
    /// The model speaks, in reply number `step`.
    Assistant {
        /// Number of the model's reply within the session, from 1.
        step: u32,
    },
    /// Words of a reply that broke off and was asked for again: they were shown and are kept, and no model gets them.
    Cut,
    /// Code.
    Code(Box<CodeCell>),
    /// The model reads more of a cell's output than it was shown. The source says what it asked for.
    Reading(Box<Reading>),
    /// Cells before this one were compacted; the source is what the model reads about it.
    Compaction(Box<Compaction>),
}

/// Code, where it came from and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeCell {
    /// Who wrote it.
    pub author: Author,
    /// Its language; `None` is that of the main kernel.
    pub language: Option<String>,
    /// What became of it.
    pub status: CodeStatus,
    /// The `In [n]` number.
    pub count: Option<i64>,
    /// What came out.
    pub outputs: Outputs,
    /// When it started, ISO 8601.
    pub started: Option<String>,
    /// When it ended, ISO 8601.
    pub finished: Option<String>,
    /// The code as the model wrote it, if a person changed it.
    pub original: Option<String>,
    /// What is pointed out to the model with the outputs.
    pub hint: Option<String>,
    /// The files of its pictures, in the order of its outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<Option<OutputFolderPath>>,
    /// What it did to the files of the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FilesChanged>,
}

impl CodeCell {
    /// The file in which picture, chart or HTML `index` of the outputs is kept, if there is one.
    pub fn picture(&self, index: usize) -> Option<&OutputFolderPath> {
        let outputs = self.outputs.to_notebook();
        let visuals = |outputs: &[Output]| {
            let data = outputs.iter().filter_map(Output::data);
            data.filter(|data| Visual::of(data).is_some()).count()
        };
        let before = visuals(outputs.get(..index)?);
        let is_one = visuals(outputs.get(index..=index)?) == 1;
        self.pictures.get(before).filter(|_| is_one)?.as_ref()
    }
}

/// What the model asked to read, and what it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Number of the reply.
    pub step: u32,
    /// The provider's id of the call.
    pub call_id: String,
    /// What it was told.
    pub answer: String,
    /// Whether there was nothing to read.
    pub is_error: bool,
}

/// Who wrote a code cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The person.
    Person,
    /// The model, as call `call_id` of reply `step`.
    Model {
        /// Number of the reply.
        step: u32,
        /// The provider's id of the call.
        call_id: String,
        /// The arguments as the model wrote them, if they were no valid call (then nothing runs).
        broken: Option<String>,
    },
}

/// What became of a code cell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CodeStatus {
    /// Waits for a decision.
    Proposed,
    /// In the kernel.
    Running,
    /// Done.
    Finished(Verdict),
    /// The person said no, with these words if any.
    Declined(Option<String>),
    /// Never run, for this reason.
    NotRun(String),
}

impl Transcript {
    /// An empty transcript that keeps outputs within `limits`.
    pub fn new(limits: OutputLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The cells, oldest first.
    pub fn cells(&self) -> &[Cell] {
        self.cells.list()
    }

    /// The cell with this id.
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        self.cells.get(id)
    }

    /// The index of the cell with this id.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.cells.position(id)
    }

    /// The index of the first cell that changed since [`Transcript::settle`]; the number of cells if none did.
    pub fn changed_from(&self) -> usize {
        self.cells.changed_from()
    }

    /// Marks the current state as saved: only later changes count in [`Transcript::changed_from`].
    pub fn settle(&mut self) {
        self.cells.settle();
    }

    /// Bytes of all outputs, as the limits measure them.
    pub fn bytes(&self) -> usize {
        self.cells.bytes()
    }

    /// Edits that turn an empty transcript into this one.
    pub fn snapshot(&self) -> impl Iterator<Item = Edit> {
        let Self {
            cells,
            revision: _,
            kernel,
            others,
            models,
            accounts,
            natives,
            limits: _,
            file,
        } = self;
        let kernels = kernel.iter().cloned().map(Edit::SetKernel);
        let others = others.iter().cloned().map(Edit::AddKernel);
        let models = std::iter::once(Edit::Models(models.clone()));
        let cells = cells.list().iter().cloned().map(Box::new);
        let file = Some(file.clone()).filter(|file| *file != CarriedFile::default());
        let file = file.map(|file| Edit::Carry(Box::new(file)));
        let natives = natives.iter().map(|(step, native)| Edit::Keep {
            step: *step,
            native: native.clone(),
        });
        let accounts = Edit::Accounts(Box::new(accounts.clone()));
        file.into_iter()
            .chain(kernels)
            .chain(others)
            .chain(models)
            .chain(cells.map(Edit::Restore))
            .chain(natives)
            .chain(std::iter::once(accounts))
    }

    /// The code of the cell with this id, if it is a code cell.
    pub fn code(&self, id: &str) -> Option<&CodeCell> {
        self.cell(id)?.code()
    }

    /// The number of edits applied.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The main kernel, once known.
    pub fn kernel(&self) -> Option<&KernelIdentity> {
        self.kernel.as_ref()
    }

    /// The kernels of other languages that were started.
    pub fn other_kernels(&self) -> &[KernelIdentity] {
        &self.others
    }

    /// The model that answers.
    pub fn model(&self) -> Option<&str> {
        self.models.last().map(|(name, _)| name.as_str())
    }

    /// The models that answered, with the first step of each; more than one if the model was changed.
    pub fn models(&self) -> &[(String, u32)] {
        &self.models
    }

    /// The model that wrote reply number `step`.
    pub fn model_of(&self, step: u32) -> Option<&str> {
        let mut latest = self.models.iter().rev();
        latest
            .find(|(_, from)| *from <= step)
            .map(|(name, _)| name.as_str())
    }

    fn add(&mut self, id: String, kind: CellKind, source: String) -> Result<(), EditError> {
        self.cells.push(Cell {
            id,
            kind,
            source,
            carried: None,
        })
    }

    /// Marks the text of `cell` as a reply that broke off.
    fn cut_off(&mut self, cell: &str, reason: &str) -> Result<(), EditError> {
        let found = self
            .cell(cell)
            .ok_or_else(|| EditError::NoCell(cell.to_owned()))?;
        if !matches!(found.kind, CellKind::Assistant { .. }) {
            return Err(EditError::Taken(cell.to_owned()));
        }
        self.cells.change(cell, |cell| {
            cell.kind = CellKind::Cut;
            let marker = format!("\n\n*(cut off: {reason}; asked again)*");
            cell.source.push_str(&marker);
        });
        Ok(())
    }

    fn change_code(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut CodeCell, &mut String),
    ) -> Result<(), EditError> {
        match self.cell(id).map(|cell| &cell.kind) {
            None => return Err(EditError::NoCell(id.to_owned())),
            Some(CellKind::Code(_)) => {}
            Some(_) => {
                return Err(EditError::NotCode(id.to_owned()));
            }
        }
        self.cells.change(id, |cell| {
            if let CellKind::Code(code) = &mut cell.kind {
                change(code, &mut cell.source);
            }
        });
        Ok(())
    }
}

impl PartialEq for Transcript {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            cells,
            // The revision counts edits; it is not content.
            revision: _,
            kernel,
            others,
            models,
            accounts,
            natives,
            limits,
            file,
        } = self;
        cells.list() == other.cells.list()
            && *kernel == other.kernel
            && *others == other.others
            && *models == other.models
            && *accounts == other.accounts
            && *natives == other.natives
            && *limits == other.limits
            && *file == other.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jupyter::mime::MimeBundle;
    use crate::jupyter::nbformat::Output;
    use crate::kernel::OutputEvent;

    fn propose(cell: &str) -> Edit {
        Edit::Propose {
            cell: cell.to_owned(),
            author: Author::Person,
            language: None,
            source: "old".to_owned(),
        }
    }

    #[test]
    fn an_edit_that_does_not_fit_changes_nothing() {
        let mut transcript = Transcript::default();
        transcript
            .apply(Edit::Say {
                cell: "u".to_owned(),
                text: "hi".to_owned(),
            })
            .unwrap();
        let before = transcript.clone();
        let number = |cell: &str| Edit::Number {
            cell: cell.to_owned(),
            count: 1,
        };
        assert_eq!(
            transcript.apply(number("x")),
            Err(EditError::NoCell("x".to_owned()))
        );
        assert_eq!(
            transcript.apply(number("u")),
            Err(EditError::NotCode("u".to_owned()))
        );
        assert_eq!(
            transcript.apply(propose("u")),
            Err(EditError::Taken("u".to_owned()))
        );
        assert_eq!(transcript, before);
    }

    fn say(cell: &str, step: u32) -> Edit {
        Edit::AppendText {
            cell: cell.to_owned(),
            step,
            text: "The mean".to_owned(),
        }
    }

    #[test]
    fn it_is_known_who_said_what() {
        let mut transcript = Transcript::default();
        for edit in [
            Edit::SetModel("a/never".to_owned()),
            Edit::SetModel("a/one".to_owned()),
            say("x", 1),
            say("y", 2),
            Edit::SetModel("b/two".to_owned()),
            say("z", 3),
        ] {
            transcript.apply(edit).unwrap();
        }
        assert_eq!(
            transcript.models(),
            [("a/one".to_owned(), 1), ("b/two".to_owned(), 3)]
        );
        assert_eq!(
            [1, 2, 3].map(|step| transcript.model_of(step)),
            [Some("a/one"), Some("a/one"), Some("b/two")]
        );
    }

    #[test]
    fn what_is_kept_of_a_reply_goes_with_it() {
        let native = |text: &str| Native::new(serde_json::json!({"content": text}));
        let keep = |step: u32| Edit::Keep {
            step,
            native: native(&step.to_string()),
        };
        let mut transcript = Transcript::default();
        for edit in [
            Edit::SetModel("a/one".to_owned()),
            say("x", 1),
            keep(1),
            say("y", 2),
            keep(2),
            Edit::SetModel("b/two".to_owned()),
            say("z", 3),
            keep(3),
            Edit::TakeBack {
                cell: "y".to_owned(),
            },
        ] {
            transcript.apply(edit).unwrap();
        }
        assert_eq!(
            [1, 2, 3].map(|step| transcript.native(step).cloned()),
            [Some(native("1")), None, None]
        );
        // The chosen model is kept.
        assert_eq!(
            transcript.models(),
            [("a/one".to_owned(), 1), ("b/two".to_owned(), 2)]
        );
        // A session that continues from here reuses the number.
        assert_eq!(transcript.last_step(), 1);
    }

    #[test]
    fn what_was_cut_off_is_kept_and_marked() {
        let mut transcript = Transcript::default();
        let cut = |cell: &str| Edit::CutOff {
            cell: cell.to_owned(),
            reason: "no network".to_owned(),
        };
        transcript.apply(say("x", 1)).unwrap();
        transcript.apply(cut("x")).unwrap();
        assert_eq!(
            transcript.cell("x"),
            Some(&Cell {
                id: "x".to_owned(),
                kind: CellKind::Cut,
                source: "The mean\n\n*(cut off: no network; asked again)*".to_owned(),
                carried: None,
            })
        );
        let twice = transcript.apply(cut("x"));
        assert_eq!(twice, Err(EditError::Taken("x".to_owned())));
    }

    #[test]
    fn a_change_keeps_the_first_original() {
        let mut transcript = Transcript::default();
        transcript.apply(propose("c")).unwrap();
        for source in ["old", "new", "newer"] {
            transcript
                .apply(Edit::Change {
                    cell: "c".to_owned(),
                    source: source.to_owned(),
                })
                .unwrap();
        }
        assert_eq!(
            transcript.code("c").unwrap().original.as_deref(),
            Some("old")
        );
        assert_eq!(transcript.cell("c").unwrap().source, "newer");
    }

    #[test]
    fn a_later_cell_updates_an_earlier_display() {
        let mut transcript = Transcript::default();
        transcript.apply(propose("a")).unwrap();
        transcript.apply(propose("b")).unwrap();
        let emit = |cell: &str, output| Edit::Emit {
            cell: cell.to_owned(),
            output,
        };
        let shown = OutputEvent::Display {
            data: MimeBundle::text("1"),
            metadata: Map::new(),
            display_id: Some("d".to_owned()),
        };
        let update = OutputEvent::Update {
            data: MimeBundle::text("2"),
            metadata: Map::new(),
            display_id: "d".to_owned(),
        };
        transcript.apply(emit("a", shown)).unwrap();
        transcript.apply(emit("b", update)).unwrap();
        let outputs = |cell: &str| transcript.code(cell).unwrap().outputs.to_notebook();
        assert_eq!(
            outputs("a"),
            [Output::display(MimeBundle::text("2"), Map::new())]
        );
        assert_eq!(outputs("b"), []);
    }
}
