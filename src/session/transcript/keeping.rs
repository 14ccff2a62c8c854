//! Adding outputs to cells, and keeping them within limits.

use super::{CellKind, EditError, Transcript};
use crate::kernel::OutputEvent;

impl Transcript {
    /// The cells whose outputs exceed the limits, or show a display that `output` of `cell` updated and that is kept in
    /// files. Each needs an [`Edit::Cut`](super::Edit::Cut).
    pub fn over(&self, cell: &str, output: &OutputEvent) -> Vec<String> {
        let mut cells: Vec<usize> = match output {
            OutputEvent::Update { display_id, .. } => self.cells.showing(display_id).to_vec(),
            _ => Vec::new(),
        };
        cells.extend(self.cells.position(cell).filter(|at| !cells.contains(at)));
        let all = self.cells.bytes();
        cells
            .into_iter()
            .filter_map(|at| self.cells.list().get(at))
            // Outputs that came from a file are never cut.
            .filter(|cell| cell.carried.is_none())
            .filter_map(|cell| Some((cell, &cell.code()?.outputs)))
            .filter(|(_, outputs)| outputs.is_over(&self.limits.of_cell(all - outputs.bytes())))
            .map(|(cell, _)| cell.id.clone())
            .collect()
    }

    /// The cells that may show a display of this name.
    pub fn showing(&self, display_id: &str) -> Vec<String> {
        let cells = self.cells.showing(display_id).iter();
        cells
            .filter_map(|&at| self.cells.list().get(at))
            .map(|cell| cell.id.clone())
            .collect()
    }

    /// Does what [`Edit::Emit`](super::Edit::Emit) does, but borrows the output.
    ///
    /// # Errors
    /// [`EditError`].
    pub fn take_output(&mut self, cell: &str, output: &OutputEvent) -> Result<u64, EditError> {
        self.emit(cell, output)?;
        self.revision += 1;
        Ok(self.revision)
    }

    /// Adds output to the cell. A display may have been shown by an earlier cell than the one that updates it.
    pub(super) fn emit(&mut self, id: &str, output: &OutputEvent) -> Result<(), EditError> {
        let shown = match output {
            OutputEvent::Update {
                data,
                metadata,
                display_id,
            } => {
                self.change_code(id, |_, _| ())?;
                for at in self.cells.showing(display_id).to_vec() {
                    self.cells.change_at(at, |cell| {
                        if let CellKind::Code(code) = &mut cell.kind {
                            code.outputs.update(display_id, data, metadata);
                        }
                    });
                }
                return Ok(());
            }
            OutputEvent::Display { display_id, .. } | OutputEvent::Result { display_id, .. } => {
                display_id.as_deref()
            }
            OutputEvent::Stream(_)
            | OutputEvent::Error(_)
            | OutputEvent::Clear { .. }
            | OutputEvent::Lost(_) => None,
        };
        self.change_code(id, |code, _| code.outputs.apply(output))?;
        if let Some(display_id) = shown {
            self.cells.shows(id, display_id);
        }
        Ok(())
    }
}
