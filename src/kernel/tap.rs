//! Raw messages to and from a kernel, for code that speaks the protocol itself (the proxy kernel, widgets).
//!
//! Deliberately not here: when an execution is over. The listener sees replies and `idle` and decides.

use tokio::sync::mpsc;

use super::command::{Command, Hearer, TapScope, Tapped};
use super::{Kernel, KernelError};
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;

/// Most messages queued for the listener. If the queue is full, nothing more is read from the kernel.
const WAITING: usize = 256;

/// A kernel's raw messages. The kernel lives as long as this or any handle does.
#[derive(Debug)]
pub struct Tap {
    /// All messages that our own requests did not cause, in order: answers to what was sent through the tap, and what
    /// the kernel sends by itself. Ends with the kernel.
    pub messages: mpsc::Receiver<Tapped>,
    commands: mpsc::Sender<Command>,
}

/// The sending half of a [`Tap`].
#[derive(Debug, Clone)]
pub struct TapSender {
    commands: mpsc::Sender<Command>,
}

impl Tap {
    /// Splits it into messages from the kernel and a sender to it, for two tasks.
    pub fn split(self) -> (mpsc::Receiver<Tapped>, TapSender) {
        let commands = self.commands;
        (self.messages, TapSender { commands })
    }

    /// See [`TapSender::send`].
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn send(&self, channel: Channel, message: RawMessage) -> Result<(), KernelError> {
        send(&self.commands, channel, message).await
    }
}

impl TapSender {
    /// Sends a message unchanged: header, parent, buffers. It is signed with the kernel's key.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn send(&self, channel: Channel, message: RawMessage) -> Result<(), KernelError> {
        send(&self.commands, channel, message).await
    }
}

impl TapSender {
    /// Interrupts the kernel, whether or not an execution of ours runs.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn interrupt(&self) -> Result<(), KernelError> {
        let sent = self.commands.send(Command::InterruptAnyway).await;
        sent.map_err(|_| KernelError::Closed)
    }
}

async fn send(
    commands: &mpsc::Sender<Command>,
    channel: Channel,
    message: RawMessage,
) -> Result<(), KernelError> {
    let message = Box::new(message);
    commands
        .send(Command::Forward { channel, message })
        .await
        .map_err(|_| KernelError::Closed)
}

/// The actor's side: the current listener, if any.
#[derive(Debug)]
pub(super) struct Listener {
    to: Option<Hearer>,
    /// A message that did not fit in the queue: nothing more is read until it does.
    untold: Option<Tapped>,
}

impl Listener {
    pub(super) fn new(to: Option<Hearer>) -> Self {
        Self { to, untold: None }
    }

    pub(super) fn is_there(&self) -> bool {
        self.to.is_some()
    }

    /// Whether it receives messages of our own cells too.
    pub(super) fn hears_cells(&self) -> bool {
        matches!(self.to, Some((_, TapScope::Cells)))
    }

    /// Whether [`Listener::make_room`] must be called before another message is offered.
    pub(super) fn is_full(&self) -> bool {
        self.untold.is_some()
    }

    pub(super) fn offer(&mut self, message: Tapped) {
        let Some((to, _)) = &self.to else {
            return;
        };
        match to.try_send(message) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(untold)) => self.untold = Some(untold),
            Err(mpsc::error::TrySendError::Closed(_)) => self.to = None,
        }
    }

    /// Waits until the pending message fits, or the listener is gone. Cancel-safe.
    pub(super) async fn make_room(&mut self) {
        if self.untold.is_none() {
            return;
        }
        if let Some((to, _)) = &self.to
            && let Ok(room) = to.reserve().await
            && let Some(untold) = self.untold.take()
        {
            room.send(untold);
            return;
        }
        self.to = None;
        self.untold = None;
    }

    /// The sender, for the next life.
    pub(super) fn into_sender(self) -> Option<Hearer> {
        self.to
    }
}

impl Kernel {
    /// A sender only; the current listener stays.
    pub fn tap_sender(&self) -> TapSender {
        TapSender {
            commands: self.commands.clone(),
        }
    }

    /// Opens the tap; closes an earlier one. It stays open across restarts.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn tap(&self) -> Result<Tap, KernelError> {
        self.tap_to(TapScope::Foreign).await
    }

    /// The same, with the messages of our own cells: for front ends that share the kernel with us. Those messages hold
    /// no permit, so the listener must take them at once.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn tap_with_cells(&self) -> Result<Tap, KernelError> {
        self.tap_to(TapScope::Cells).await
    }

    async fn tap_to(&self, scope: TapScope) -> Result<Tap, KernelError> {
        let (sender, messages) = mpsc::channel(WAITING);
        let commands = self.commands.clone();
        commands
            .send(Command::Tap {
                hearer: (sender, scope),
            })
            .await
            .map_err(|_| KernelError::Closed)?;
        Ok(Tap { messages, commands })
    }
}
