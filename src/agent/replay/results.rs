//! The outputs of a run's cells so far.

use std::time::Instant;

use tokio::sync::mpsc;

use super::Files;
use crate::jupyter::nbformat::{CellType, Notebook};
use crate::kernel::{Late, OutputEvent};
use crate::session::widgets::Widgets;
use crate::session::{OutputLimits, Outputs};

/// The outputs of a run's cells, within the limits.
pub(super) struct Results {
    /// Finished executions, with index and id of their cell.
    pub(super) executions: Vec<(String, usize, String)>,
    pub(super) late: (mpsc::Sender<Late>, mpsc::Receiver<Late>),
    pub(super) cells: Vec<Option<Outputs>>,
    pub(super) limits: OutputLimits,
    pub(super) files: Files,
    pub(super) widgets: Widgets,
}

impl Results {
    /// For a notebook with this many cells.
    pub(super) fn new(
        cells: usize,
        limits: OutputLimits,
        files: Files,
        late: (mpsc::Sender<Late>, mpsc::Receiver<Late>),
    ) -> Self {
        Self {
            executions: Vec::new(),
            late,
            cells: vec![None; cells],
            limits,
            files,
            widgets: Widgets::default(),
        }
    }

    /// Stores all outputs in the notebook, including earlier ones: displays may have been updated since.
    pub(super) fn into_notebook(self, notebook: &mut Notebook) {
        if let Some(state) = self.widgets.metadata() {
            notebook.metadata.insert("widgets".to_owned(), state);
        }
        for (cell, outputs) in notebook.cells.iter_mut().zip(self.cells) {
            if let (
                CellType::Code {
                    outputs: stored, ..
                },
                Some(outputs),
            ) = (&mut cell.kind, outputs)
            {
                *stored = outputs.into_notebook();
            }
        }
    }

    /// Adds an output of the cell at `index`. Returns notices for a person.
    pub(super) fn apply(&mut self, index: usize, id: &str, output: &OutputEvent) -> Vec<String> {
        if let OutputEvent::Update {
            data,
            metadata,
            display_id,
        } = output
        {
            for at in 0..self.cells.len() {
                if let Some(Some(outputs)) = self.cells.get_mut(at) {
                    outputs.update(display_id, data, metadata);
                }
            }
            // A display that grew is cut; its own cell's files are no longer open.
            for at in (0..self.cells.len()).filter(|&at| at != index) {
                self.fit(at, "", output);
            }
        } else if let Some(Some(outputs)) = self.cells.get_mut(index) {
            outputs.apply(output);
        }
        self.changed();
        self.fit(index, id, output)
    }

    /// Notes that there is something to save.
    pub(super) fn changed(&mut self) {
        if let Some(saver) = &mut self.files.saver {
            saver.changed();
        }
    }

    /// When to save next, if there is something to save.
    pub(super) fn due(&self) -> Option<Instant> {
        self.files.saver.as_ref()?.due()
    }

    /// Writes the notebook with the outputs so far. Returns a notice for a person.
    pub(super) fn save(&mut self, notebook: &mut Notebook) -> Option<String> {
        let saver = self.files.saver.as_mut()?;
        saver.save(notebook, |index| {
            self.cells.get(index)?.as_ref().map(Outputs::to_notebook)
        })
    }

    /// Cuts a cell's outputs to its limits, after its files have all of them.
    fn fit(&mut self, index: usize, id: &str, output: &OutputEvent) -> Vec<String> {
        let kept = |outputs: &Outputs| outputs.bytes();
        let all: usize = self.cells.iter().flatten().map(kept).sum();
        let Some(Some(outputs)) = self.cells.get_mut(index) else {
            return Vec::new();
        };
        let limits = self.limits.of_cell(all - outputs.bytes());
        let over = outputs.is_over(&limits);
        let whole = if id.is_empty() {
            over.then(|| outputs.whole().clone())
        } else {
            let all = over.then_some(&*outputs);
            self.files.folder.take(id, outputs.is_cut(), all, output)
        };
        let Some(whole) = whole else {
            return Vec::new();
        };
        let said = outputs.is_cut();
        outputs.cut(&limits, whole);
        let place = outputs.whole().notice().filter(|_| !said);
        place
            .into_iter()
            .chain(self.files.folder.trouble())
            .collect()
    }
}
