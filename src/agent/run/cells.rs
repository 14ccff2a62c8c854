//! The cells of a session that run or have run: the one in the kernel, what it waits for, and where its outputs go.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use tokio::sync::mpsc;

use super::answering::Answering;
use super::charts::PlotSources;
use super::discretion::Passwords;
use super::installing::Installing;
use super::kernel_slot::MAIN;
use super::output_files::OutputFiles;
use super::running::Running;
use super::watching::Watching;
use super::{AgentOptions, Late, late_outputs};
use crate::agent::approval::Memory;
use crate::agent::cell_run::CellRun;
use crate::agent::output_folder::OutputFolder;
use crate::agent::pictures::PictureFiles;
use crate::agent::tool_calls::Permitted;
use crate::jupyter::raw::RawMessage;
use crate::kernel::redact::TextStream;

pub(super) struct Cells {
    pub(super) running: Option<Running>,
    /// The kernel of the latest cell.
    pub(super) current: usize,
    /// The request of another front end for a cell that is still to run.
    pub(super) sent: Option<(String, Box<RawMessage>)>,
    pub(super) answering: Option<Answering>,
    pub(super) passwords: Passwords,
    /// The package that the running cell waits for, and the modules that it lacked.
    pub(super) installing: Option<Installing>,
    pub(super) looked_for: Vec<String>,
    /// The streams of text of the cell that runs.
    pub(super) streams: BTreeMap<String, TextStream>,
    /// Outputs of cells that have finished, and which cells those were, latest last.
    pub(super) late: (mpsc::Sender<Late>, mpsc::Receiver<Late>),
    pub(super) recent: VecDeque<(String, String)>,
    pub(super) output_files: OutputFiles,
    pub(super) pictures: PictureFiles,
    pub(super) plots: PlotSources,
    /// What cells have imported, and the cell up to which they were read for it.
    pub(super) memory: Memory,
    pub(super) read: Option<String>,
    /// Which tools the cell that was approved last may call.
    pub(super) permitted: Permitted,
    /// Whether the code that was analysed last calls tools.
    pub(super) calls_tools: bool,
    /// Files that were not changed since were there before.
    pub(super) began: SystemTime,
    pub(super) watching: Option<Box<Watching>>,
}

impl Cells {
    pub(super) fn new(options: &AgentOptions, began: SystemTime) -> Self {
        Self {
            running: None,
            current: MAIN,
            sent: None,
            answering: None,
            passwords: Passwords::default(),
            installing: None,
            looked_for: Vec::new(),
            streams: BTreeMap::new(),
            late: late_outputs(),
            recent: VecDeque::new(),
            output_files: OutputFiles::new(OutputFolder::beside(
                &options.notebook,
                &options.kernel.cwd,
                options.limits.files,
            )),
            pictures: PictureFiles::beside(&options.notebook),
            plots: PlotSources::default(),
            memory: Memory::default(),
            read: None,
            permitted: Permitted::default(),
            calls_tools: false,
            began,
            watching: Watching::new(options).map(Box::new),
        }
    }

    /// The cell that is in the kernel.
    pub(super) fn execution(&mut self) -> Option<&mut CellRun> {
        self.running.as_mut()?.execution.as_mut()
    }
}
