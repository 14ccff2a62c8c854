//! Writes large outputs to files ([`OutputFolder`]): in batches, in order, on a thread that may block.
//!
//! Invariants: at most [`BATCH`] bytes wait, plus the latest output. When a cell exceeds its limits, the paths of its
//! files are known at once; when it ends, all of them have been written.

use std::collections::{BTreeMap, HashMap};

use super::{Edit, Session};
use crate::agent::output_folder::OutputFolder;
use crate::jupyter::mime::MimeBundle;
use crate::kernel::OutputEvent;
use crate::session::limits::Whole;
use crate::session::outputs::Outputs;

/// Bytes written at once.
const BATCH: usize = 256 << 10;

/// The files of a session's large outputs, and pending writes.
pub(super) struct OutputFiles {
    /// `None` while a write is running.
    folder: Option<OutputFolder>,
    waiting: Vec<Work>,
    bytes: usize,
    /// The files of cells that have some.
    wholes: HashMap<String, Whole>,
}

/// Pending work for the files of a cell.
struct Work {
    cell: String,
    what: What,
}

enum What {
    Take {
        event: OutputEvent,
        is_cut: bool,
        /// All outputs so far, if they exceed their limits and have no files yet.
        over: Option<Box<Outputs>>,
    },
    Close,
}

impl OutputFiles {
    pub(super) fn new(folder: OutputFolder) -> Self {
        Self {
            folder: Some(folder),
            waiting: Vec::new(),
            bytes: 0,
            wholes: HashMap::new(),
        }
    }

    fn keep_nothing(&self) -> bool {
        self.folder.as_ref().is_none_or(OutputFolder::is_none)
    }

    /// Whether an output affects files.
    pub(super) fn concerns(&self, cell: &str, is_over: bool, event: &OutputEvent) -> bool {
        is_over
            || self.wholes.contains_key(cell)
            || (matches!(event, OutputEvent::Update { .. }) && !self.wholes.is_empty())
    }

    /// Queues an output of `cell`. Returns whether to write now.
    fn push(&mut self, cell: &str, outputs: &Outputs, is_over: bool, event: &OutputEvent) -> bool {
        let is_cut = outputs.is_cut();
        if !is_cut {
            // The output was cleared.
            self.wholes.remove(cell);
        }
        let begins = is_over && !self.wholes.contains_key(cell);
        self.waiting.push(Work {
            cell: cell.to_owned(),
            what: What::Take {
                event: event.clone(),
                is_cut,
                over: begins.then(|| Box::new(outputs.clone())),
            },
        });
        self.bytes += bytes(event);
        begins || self.bytes >= BATCH
    }

    /// Writes what is queued. Returns notices for a person, and the cells whose output files moved.
    async fn write(&mut self) -> (Vec<String>, Vec<String>) {
        let work = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        if work.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut folder = self.folder.take().unwrap_or_else(OutputFolder::none);
        let written = tokio::task::spawn_blocking(move || {
            let mut wholes = BTreeMap::new();
            let mut trouble = Vec::new();
            for Work { cell, what } in work {
                let whole = match what {
                    What::Take {
                        event,
                        is_cut,
                        over,
                    } => folder.take(&cell, is_cut, over.as_deref(), &event),
                    What::Close => folder.close(&cell),
                };
                trouble.extend(folder.trouble());
                wholes.insert(cell, whole);
            }
            (folder, wholes, trouble)
        });
        // The panic has been logged; from then on nothing is written to files.
        let Ok((folder, wholes, trouble)) = written.await else {
            return (Vec::new(), Vec::new());
        };
        self.folder = Some(folder);
        let mut moved = Vec::new();
        for (cell, whole) in wholes {
            match whole {
                Some(whole) => {
                    let before = self.wholes.insert(cell.clone(), whole.clone());
                    if before.is_some_and(|before| before != whole) {
                        moved.push(cell);
                    }
                }
                None => drop(self.wholes.remove(&cell)),
            }
        }
        (trouble, moved)
    }
}

/// The size of an output in a batch.
fn bytes(event: &OutputEvent) -> usize {
    const FEW: usize = 1 << 10;
    let bundle = |data: &MimeBundle| -> usize {
        data.iter()
            .map(|(_, value)| value.as_str().map_or(FEW, str::len))
            .sum()
    };
    match event {
        OutputEvent::Stream(stream) => stream.text.len(),
        OutputEvent::Display { data, .. }
        | OutputEvent::Result { data, .. }
        | OutputEvent::Update { data, .. } => bundle(data),
        OutputEvent::Error(_) | OutputEvent::Clear { .. } | OutputEvent::Lost(_) => FEW,
    }
}

impl Session {
    /// Cuts the outputs of a cell to their limits after `output` came; excess output is written to files first.
    pub(super) async fn cut(&mut self, cell: &str, is_over: bool, output: &OutputEvent) {
        if !self.cells.output_files.concerns(cell, is_over, output) {
            return;
        }
        if self.cells.output_files.keep_nothing() {
            if is_over {
                let (cell, whole) = (cell.to_owned(), Whole::Nowhere(None));
                self.edit(Edit::Cut { cell, whole });
            }
            return;
        }
        let Some(code) = self.transcript.code(cell) else {
            return;
        };
        let was_cut = code.outputs.is_cut();
        let is_full = self
            .cells
            .output_files
            .push(cell, &code.outputs, is_over, output);
        let is_running = self
            .cells
            .running
            .as_ref()
            .is_some_and(|it| it.cell == cell);
        if is_full || !is_running {
            self.write_outputs().await;
        }
        let Some(whole) = self.cells.output_files.wholes.get(cell).cloned() else {
            return;
        };
        let notice = whole.notice().filter(|_| !was_cut);
        let cell = cell.to_owned();
        self.edit(Edit::Cut { cell, whole });
        if let Some(message) = notice {
            self.notice(&message);
        }
    }

    /// Writes the queued output.
    pub(super) async fn write_outputs(&mut self) {
        let (trouble, moved) = self.cells.output_files.write().await;
        for cell in moved {
            if let Some(whole) = self.cells.output_files.wholes.get(&cell).cloned() {
                self.edit(Edit::Cut { cell, whole });
            }
        }
        for message in trouble {
            self.notice(&message);
        }
    }

    /// A cell has ended: completes its files.
    pub(super) async fn close_files(&mut self, cell: &str) {
        if self.cells.output_files.wholes.contains_key(cell) {
            self.cells.output_files.waiting.push(Work {
                cell: cell.to_owned(),
                what: What::Close,
            });
            self.write_outputs().await;
        }
    }
}
