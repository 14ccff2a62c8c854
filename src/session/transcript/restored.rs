//! Building a transcript from a notebook instead of from edits.

use std::collections::BTreeMap;

use super::{
    Accounts, Author, Cell, CellKind, Cells, CodeCell, CodeStatus, KernelIdentity, Transcript,
};
use crate::llm::types::Native;
use crate::session::carried::CarriedFile;
use crate::session::limits::OutputLimits;
use crate::session::outputs::Outputs;

/// The parts of a transcript.
pub(in crate::session) struct Restored {
    pub(in crate::session) cells: Vec<Cell>,
    pub(in crate::session) kernel: Option<KernelIdentity>,
    pub(in crate::session) others: Vec<KernelIdentity>,
    pub(in crate::session) models: Vec<(String, u32)>,
    pub(in crate::session) accounts: Accounts,
    pub(in crate::session) natives: BTreeMap<u32, Native>,
    pub(in crate::session) file: CarriedFile,
}

impl Transcript {
    /// Builds a transcript from a notebook; its revision is 0, because the file contains all of it.
    pub(in crate::session) fn restored(restored: Restored, limits: OutputLimits) -> Self {
        let Restored {
            cells,
            kernel,
            others,
            models,
            accounts,
            natives,
            file,
        } = restored;
        Self {
            cells: Cells::of(cells),
            revision: 0,
            kernel,
            others,
            models,
            accounts,
            natives,
            limits,
            file,
        }
    }

    /// Replaces all cells.
    pub(in crate::session) fn replace(&mut self, cells: Vec<Cell>, file: CarriedFile) {
        self.cells = Cells::of(cells);
        self.file = file;
        self.forget_replies();
    }

    /// Drops data of replies after the last one: a resumed session reuses their numbers.
    pub(super) fn forget_replies(&mut self) {
        let last = self.last_step();
        self.natives.retain(|step, _| *step <= last);
        // The model chosen last answers next.
        if let Some((name, from)) = self.models.pop() {
            self.models.retain(|(_, from)| *from <= last);
            if self.model() != Some(&name) {
                self.models.push((name, from.min(last + 1)));
            }
        }
    }

    /// Removes and returns all cells.
    pub(in crate::session) fn take_cells(&mut self) -> Vec<Cell> {
        std::mem::take(&mut self.cells).into_list()
    }

    /// The notebook content that the session does not use.
    pub(in crate::session) fn file(&self) -> &CarriedFile {
        &self.file
    }

    /// The number of the model's latest reply; 0 if there is none.
    pub fn last_step(&self) -> u32 {
        let steps = self.cells().iter().filter_map(Cell::step);
        steps.max().unwrap_or(0)
    }
}

impl CodeCell {
    /// Code that awaits a decision.
    pub(super) fn proposed(author: Author, language: Option<String>) -> Self {
        Self {
            author,
            language,
            status: CodeStatus::Proposed,
            count: None,
            outputs: Outputs::default(),
            started: None,
            finished: None,
            original: None,
            hint: None,
            pictures: Vec::new(),
            files: None,
        }
    }
}

impl Cell {
    /// Whether a person wrote it, in a notebook that the session continues: it is written back unchanged.
    pub fn is_foreign(&self) -> bool {
        self.carried
            .as_ref()
            .is_some_and(|carried| carried.shape.is_some())
    }

    /// The code, if it is a code cell.
    pub fn code(&self) -> Option<&CodeCell> {
        match &self.kind {
            CellKind::Code(code) => Some(code),
            CellKind::User
            | CellKind::Note
            | CellKind::Assistant { .. }
            | CellKind::Cut
            | CellKind::Reading(_)
            | CellKind::Compaction(_) => None,
        }
    }

    /// The number of the model's reply that it belongs to.
    pub fn step(&self) -> Option<u32> {
        match &self.kind {
            CellKind::Assistant { step } => Some(*step),
            CellKind::Reading(reading) => Some(reading.step),
            CellKind::Code(code) => match &code.author {
                Author::Model { step, .. } => Some(*step),
                Author::Person => None,
            },
            CellKind::User | CellKind::Note | CellKind::Cut | CellKind::Compaction(_) => None,
        }
    }
}
