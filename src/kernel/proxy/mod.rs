//! The kernel's side of the protocol: front ends connect to us, and what they ask goes to a real kernel through our
//! own client, and back. So other people's test suites and front ends exercise that client.
//!
//! Invariants:
//! - Messages pass byte for byte: header, parent, metadata, content, buffers. Only the signature is made anew, for each
//!   side has its own key, and identities are those of the side that a message goes to.
//! - The order of each channel is kept. Nothing is dropped for a front end that reads; a full budget stops us reading
//!   from the kernel (see `link`).
//! - What our client asks for itself (readiness, fences) is not seen by front ends.
//!
//! Not passed on but done: `interrupt_request` for a kernel whose kernelspec wants signals, and the heartbeat.

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

/// Requests that wait for the kernel; more stay in the front ends' sockets.
const REQUESTS: usize = 64;

/// The open sockets of a kernel that is still to be started.
pub struct Proxy {
    front: Front,
    requests: mpsc::Receiver<(Channel, RawMessage)>,
}

/// What the process that is the proxy is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyAsk {
    /// Interrupt what runs (SIGINT).
    Interrupt,
    /// End, and the kernel with us.
    End,
}

/// Why a proxy ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyEnd {
    /// A front end wanted it, or [`ProxyAsk::End`].
    Requested,
    /// The real kernel died; front ends were told.
    Died(ExitReason),
}

impl Proxy {
    /// Opens the sockets of `connection`. What is asked before [`Proxy::serve`] waits. `username` is for the headers of
    /// the few messages that are our own.
    ///
    /// # Errors
    /// [`ProxyError`], with all sockets closed again.
    pub async fn bind(connection: &ConnectionInfo, username: &str) -> Result<Self, ProxyError> {
        let (sender, requests) = mpsc::channel(REQUESTS);
        let front = Front::bind(connection, username, &sender).await?;
        Ok(Self { front, requests })
    }

    /// Starts the real kernel and serves front ends until it has ended. Nobody asking any more means
    /// [`ProxyAsk::End`].
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

/// A front end shall get what it would get from the kernel itself, within reason.
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

/// The way from front ends to the kernel.
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
    /// Passes requests on until somebody wants the kernel to end.
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
        // A dead kernel closes the way out too; that ends us.
        let _ = self.kernel.send(channel, request).await;
        // Old front ends ask on shell.
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
