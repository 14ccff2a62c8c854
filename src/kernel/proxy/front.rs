//! The five sockets that front ends connect to, and the few messages that we send ourselves.

use std::io;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::mpsc;

use super::own::Own;
use super::routes::{Identity, Routes};
use super::socket::{Listening, Sealed, SocketRole, Welcome};
use crate::jupyter::connection::{ConnectionInfo, Endpoint, Socket};
use crate::jupyter::message::{Channel, Header};
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::Signer;
use crate::kernel::command::Tapped;

/// A socket for front ends could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("could not listen for {socket} at {}: {source}", at(.endpoint))]
pub struct ProxyError {
    /// Which socket.
    pub socket: &'static str,
    /// Its address.
    pub endpoint: Endpoint,
    /// The operating system's error.
    pub source: io::Error,
}

fn at(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Ipc(path) => format!("`{}`", path.display()),
        Endpoint::Tcp(host, port) => format!("{host}:{port}"),
    }
}

/// The sockets that front ends see.
pub(super) struct Front {
    shell: Listening,
    control: Listening,
    stdin: Listening,
    iopub: Listening,
    _heartbeat: Listening,
    signer: Signer,
    own: Own,
}

impl Front {
    /// Opens all five; requests go to `requests`.
    pub(super) async fn bind(
        info: &ConnectionInfo,
        username: &str,
        requests: &mpsc::Sender<(Channel, RawMessage)>,
    ) -> Result<Self, ProxyError> {
        let signer = Signer::new(&info.key);
        let own = Own::new(username);
        let listen = async |socket, name, kind| {
            let endpoint = info.endpoint(socket);
            Listening::bind(name, &endpoint, kind)
                .await
                .map_err(|source| ProxyError {
                    socket: name,
                    endpoint,
                    source,
                })
        };
        let router = async |channel: Channel| {
            let kind = SocketRole::Router {
                channel,
                signer: signer.clone(),
                requests: requests.clone(),
            };
            listen(Socket::Channel(channel), channel.name(), kind).await
        };
        let publisher = SocketRole::Publisher {
            welcome: welcome(own.clone(), signer.clone()),
        };
        Ok(Self {
            // First, so that a front end that can send a request can also listen.
            iopub: listen(Socket::Channel(Channel::IoPub), "iopub", publisher).await?,
            stdin: router(Channel::Stdin).await?,
            control: router(Channel::Control).await?,
            _heartbeat: listen(Socket::Heartbeat, "heartbeat", SocketRole::Echo).await?,
            shell: router(Channel::Shell).await?,
            signer,
            own,
        })
    }

    /// Passes on messages from the kernel until it ends.
    pub(super) async fn pass_on(
        &self,
        mut from_kernel: mpsc::Receiver<Tapped>,
        routes: &Mutex<Routes>,
    ) {
        while let Some(Tapped {
            channel,
            message,
            permit,
        }) = from_kernel.recv().await
        {
            if channel == Channel::IoPub {
                let sealed = Sealed::new(message.seal(&self.signer), permit);
                self.iopub.publish(sealed).await;
                continue;
            }
            let identity = message.parent().and_then(|parent| {
                let routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
                routes.find(&parent).cloned()
            });
            if let Some(identity) = identity {
                self.send(channel, message, identity).await;
            } else {
                tracing::debug!(
                    channel = channel.name(),
                    "the kernel answered what nobody had asked"
                );
            }
        }
    }

    /// Answers `request` with `{"status": "ok"}`.
    pub(super) async fn answer(
        &self,
        channel: Channel,
        request: &RawMessage,
        identity: Identity,
        msg_type: &str,
    ) {
        let reply = self
            .own
            .message(msg_type, json!({"status": "ok"}), Some(request));
        self.send(channel, reply, identity).await;
    }

    /// Publishes a status of ours, about `request` or about nothing.
    pub(super) async fn publish_status(&self, state: &str, request: Option<&RawMessage>) {
        let status = self.own.status(state, request);
        let sealed = Sealed::new(status.seal(&self.signer), None);
        self.iopub.publish(sealed).await;
    }

    /// Flushes the queues and closes the connections; the sockets close when this is dropped.
    pub(super) async fn close(&self) {
        tokio::join!(
            self.iopub.close(),
            self.shell.close(),
            self.control.close(),
            self.stdin.close(),
        );
    }

    async fn send(&self, channel: Channel, mut message: RawMessage, mut identity: Identity) {
        let socket = match channel {
            Channel::Shell => &self.shell,
            Channel::Control => &self.control,
            Channel::Stdin => &self.stdin,
            // Published, not sent.
            Channel::IoPub => return,
        };
        if identity.is_empty() {
            return;
        }
        let peer = identity.remove(0);
        message.prefix = identity;
        let sealed = Sealed::new(message.seal(&self.signer), None);
        if !socket.send_to(&peer, sealed).await {
            tracing::debug!(channel = channel.name(), "the asker has gone");
        }
    }
}

/// Remembers who sent a request.
pub(super) fn note(routes: &Mutex<Routes>, header: &Header, identity: Identity) {
    let mut routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
    routes.note(header, identity);
}

/// JEP 65: tells a new subscriber that its subscription is live.
fn welcome(own: Own, signer: Signer) -> Welcome {
    Box::new(move |topic| {
        let content = json!({"subscription": String::from_utf8_lossy(topic)});
        let mut message = own.message("iopub_welcome", content, None);
        if !topic.is_empty() {
            message.prefix = vec![Bytes::copy_from_slice(topic)];
        }
        message.seal(&signer)
    })
}
