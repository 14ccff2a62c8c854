//! Outputs that come to cells, and what cells keep of them.

use super::{CellKind, EditError, Transcript};
use crate::kernel::OutputEvent;

impl Transcript {
    /// The cells whose outputs are over the limits, or show something that `output` of `cell` changed and that is in
    /// files. Each wants an [`Edit::Cut`].
    pub fn over(&self, cell: &str, output: &OutputEvent) -> Vec<String> {
        let is_update = matches!(output, OutputEvent::Update { .. });
        let others = self.bytes_of_others("");
        let cells = self.cells.iter().filter(|c| is_update || c.id == cell);
        cells
            // What came from a file is not ours to cut.
            .filter(|cell| cell.carried.is_none())
            .filter_map(|cell| Some((cell, &cell.code()?.outputs)))
            .filter(|(_, outputs)| {
                let limits = self.limits.of_cell(others - outputs.bytes());
                outputs.is_over(&limits)
            })
            .map(|(cell, _)| cell.id.clone())
            .collect()
    }

    /// What all cells but `id` keep.
    pub(super) fn bytes_of_others(&self, id: &str) -> usize {
        self.cells
            .iter()
            .filter(|cell| cell.id != id && !cell.is_foreign())
            .filter_map(|cell| Some(cell.code()?.outputs.bytes()))
            .sum()
    }

    /// A display may have been shown by an earlier cell than the one that updates it.
    pub(super) fn emit(&mut self, id: &str, output: &OutputEvent) -> Result<(), EditError> {
        if let OutputEvent::Update {
            data,
            metadata,
            display_id,
        } = output
        {
            self.code_mut(id)?;
            for cell in &mut self.cells {
                if let CellKind::Code(code) = &mut cell.kind {
                    code.outputs.update(display_id, data, metadata);
                }
            }
        } else {
            self.code_mut(id)?.0.outputs.apply(output);
        }
        Ok(())
    }
}
