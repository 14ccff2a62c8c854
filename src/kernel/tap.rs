//! Raw messages to and from a kernel, for who speaks the protocol itself (the proxy kernel, widgets).
//!
//! Deliberately not here: when an execution is over. Who listens has replies and `idle` and decides.

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::actor::Command;
use super::{Kernel, KernelError};
use crate::jupyter::content::Content;
use crate::jupyter::message::{Channel, Message};

/// Messages that may wait for the listener. When it is full nothing more is read from the kernel.
const WAITING: usize = 256;

/// A kernel's raw side. The kernel lives as long as this or any handle does.
#[derive(Debug)]
pub struct Tap {
    /// Everything that belongs to no execution or request of ours, in order: answers to what was sent here, and what
    /// the kernel says by itself. Ends when the kernel does.
    pub messages: mpsc::Receiver<Tapped>,
    commands: mpsc::Sender<Command>,
}

/// A message as the kernel sent it.
#[derive(Debug)]
pub struct Tapped {
    /// Where it came.
    pub channel: Channel,
    /// The message; its content is never typed, so that nothing of it is lost.
    pub message: Message,
    /// Its bytes count against what may be on its way until this is dropped.
    _permit: Option<OwnedSemaphorePermit>,
}

impl Tapped {
    /// `content` is the frame as it came.
    pub(super) fn new(
        channel: Channel,
        mut message: Message,
        content: &Bytes,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        message.content = Content::Other {
            msg_type: message.header.msg_type.clone(),
            // It was read once, so it is JSON.
            content: serde_json::from_slice(content).unwrap_or_default(),
        };
        Self {
            channel,
            message,
            _permit: permit,
        }
    }
}

impl Tap {
    /// Sends a message as it is: header, parent, buffers. It is signed with the kernel's key.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn send(&self, channel: Channel, message: Message) -> Result<(), KernelError> {
        self.commands
            .send(Command::Forward {
                channel,
                message: Box::new(message),
            })
            .await
            .map_err(|_| KernelError::Closed)
    }
}

impl Kernel {
    /// Opens the raw side; one opened earlier is closed. It stays open over restarts.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn tap(&self) -> Result<Tap, KernelError> {
        let (sender, messages) = mpsc::channel(WAITING);
        let commands = self.commands.clone();
        commands
            .send(Command::Tap { messages: sender })
            .await
            .map_err(|_| KernelError::Closed)?;
        Ok(Tap { messages, commands })
    }
}
