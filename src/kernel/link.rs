//! The four channels of one connection to a kernel, as two queues (the transport is a value, not a trait).
//!
//! Invariants: every guard has its own reader task from connect to close, so that a kernel's send queue never fills up
//! because we are busy; bytes read but not yet consumed are bounded ([`IN_FLIGHT_BYTES`]); the loss of a socket is
//! reported to the reader of the queue.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use zeromq::util::PeerIdentity;
use zeromq::{DealerSocket, Socket as _, SocketOptions, SubSocket};

use super::guard::{self, Batch, Closing, Direct, Guard, GuardEvent, GuardLimits};
use super::lane::{Lane, Unsent};
use super::oversize::{Oversize, Oversized};
use crate::jupyter::connection::{ConnectionInfo, Socket, Transport};
use crate::jupyter::content::Content;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::{self, Signer, WireError};
use crate::task::{self, Task};

/// Most bytes of iopub messages in flight at any time. A single larger message passes alone.
pub(super) const IN_FLIGHT_BYTES: usize = 32 << 20;

/// Most memory for one message: small values take up to twenty times their size on the wire.
pub(super) const HEAVIEST: usize = 128 << 20;

/// Rough size of a message to a gateway besides its content.
const HEADERS: usize = 4 << 10;

/// Most messages in a queue, in addition to the limit on bytes.
pub(super) const QUEUE: usize = 1024;

/// The channels of one connection.
#[derive(Debug)]
pub(super) struct Link {
    outgoing: Outgoing,
    pub(super) incoming: mpsc::Receiver<Incoming>,
    /// Dropped with the link: tasks first, guards after them.
    _tasks: Vec<Task>,
    _guards: Vec<Guard>,
}

/// Where messages to a kernel are sent.
#[derive(Debug)]
enum Outgoing {
    /// To its sockets, each through its own guard: a blocked socket does not delay the others.
    Sockets {
        signer: Signer,
        shell: Lane<Bytes>,
        control: Lane<Bytes>,
        stdin: Lane<Bytes>,
    },
    /// To the task that talks to a gateway.
    Queue(Lane<(Channel, Message)>),
}

/// Something received from a kernel.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message.
    Message {
        channel: Channel,
        message: Box<Message>,
        /// The same message as it came, for passing on.
        raw: RawMessage,
        /// Its share of [`IN_FLIGHT_BYTES`].
        permit: Option<OwnedSemaphorePermit>,
    },
    /// A message that we could not read or trust; it was dropped.
    Unreadable(Channel, WireError),
    /// A message that is too large was emptied in transit: the rest of it will come as [`Incoming::Unreadable`].
    Emptied { bytes: u64, file: Option<PathBuf> },
    /// A message that would take too much memory was dropped.
    TooLarge { bytes: u64, file: Option<PathBuf> },
    /// A gateway reports that it dropped output of the running cell, as text.
    Truncated(String),
    /// The connection to a gateway broke and was re-established: messages in flight may be lost.
    Reconnected,
    /// A socket is gone.
    Lost(LinkLoss),
}

/// Why a socket is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkLoss {
    /// The kernel closed it, or its process ended.
    Closed,
    /// The kernel sent something that could have harmed us.
    Hostile(String),
    /// A gateway can no longer be reached, or reports that the kernel or its state is gone, as text.
    Gone(String),
}

impl Link {
    /// A link whose queues are served by one task.
    pub(super) fn over(
        outgoing: mpsc::Sender<(Channel, Message)>,
        incoming: mpsc::Receiver<Incoming>,
        task: Task,
    ) -> Self {
        Self {
            outgoing: Outgoing::Queue(Lane::new(outgoing)),
            incoming,
            _tasks: vec![task],
            _guards: Vec::new(),
        }
    }

    /// Whether a message to `channel` would be sent, not dropped because the kernel has not read earlier ones.
    pub(super) fn has_room(&self, channel: Channel) -> bool {
        match &self.outgoing {
            Outgoing::Sockets { .. } => self.socket(channel).is_some_and(Lane::has_room),
            Outgoing::Queue(queue) => queue.has_room(),
        }
    }

    /// Sends a message without waiting for the kernel to read it. A failure appears as [`Incoming::Lost`], or as the
    /// end of [`Self::incoming`].
    pub(super) fn send(&self, channel: Channel, message: Message) {
        match &self.outgoing {
            Outgoing::Sockets { .. } => self.send_raw(channel, &RawMessage::from(&message)),
            Outgoing::Queue(queue) => {
                let code = match &message.content {
                    Content::ExecuteRequest(request) => request.code.len(),
                    _ => 0,
                };
                let bytes = HEADERS + code;
                note(channel, queue.send((channel, message), bytes));
            }
        }
    }

    /// The same for another client's message, byte for byte where the transport can carry it.
    ///
    /// # Errors
    /// If a gateway's wire format cannot carry this message.
    pub(super) fn forward(&self, channel: Channel, message: &RawMessage) -> Result<(), WireError> {
        match &self.outgoing {
            Outgoing::Sockets { .. } => self.send_raw(channel, message),
            Outgoing::Queue(queue) => {
                let bytes = HEADERS + message.content.len();
                note(channel, queue.send((channel, message.decode()?), bytes));
            }
        }
        Ok(())
    }

    fn send_raw(&self, channel: Channel, message: &RawMessage) {
        let Outgoing::Sockets { signer, .. } = &self.outgoing else {
            return;
        };
        if let Some(socket) = self.socket(channel) {
            let message = guard::encode(&message.seal(signer));
            let bytes = message.len();
            note(channel, socket.send(message, bytes));
        }
    }

    fn socket(&self, channel: Channel) -> Option<&Lane<Bytes>> {
        let Outgoing::Sockets {
            shell,
            control,
            stdin,
            ..
        } = &self.outgoing
        else {
            return None;
        };
        match channel {
            Channel::Shell => Some(shell),
            Channel::Control => Some(control),
            Channel::Stdin => Some(stdin),
            // Nothing is sent on iopub; the subscription is made when connecting.
            Channel::IoPub => None,
        }
    }
}

fn note(channel: Channel, sent: Result<(), Unsent>) {
    match sent {
        Ok(()) => {}
        // The guard reports the lost socket; this only explains a missing reply.
        Err(Unsent::Closed) => {
            tracing::debug!(channel = channel.name(), "could not send to the kernel");
        }
        Err(Unsent::Full) => {
            let channel = channel.name();
            tracing::warn!(channel, "dropped a message to a kernel that does not read");
        }
    }
}

/// Connects to the kernel of `info`, through guards that listen in `guard_dir` (0700, ours alone).
///
/// Returns when all four sockets have shaken hands; the caller bounds the wait.
///
/// # Errors
/// A sentence saying which socket failed and how.
pub(super) async fn connect(
    info: &ConnectionInfo,
    session: &str,
    guard_dir: &Path,
    limits: GuardLimits,
    oversize: Option<Oversize>,
) -> Result<Link, String> {
    let signer = Signer::new(&info.key);
    let guard = |channel: Channel| {
        // Bytes in flight are bounded by the guard and by the reader.
        let (incoming, received) = mpsc::channel(1);
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let direct = Direct {
            received: incoming,
            to_send,
        };
        let (lost, events) = mpsc::channel(8);
        let upstream = info.endpoint(Socket::Channel(channel));
        // Kernels that support only TCP are those that send each line as a message (`quirks::transport`).
        let thread = match info.transport {
            Transport::Tcp => guard::apart(),
            Transport::Ipc => None,
        };
        let _entered = thread.map(Handle::enter);
        // Only outputs are worth saving to a file.
        let oversize = oversize.clone().filter(|_| channel == Channel::IoPub);
        let name = channel.name();
        Guard::start_keeping(
            upstream,
            guard_dir,
            name,
            limits,
            oversize,
            Some(direct),
            lost,
        )
        .map(|guard| (guard, outgoing, Guarded { received, events }))
        .map_err(|error| format!("could not listen in `{}`: {error}", guard_dir.display()))
    };
    let (shell_guard, shell, shell_in) = guard(Channel::Shell)?;
    let (control_guard, control, control_in) = guard(Channel::Control)?;
    let (stdin_guard, stdin, stdin_in) = guard(Channel::Stdin)?;
    let (iopub_guard, _, iopub_in) = guard(Channel::IoPub)?;
    let guards = [shell_guard, control_guard, stdin_guard, iopub_guard];
    let [shell_at, control_at, stdin_at, iopub_at] = guards.each_ref().map(Guard::address);
    let sockets = tokio::try_join!(
        dealer(&shell_at, session),
        dealer(&control_at, session),
        dealer(&stdin_at, session),
        subscriber(&iopub_at),
    )?;

    let (incoming_tx, incoming) = mpsc::channel(QUEUE);
    // The sockets have shaken hands and subscribed; the guards live as long as they do.
    let held = task::spawn("kernel sockets", async move {
        let _sockets = sockets;
        std::future::pending::<()>().await;
    });
    let reader = |channel, guarded| {
        task::spawn(
            "kernel reader",
            read(
                channel,
                guarded,
                signer.clone(),
                oversize.clone(),
                incoming_tx.clone(),
            ),
        )
    };
    let tasks = vec![
        reader(Channel::Shell, shell_in),
        reader(Channel::Control, control_in),
        reader(Channel::Stdin, stdin_in),
        reader(Channel::IoPub, iopub_in),
        held,
    ];
    Ok(Link {
        outgoing: Outgoing::Sockets {
            signer,
            shell: Lane::new(shell),
            control: Lane::new(control),
            stdin: Lane::new(stdin),
        },
        incoming,
        _tasks: tasks,
        _guards: guards.into(),
    })
}

/// Shell, control and stdin must share one identity: the kernel routes its input requests by it.
async fn dealer(address: &str, session: &str) -> Result<DealerSocket, String> {
    let identity = PeerIdentity::try_from(session.as_bytes().to_vec())
        .map_err(|error| format!("session id cannot name a socket: {error}"))?;
    let mut options = SocketOptions::default();
    options.peer_identity(identity);
    let mut socket = DealerSocket::with_options(options);
    socket
        .connect(address)
        .await
        .map_err(|error| format!("could not connect to the kernel: {error}"))?;
    Ok(socket)
}

async fn subscriber(address: &str) -> Result<SubSocket, String> {
    let mut socket = SubSocket::new();
    let failed = |error| format!("could not connect to the kernel's iopub socket: {error}");
    socket.subscribe("").await.map_err(failed)?;
    socket.connect(address).await.map_err(failed)?;
    Ok(socket)
}

/// The output of one guard.
struct Guarded {
    received: mpsc::Receiver<Batch>,
    events: mpsc::Receiver<GuardEvent>,
}

/// Turns the output of a guard into [`Incoming`] items.
async fn read(
    channel: Channel,
    mut guarded: Guarded,
    signer: Signer,
    oversize: Option<Oversize>,
    incoming: mpsc::Sender<Incoming>,
) {
    let budget = Arc::new(Semaphore::new(IN_FLIGHT_BYTES));
    let mut loss = None;
    loop {
        let batch = tokio::select! {
            // Report an emptied frame before its message, whose signature does not match.
            biased;
            Some(event) = guarded.events.recv() => {
                let GuardEvent::Emptied { bytes, file, .. } = event else {
                    loss = Some(event);
                    continue;
                };
                let _ = incoming.send(Incoming::Emptied { bytes, file }).await;
                continue;
            }
            batch = guarded.received.recv() => batch,
        };
        // Messages from before the end are handed on before the end is reported.
        let Some(batch) = batch else { break };
        for frames in batch {
            let item = judged(channel, &frames, &signer, oversize.as_ref(), &budget).await;
            if incoming.send(item).await.is_err() {
                return;
            }
        }
    }
    if loss.is_none() {
        loss = guarded.events.recv().await;
    }
    let loss = match loss {
        Some(GuardEvent::Hostile { name, reason }) => {
            LinkLoss::Hostile(format!("on its {name} socket it {reason}"))
        }
        Some(GuardEvent::Closed { cause, .. }) if cause != Closing::Client => LinkLoss::Closed,
        // We closed it first.
        _ => return std::future::pending().await,
    };
    let _ = incoming.send(Incoming::Lost(loss)).await;
    // Keep the queue open: the last messages explain why no more will come.
    std::future::pending::<()>().await;
}

/// Opens a message, checks its size and reserves its bytes.
async fn judged(
    channel: Channel,
    frames: &[Bytes],
    signer: &Signer,
    oversize: Option<&Oversize>,
    budget: &Arc<Semaphore>,
) -> Incoming {
    let weight = wire::weight(frames);
    let opened = RawMessage::open(frames, signer);
    if weight > HEAVIEST
        && let Ok(raw) = &opened
    {
        let bytes = raw.content.len() as u64;
        let file = oversize
            .and_then(|oversize| oversize.begin(bytes)?.write(&raw.content))
            .map(Oversized::end);
        return Incoming::TooLarge { bytes, file };
    }
    let size = weight.clamp(1, IN_FLIGHT_BYTES);
    // Only iopub is counted, where a cell can send without end: a reply must get through while outputs wait.
    let permit = if channel == Channel::IoPub {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        Arc::clone(budget).acquire_many_owned(size).await.ok()
    } else {
        None
    };
    match opened.and_then(|raw| Ok((raw.decode()?, raw))) {
        Ok((message, raw)) => Incoming::Message {
            channel,
            message: Box::new(message),
            raw,
            permit,
        },
        Err(error) => Incoming::Unreadable(channel, error),
    }
}
