//! The cells in order, indexed by id. Output sizes, the cells that show a display and the first changed cell are
//! maintained incrementally, so that no edit scans all cells.

use std::collections::HashMap;

use super::{Cell, CellKind, EditError};

/// The cells of a transcript. Their ids are unique.
#[derive(Debug, Clone, Default)]
pub(super) struct Cells {
    list: Vec<Cell>,
    positions: HashMap<String, usize>,
    /// Display id -> cells that have shown it and may still.
    displays: HashMap<String, Vec<usize>>,
    /// Bytes of outputs that all cells keep.
    bytes: usize,
    /// Index of the first cell changed since the last reset; the number of cells if none.
    changed_from: usize,
}

impl Cells {
    pub(super) fn list(&self) -> &[Cell] {
        &self.list
    }

    /// Builds the index; all cells count as changed. Of two cells with one id the first is kept.
    pub(super) fn of(list: Vec<Cell>) -> Self {
        let mut cells = Self::default();
        for cell in list {
            // Ids are unique in a notebook.
            let _ = cells.push(cell);
        }
        cells
    }

    pub(super) fn into_list(self) -> Vec<Cell> {
        self.list
    }

    pub(super) fn get(&self, id: &str) -> Option<&Cell> {
        self.list.get(self.position(id)?)
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn changed_from(&self) -> usize {
        self.changed_from
    }

    pub(super) fn settle(&mut self) {
        self.changed_from = self.list.len();
    }

    /// Marks the cells from index `at` on as changed.
    pub(super) fn touch(&mut self, at: usize) {
        self.changed_from = self.changed_from.min(at);
    }

    /// Adds a cell at the end.
    pub(super) fn push(&mut self, cell: Cell) -> Result<(), EditError> {
        let at = self.list.len();
        if self.positions.contains_key(&cell.id) {
            return Err(EditError::Taken(cell.id));
        }
        self.positions.insert(cell.id.clone(), at);
        self.bytes += kept(&cell);
        if let CellKind::Code(code) = &cell.kind {
            for display_id in code.outputs.display_ids() {
                note(&mut self.displays, display_id, at);
            }
        }
        self.list.push(cell);
        Ok(())
    }

    /// Keeps only the first `length` cells.
    pub(super) fn truncate(&mut self, length: usize) {
        for cell in self.list.drain(length.min(self.list.len())..) {
            self.positions.remove(&cell.id);
            self.bytes -= kept(&cell);
        }
        self.touch(length);
    }

    /// Changes the cell `id`, if it is there.
    pub(super) fn change(&mut self, id: &str, change: impl FnOnce(&mut Cell)) {
        if let Some(at) = self.position(id) {
            self.change_at(at, change);
        }
    }

    /// Changes the cell at `at`, if it is there. Its id stays.
    pub(super) fn change_at(&mut self, at: usize, change: impl FnOnce(&mut Cell)) {
        let Some(cell) = self.list.get_mut(at) else {
            return;
        };
        let before = kept(cell);
        change(cell);
        self.bytes = self.bytes - before + kept(cell);
        self.touch(at);
    }

    /// Indices of cells that may show displays named `display_id`.
    pub(super) fn showing(&self, display_id: &str) -> &[usize] {
        self.displays.get(display_id).map_or(&[], Vec::as_slice)
    }

    /// Records that the cell `id` shows a display named `display_id`.
    pub(super) fn shows(&mut self, id: &str, display_id: &str) {
        if let Some(at) = self.position(id) {
            note(&mut self.displays, display_id, at);
        }
    }
}

fn note(displays: &mut HashMap<String, Vec<usize>>, display_id: &str, at: usize) {
    match displays.get_mut(display_id) {
        Some(cells) if cells.contains(&at) => {}
        Some(cells) => cells.push(at),
        None => {
            displays.insert(display_id.to_owned(), vec![at]);
        }
    }
}

/// Bytes of outputs that a cell keeps. A person's cell, from a notebook that the session continues, counts zero.
pub(super) fn kept(cell: &Cell) -> usize {
    match &cell.kind {
        _ if cell.is_foreign() => 0,
        CellKind::Code(code) => code.outputs.bytes(),
        CellKind::User
        | CellKind::Note
        | CellKind::Assistant { .. }
        | CellKind::Cut
        | CellKind::Reading(_)
        | CellKind::Compaction(_) => 0,
    }
}
