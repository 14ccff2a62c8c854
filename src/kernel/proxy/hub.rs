//! Many front ends on one kernel, as connections of a server that already checked who they are (`server::jupyter`).
//!
//! Invariants:
//! - As for the proxy's sockets: messages pass byte for byte and in the order of their channel.
//! - Replies go to the client whose message they answer, iopub goes to all.
//! - The kernel's queue is bounded, and so is each client's, by bytes. Beside an owner nobody waits for a client that
//!   takes nothing: it is cut. Without one the kernel waits for `running::PATIENCE`, so that a client that is only slow loses
//!   nothing.
//! - While the last client is away, what it would have got is kept for its session, bounded ([`parked`]).
//!
//! A kernel may have an owner, a session of ours. Then code is handed to the owner, who runs it as its own cell, and what
//! would interrupt or end the kernel is the owner's to decide.

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

/// What clients and the server want; more waits with them.
const ASKS: usize = 64;

/// Who decides what a kernel does.
#[derive(Debug)]
pub enum HubOwner {
    /// Nobody but its clients.
    Nobody,
    /// Somebody who gets the requests that are theirs to carry out. One that is full refuses code.
    Session(mpsc::Sender<OwnerRequest>),
}

/// What a client wants of a kernel's owner, and what the owner must know.
#[derive(Debug)]
pub enum OwnerRequest {
    /// Run this code, and give `request` to the kernel for it.
    Execute {
        /// The execute_request.
        request: RawMessage,
        /// Its `msg_id`.
        msg_id: String,
        /// Its code.
        code: String,
        /// Whether code that waits behind it does not run if it fails.
        stops_on_error: bool,
    },
    /// The kernel answered such a request.
    Replied {
        /// Which.
        msg_id: String,
        /// Whether it failed.
        failed: bool,
    },
    /// A line for the code that waits for one.
    Input(String),
    /// Interrupt what runs.
    Interrupt,
}

/// A handle; clones share the hub, which ends with the last of them and of its clients.
#[derive(Debug, Clone)]
pub struct Hub {
    asks: mpsc::Sender<Ask>,
    activity: Arc<Mutex<HubActivity>>,
}

/// What is known of a shared kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubActivity {
    /// As the protocol names it: `starting`, `idle`, `busy`, `restarting`, `dead`.
    pub state: &'static str,
    /// When anything came or went last.
    pub last: SystemTime,
    /// Clients that are connected.
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
    /// The owner does not run this.
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

    /// From now on this is the kernel. What is returned ends when nothing more comes from it.
    pub async fn attach(&self, kernel: Kernel) -> oneshot::Receiver<()> {
        let (attached, is_attached) = oneshot::channel();
        let (detached, ends) = oneshot::channel();
        self.ask(Ask::Attach {
            kernel,
            attached,
            detached,
        })
        .await;
        // A hub that is closed has dropped both.
        let _ = is_attached.await;
        ends
    }

    /// A client of `session`, which is told what it missed since it was here last. One that is still connected under the
    /// same name is replaced. `None` if the hub is closed.
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

    /// The owner does not run `request`: its client is told so.
    pub async fn abort(&self, request: RawMessage) {
        self.ask(Ask::Abort(request)).await;
    }

    /// Tells clients that the kernel is about to be restarted.
    pub async fn restarting(&self) {
        self.ask(Ask::Restarting).await;
    }

    /// Cuts all clients, and takes no more.
    pub async fn close(&self) {
        self.ask(Ask::Close).await;
    }

    /// Waits until it takes no more.
    pub async fn closed(&self) {
        self.asks.closed().await;
    }

    /// What is known of it.
    pub fn activity(&self) -> HubActivity {
        let activity = self.activity.lock();
        activity.unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(&self, ask: Ask) {
        // A hub that is closed has nobody to tell.
        let _ = self.asks.send(ask).await;
    }
}
