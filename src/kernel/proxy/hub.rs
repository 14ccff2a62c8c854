//! Many front ends on one kernel, as connections of a server that has already authenticated them (`server::jupyter`).
//!
//! Invariants:
//! - As with the proxy's sockets, messages pass byte for byte and in the order of their channel.
//! - Replies go to the client whose message they answer, iopub goes to all.
//! - The kernel's queue is bounded, and so is each client's, in bytes. With an owner, a client whose queue is full is
//!   disconnected at once. Without one the kernel waits for `running::PATIENCE`, so that a slow client loses nothing.
//! - While no client is connected, messages are kept for the session of the last one, bounded ([`parked`]).
//!
//! A kernel may have an owner, a session of ours. Then code is handed to the owner, who runs it as its own cell, and
//! the owner decides about interrupts and shutdown.

mod client;
mod parked;
mod running;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio::sync::{mpsc, oneshot};

use super::limits;
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;
use crate::kernel::{Kernel, KernelError, LaunchOptions};
use crate::task;
use client::Seat;
pub use client::{HubClient, HubSender, Queued};
use running::Running;

/// Most requests of clients and the server in the queue; senders wait if it is full.
const ASKS: usize = 64;

/// Who controls a kernel.
#[derive(Debug)]
pub enum HubOwner {
    /// Only its clients.
    Nobody,
    /// A session that receives the requests to carry out. If its queue is full, code is refused.
    Session(mpsc::Sender<OwnerRequest>),
}

/// A request to, or a notice for, the owner of a kernel.
#[derive(Debug)]
pub enum OwnerRequest {
    /// Run this code by sending `request` to the kernel.
    Execute {
        /// The execute_request.
        request: RawMessage,
        /// Its `msg_id`.
        msg_id: String,
        /// Its code.
        code: String,
        /// Whether a failure aborts the code queued behind it.
        stops_on_error: bool,
    },
    /// The kernel answered such a request.
    Replied {
        /// Its `msg_id`.
        msg_id: String,
        /// Whether it failed.
        failed: bool,
    },
    /// The input that running code waits for.
    Input(String),
    /// Interrupt the running code.
    Interrupt,
}

/// A handle; clones share the hub, which ends when the last clone and the last client are gone.
#[derive(Debug, Clone)]
pub struct Hub {
    asks: mpsc::Sender<Ask>,
    activity: Arc<Mutex<HubActivity>>,
}

/// The state of a shared kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubActivity {
    /// Protocol name: `starting`, `idle`, `busy`, `restarting`, `dead`.
    pub state: &'static str,
    /// When the last message passed.
    pub last: SystemTime,
    /// Number of connected clients.
    pub connections: usize,
}

#[derive(Debug)]
enum Ask {
    Attach {
        kernel: Kernel,
        attached: oneshot::Sender<()>,
        detached: oneshot::Sender<()>,
    },
    Join {
        session: String,
        seat: Seat,
        joined: oneshot::Sender<()>,
    },
    Leave {
        session: String,
        seat: u64,
    },
    Request {
        session: String,
        channel: Channel,
        message: RawMessage,
    },
    /// The owner will not run this.
    Abort(RawMessage),
    Restarting,
    Close,
}

impl Hub {
    /// A hub without a kernel yet.
    pub fn start(username: &str, owner: HubOwner) -> Self {
        let (asks, inbox) = mpsc::channel(ASKS);
        let activity = Arc::new(Mutex::new(HubActivity {
            state: "starting",
            last: SystemTime::now(),
            connections: 0,
        }));
        let running = Running::new(username, owner, Arc::clone(&activity));
        task::spawn("kernel hub", running.run(inbox)).detach();
        Self { asks, activity }
    }

    /// Starts a kernel that its clients share, with the limits of the proxy on what it may send at once.
    ///
    /// # Errors
    /// As [`Kernel::launch`].
    pub async fn launch(options: LaunchOptions) -> Result<Kernel, KernelError> {
        Kernel::launch_within(options, limits()).await
    }

    /// Makes this the hub's kernel. The returned receiver resolves when nothing more comes from it.
    pub async fn attach(&self, kernel: Kernel) -> oneshot::Receiver<()> {
        let (attached, is_attached) = oneshot::channel();
        let (detached, ends) = oneshot::channel();
        self.ask(Ask::Attach {
            kernel,
            attached,
            detached,
        })
        .await;
        // A closed hub has dropped both.
        let _ = is_attached.await;
        ends
    }

    /// Adds a client of `session` and sends it what it missed since it was last connected. Replaces one still connected
    /// under the same name. `None` if the hub is closed.
    pub async fn join(&self, session: &str) -> Option<HubClient> {
        let (client, seat) = HubClient::new(session, self.asks.clone());
        let (joined, joins) = oneshot::channel();
        let session = session.to_owned();
        self.ask(Ask::Join {
            session,
            seat,
            joined,
        })
        .await;
        joins.await.ok().map(|()| client)
    }

    /// Tells the client that the owner will not run its `request`.
    pub async fn abort(&self, request: RawMessage) {
        self.ask(Ask::Abort(request)).await;
    }

    /// Tells clients that the kernel is about to be restarted.
    pub async fn restarting(&self) {
        self.ask(Ask::Restarting).await;
    }

    /// Disconnects all clients and stops accepting new ones.
    pub async fn close(&self) {
        self.ask(Ask::Close).await;
    }

    /// Waits until the hub is closed.
    pub async fn closed(&self) {
        self.asks.closed().await;
    }

    /// Its current state.
    pub fn activity(&self) -> HubActivity {
        let activity = self.activity.lock();
        activity.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self, ask: Ask) {
        // A closed hub does not need it.
        let _ = self.asks.send(ask).await;
    }
}
