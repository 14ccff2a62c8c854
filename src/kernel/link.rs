//! The four channels of one connection to a kernel, as two queues (transport is a value, not a trait).
//!
//! Invariants: every guard has its own reader task from connect to close, so that a kernel's send queue never
//! fills up because we are busy; what has been read and not yet been consumed is bounded in bytes
//! ([`IN_FLIGHT_BYTES`]); when a socket is lost the reader of the queue is told.

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

/// Bytes of iopub messages that may be on their way through us at any time. A single larger message passes alone.
pub(super) const IN_FLIGHT_BYTES: usize = 32 << 20;

/// What a message may take in memory: small values take up to twenty times what they take on the wire.
pub(super) const HEAVIEST: usize = 128 << 20;

/// What a message to a gateway has besides its content, roughly.
const HEADERS: usize = 4 << 10;

/// Messages waiting in a queue; they are bounded in bytes as well, this only bounds the count.
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

/// Where messages to a kernel go.
#[derive(Debug)]
enum Outgoing {
    /// To its sockets, each through its own guard: a socket that takes nothing holds up no other.
    Sockets {
        signer: Signer,
        shell: Lane<Bytes>,
        control: Lane<Bytes>,
        stdin: Lane<Bytes>,
    },
    /// To the task of a gateway.
    Queue(Lane<(Channel, Message)>),
}

/// What comes from a kernel.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message.
    Message {
        channel: Channel,
        message: Box<Message>,
        /// The same as it came, for who passes it on.
        raw: RawMessage,
        /// The bytes it holds of [`IN_FLIGHT_BYTES`].
        permit: Option<OwnedSemaphorePermit>,
    },
    /// Something that is not a message of ours; it was dropped.
    Unreadable(Channel, WireError),
    /// A message too large for us was emptied on its way: what is left of it will be [`Incoming::Unreadable`].
    Emptied { bytes: u64, file: Option<PathBuf> },
    /// A message that would take too much memory was dropped.
    TooLarge { bytes: u64, file: Option<PathBuf> },
    /// A gateway says that it dropped output of the running cell; in words.
    Truncated(String),
    /// The connection to a gateway broke and stands again: what was on its way may be lost.
    Reconnected,
    /// A socket is gone.
    Lost(LinkLoss),
}

/// Why a socket is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkLoss {
    /// The kernel closed it, or its process ended.
    Closed,
    /// The kernel sent something that could have hurt us.
    Hostile(String),
    /// A gateway cannot be reached any more, or says that the kernel or its state is gone; in words.
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

    /// Whether a message to `channel` would be sent, and not dropped because the kernel has not read those before it.
    pub(super) fn has_room(&self, channel: Channel) -> bool {
        match &self.outgoing {
            Outgoing::Sockets { .. } => self.socket(channel).is_some_and(Lane::has_room),
            Outgoing::Queue(queue) => queue.has_room(),
        }
    }

    /// Sends a message, without waiting for the kernel to read. That it cannot be sent comes as [`Incoming::Lost`], or
    /// as the end of what comes.
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

    /// The same with a message of others, byte for byte where the transport can carry it so.
    ///
    /// # Errors
    /// A gateway gets its own form, and this message has none.
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
            // Nobody sends on iopub; a subscription is made when connecting.
            Channel::IoPub => None,
        }
    }
}

fn note(channel: Channel, sent: Result<(), Unsent>) {
    match sent {
        Ok(()) => {}
        // The guard reports the loss of the socket; here it only explains a missing reply.
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
        // What is on its way is bounded in bytes, by the guard and by the reader.
        let (incoming, received) = mpsc::channel(1);
        let (outgoing, to_send) = mpsc::channel(QUEUE);
        let direct = Direct {
            received: incoming,
            to_send,
        };
        let (lost, events) = mpsc::channel(8);
        let upstream = info.endpoint(Socket::Channel(channel));
        // Those that know only TCP are those that send each line as a message (`quirks::transport`).
        let thread = match info.transport {
            Transport::Tcp => guard::apart(),
            Transport::Ipc => None,
        };
        let _entered = thread.map(Handle::enter);
        // Only outputs are worth a file.
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
    // They have shaken hands and subscribed, and while they are there their guards are.
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

/// Shell, control and stdin must have the same identity: the kernel routes its input requests by it.
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

/// What comes out of one guard.
struct Guarded {
    received: mpsc::Receiver<Batch>,
    events: mpsc::Receiver<GuardEvent>,
}

/// Makes all that comes out of a guard something that came from the kernel.
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
            // A frame that was emptied is told before its message, whose signature does not fit, can be here.
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
        // What came before the end is handed on before the end is told.
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
        // Our own end was the first.
        _ => return std::future::pending().await,
    };
    let _ = incoming.send(Incoming::Lost(loss)).await;
    // The last messages say why no more will come, so the queue stays open until they are taken.
    std::future::pending::<()>().await;
}

/// What a message is to us.
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
    // Only what a cell can produce without end is counted: a reply must get through while outputs wait.
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
