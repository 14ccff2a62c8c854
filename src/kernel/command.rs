//! Commands from a [`super::Kernel`] to its task, and their answers.

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::checkpoint::{CheckpointId, Checkpoints, Confined};
use super::execution::Events;
use super::late::Late;
use super::{ExecuteOptions, KernelError};
use crate::jupyter::content::{Content, KernelInfo};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::raw::RawMessage;

/// A command from a handle.
#[derive(Debug)]
pub(super) enum Command {
    Execute {
        options: ExecuteOptions,
        id: String,
        events: Events,
        /// Only from a caller that does not know whether the kernel lives. Others learn of its death from the events:
        /// waiting for this reply costs a thread switch per cell.
        reply: Option<oneshot::Sender<Result<(), KernelError>>>,
    },
    Reply {
        execution: String,
        value: String,
    },
    RefuseInput {
        execution: String,
        why: String,
    },
    Interrupt {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    /// Interrupts even if no execution of ours runs: another client's may.
    InterruptAnyway,
    Restart {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    /// Replaces the kernel's process with that of a checkpoint.
    Restore {
        checkpoints: Checkpoints,
        id: CheckpointId,
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
    /// Any other request; the caller sets the timeout.
    Ask {
        channel: Channel,
        content: Content,
        reply: oneshot::Sender<Message>,
    },
    /// Sends all messages that belong to no execution of ours to `hearer` from now on.
    Tap {
        hearer: Hearer,
    },
    /// Sends outputs of finished executions to `outputs` from now on.
    Late {
        outputs: mpsc::Sender<Late>,
    },
    /// Sends another client's message unchanged.
    Forward {
        channel: Channel,
        message: Box<RawMessage>,
    },
    About {
        reply: oneshot::Sender<About>,
    },
}

/// Facts about a running kernel.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) info: KernelInfo,
    /// `None` for a gateway's kernel.
    pub(super) connection_file: Option<std::path::PathBuf>,
    /// Process id, if we own the process.
    pub(super) pid: Option<u32>,
    /// Whether it can make copies of itself.
    pub(super) can_be_copied: bool,
    /// For a confined kernel: where its copies can be reached, and the namespaces they run in.
    pub(super) confined: Option<Confined>,
    /// Whether it was running before we came.
    pub(super) adopted: bool,
    /// A cell is running.
    pub(super) busy: bool,
    /// How it is interrupted.
    pub(super) interrupt_mode: InterruptMode,
}

/// Where tapped messages go, and which ones.
pub(super) type Hearer = (mpsc::Sender<Tapped>, TapScope);

/// Which messages a tap receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TapScope {
    /// Only messages that belong to no execution of ours.
    Foreign,
    /// Our cells too, as the kernel sent them, but not our own requests beside the cells.
    Cells,
}

/// A message as the kernel sent it.
#[derive(Debug)]
pub struct Tapped {
    /// The channel that it came on.
    pub channel: Channel,
    /// The message, byte for byte.
    pub message: RawMessage,
    /// Counts its bytes against [`super::link::IN_FLIGHT_BYTES`] until this is dropped.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}
