//! The kernel's side of the protocol: front ends connect to us, and we pass their requests to a real kernel through our
//! own client, and the answers back. So other projects' test suites and front ends exercise that client.
//!
//! Invariants:
//! - Messages pass byte for byte: header, parent, metadata, content, buffers. Only the signature is made anew, because
//!   each side has its own key, and identities are those of the receiving side.
//! - The order of each channel is kept. Nothing is dropped for a front end that reads; if the budget is used up we stop
//!   reading from the kernel (see `link`).
//! - Front ends do not see our client's own requests (readiness, fences).
//!
//! Handled here instead of passed on: `interrupt_request` for a kernel whose kernelspec wants signals, and the
//! heartbeat.

mod front;
pub(super) mod hub;
mod own;
mod routes;
mod socket;
mod zmtp;

use std::cell::Cell;
use std::sync::Mutex;

use tokio::sync::mpsc;

use super::guard::GuardLimits;
use super::{ExitReason, Kernel, KernelError, LaunchOptions, TapSender};
use crate::jupyter::connection::ConnectionInfo;
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::Channel;
use crate::jupyter::raw::RawMessage;
use front::{Front, note};
use routes::Routes;

pub use front::ProxyError;

/// Most requests queued for the kernel; more stay in the front ends' sockets.
const REQUESTS: usize = 64;

/// The open sockets of a kernel that has not started yet.
pub struct Proxy {
    front: Front,
    requests: mpsc::Receiver<(Channel, RawMessage)>,
}

/// What the proxy's process asks it to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyAsk {
    /// Interrupt the running code (SIGINT).
    Interrupt,
    /// Shut down the kernel and then the proxy.
    End,
}

/// Why a proxy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyEnd {
    /// A front end requested it, or [`ProxyAsk::End`].
    Requested,
    /// The real kernel died; front ends were told.
    Died(ExitReason),
}

impl Proxy {
    /// Opens the sockets of `connection`. Requests that come before [`Proxy::serve`] are queued. `username` is for the
    /// headers of the few messages that are our own.
    ///
    /// # Errors
    /// [`ProxyError`], with all sockets closed again.
    pub async fn bind(connection: &ConnectionInfo, username: &str) -> Result<Self, ProxyError> {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let front = Front::bind(connection, username, &sender).await?;
        Ok(Self { front, requests })
    }

    /// Starts the real kernel and serves front ends until it ends. Closing `asks` means [`ProxyAsk::End`].
    ///
    /// # Errors
    /// [`KernelError`] if it cannot be started.
    pub async fn serve(
        self,
        options: LaunchOptions,
        mut asks: mpsc::Receiver<ProxyAsk>,
    ) -> Result<ProxyEnd, KernelError> {
        let Self {
            front,
            mut requests,
        } = self;
        let kernel = tokio::select! {
            launched = Kernel::launch_within(options, limits()) => launched?,
            () = end_asked(&mut asks) => {
                front.close().await;
                return Ok(ProxyEnd::Requested);
            }
        };
        let interrupt_mode = kernel.about().await?.interrupt_mode;
        let (tapped, sender) = kernel.tap().await?.split();
        let routes = Mutex::new(Routes::default());
        let requested = Cell::new(false);
        let inward = async {
            let mut back = Back {
                kernel: &sender,
                interrupt_mode,
                routes: &routes,
                front: &front,
            };
            back.handle(&mut requests, &mut asks).await;
            requested.set(true);
            kernel.shutdown().await;
        };
        let outward = front.pass_on(tapped, &routes);
        tokio::pin!(outward);
        tokio::select! {
            // Ends with the kernel, after its last message.
            () = &mut outward => {}
            () = inward => outward.await,
        }
        let end = if requested.get() {
            kernel.shutdown().await;
            ProxyEnd::Requested
        } else {
            let reason = kernel.ended().await;
            front.publish_status("dead", None).await;
            ProxyEnd::Died(reason)
        };
        front.close().await;
        Ok(end)
    }
}

/// Limits under which a front end gets what the kernel itself would send it, within reason.
pub(super) fn limits() -> GuardLimits {
    GuardLimits {
        frame: 120 << 20,
        message: 128 << 20,
        ..GuardLimits::default()
    }
}

async fn end_asked(asks: &mut mpsc::Receiver<ProxyAsk>) {
    // Nothing runs yet that could be interrupted.
    while let Some(ProxyAsk::Interrupt) = asks.recv().await {}
}

/// Passes requests from front ends to the kernel.
struct Back<'a> {
    kernel: &'a TapSender,
    interrupt_mode: InterruptMode,
    routes: &'a Mutex<Routes>,
    front: &'a Front,
}

/// Whether to go on.
enum Next {
    Request,
    End,
}

impl Back<'_> {
    /// Passes requests on until the kernel is to end.
    async fn handle(
        &mut self,
        requests: &mut mpsc::Receiver<(Channel, RawMessage)>,
        asks: &mut mpsc::Receiver<ProxyAsk>,
    ) {
        loop {
            let next = tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ProxyAsk::Interrupt) => {
                        self.interrupt().await;
                        Next::Request
                    }
                    Some(ProxyAsk::End) | None => Next::End,
                },
                Some((channel, request)) = requests.recv() => self.request(channel, request).await,
            };
            match next {
                Next::Request => {}
                Next::End => return,
            }
        }
    }

    async fn request(&mut self, channel: Channel, mut request: RawMessage) -> Next {
        let header = match request.header() {
            Ok(header) => header,
            Err(error) => {
                tracing::warn!(channel = channel.name(), %error, "dropped a front end's message");
                return Next::Request;
            }
        };
        let identity = std::mem::take(&mut request.prefix);
        note(self.routes, &header, identity.clone());
        let by_signal = self.interrupt_mode == InterruptMode::Signal;
        if by_signal && channel == Channel::Control && header.msg_type == "interrupt_request" {
            self.front.publish_status("busy", Some(&request)).await;
            self.interrupt().await;
            self.front
                .answer(channel, &request, identity, "interrupt_reply")
                .await;
            self.front.publish_status("idle", Some(&request)).await;
            return Next::Request;
        }
        // A dead kernel also ends its outgoing messages, which ends us.
        let _ = self.kernel.send(channel, request).await;
        // Old front ends send it on shell.
        if header.msg_type == "shutdown_request" {
            Next::End
        } else {
            Next::Request
        }
    }

    async fn interrupt(&self) {
        // As above.
        let _ = self.kernel.interrupt().await;
    }
}
