//! The current and finished cells of a session: the one in the kernel, what it waits for, and where its outputs go.

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
    /// Another front end's request for a cell that has not run yet.
    pub(super) sent: Option<(String, Box<RawMessage>)>,
    pub(super) answering: Option<Answering>,
    pub(super) passwords: Passwords,
    /// The package that the running cell waits for, and its missing modules.
    pub(super) installing: Option<Installing>,
    pub(super) looked_for: Vec<String>,
    /// The text streams of the running cell.
    pub(super) streams: BTreeMap<String, TextStream>,
    /// Late outputs of finished cells, and the ids of those cells, latest last.
    pub(super) late: (mpsc::Sender<Late>, mpsc::Receiver<Late>),
    pub(super) recent: VecDeque<(String, String)>,
    pub(super) output_files: OutputFiles,
    pub(super) pictures: PictureFiles,
    pub(super) plots: PlotSources,
    /// Imports of earlier cells, and the cell up to which they have been read.
    pub(super) memory: Memory,
    pub(super) read: Option<String>,
    /// The tools that the last approved cell may call.
    pub(super) permitted: Permitted,
    /// Whether the code that was last analysed calls tools.
    pub(super) calls_tools: bool,
    /// Files with an earlier modification time existed before the session.
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

    /// The cell in the kernel.
    pub(super) fn execution(&mut self) -> Option<&mut CellRun> {
        self.running.as_mut()?.execution.as_mut()
    }
}
