//! What a [`super::Kernel`] can ask of its task, and what it is answered.

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::checkpoint::{CheckpointId, Checkpoints, Confined};
use super::execution::Events;
use super::late::Late;
use super::{ExecuteOptions, KernelError};
use crate::jupyter::content::{Content, KernelInfo};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::raw::RawMessage;

/// What a handle can ask for.
#[derive(Debug)]
pub(super) enum Command {
    Execute {
        options: ExecuteOptions,
        id: String,
        events: Events,
        /// Of a caller who does not know whether the kernel lives. Others learn of its death from the events: to wait
        /// for this costs a change of threads for each cell.
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
    /// The same for what is not ours and so may be running unseen.
    InterruptAnyway,
    Restart {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    /// Another process takes the kernel's place: that of a checkpoint.
    Restore {
        checkpoints: Checkpoints,
        id: CheckpointId,
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
    /// Any other request; the caller bounds the wait.
    Ask {
        channel: Channel,
        content: Content,
        reply: oneshot::Sender<Message>,
    },
    /// From now on, whatever belongs to no execution of ours goes there.
    Tap {
        hearer: Hearer,
    },
    /// From now on, outputs of finished executions go there.
    Late {
        outputs: mpsc::Sender<Late>,
    },
    /// A message of somebody else's, as it is.
    Forward {
        channel: Channel,
        message: Box<RawMessage>,
    },
    About {
        reply: oneshot::Sender<About>,
    },
}

/// Facts about a kernel that lives.
#[derive(Debug, Clone)]
pub(super) struct About {
    pub(super) info: KernelInfo,
    /// Where it has one.
    pub(super) connection_file: Option<std::path::PathBuf>,
    /// Of the kernel's own process, where it is one of ours.
    pub(super) pid: Option<u32>,
    /// Whether it can make copies of itself.
    pub(super) can_be_copied: bool,
    /// Of a confined kernel: where copies of it can be reached, and the namespaces that they are in.
    pub(super) confined: Option<Confined>,
    /// Whether it ran before.
    pub(super) adopted: bool,
    /// A cell is running.
    pub(super) busy: bool,
    /// How it is interrupted.
    pub(super) interrupt_mode: InterruptMode,
}

/// Where tapped messages go, and which.
pub(super) type Hearer = (mpsc::Sender<Tapped>, TapScope);

/// What a tap hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TapScope {
    /// What belongs to no execution of ours.
    Foreign,
    /// Our cells too, as the kernel sent them. What we ask for ourselves beside the cells is not heard.
    Cells,
}

/// A message as the kernel sent it.
#[derive(Debug)]
pub struct Tapped {
    /// Where it came.
    pub channel: Channel,
    /// The message, byte for byte.
    pub message: RawMessage,
    /// Its bytes count against what may be on its way until this is dropped.
    pub(super) permit: Option<OwnedSemaphorePermit>,
}
