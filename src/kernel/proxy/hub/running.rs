//! The hub's task: routes messages to clients, and requests to the owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::client::Seat;
use super::parked::Parked;
use super::{Ask, HubActivity, HubOwner, OwnerRequest};
use crate::jupyter::content::{Content, ExecutionState, ReplyStatus};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Header};
use crate::jupyter::raw::RawMessage;
use crate::kernel::Kernel;
use crate::kernel::command::Tapped;
use crate::kernel::proxy::own::Own;
use crate::kernel::proxy::routes::Routes;
use crate::kernel::tap::TapSender;
use crate::task;

/// Slots of an owner's queue that are not used for code.
const RESERVED: usize = 16;
/// How long a kernel without an owner waits for a client whose queue is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// The hub's task.
pub(super) struct Running {
    own: Own,
    owner: HubOwner,
    kernel: Option<Attached>,
    /// By session.
    clients: BTreeMap<String, Seat>,
    routes: Routes,
    parked: Option<Parked>,
    activity: Arc<Mutex<HubActivity>>,
}

/// A kernel, while messages come from it.
struct Attached {
    messages: mpsc::Receiver<Tapped>,
    sender: TapSender,
    kernel: Kernel,
    interrupt_mode: InterruptMode,
    /// Dropped with this, which resolves the receiver from `attach`.
    _detached: oneshot::Sender<()>,
}

impl Running {
    pub(super) fn new(username: &str, owner: HubOwner, activity: Arc<Mutex<HubActivity>>) -> Self {
        Self {
            own: Own::new(username),
            owner,
            kernel: None,
            clients: BTreeMap::new(),
            routes: Routes::default(),
            parked: None,
            activity,
        }
    }

    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Ask>) {
        loop {
            tokio::select! {
                ask = inbox.recv() => match ask {
                    None | Some(Ask::Close) => return,
                    Some(ask) => self.take(ask).await,
                },
                tapped = next(&mut self.kernel) => match tapped {
                    Some(tapped) => self.pass_on(tapped).await,
                    None => self.died().await,
                },
            }
        }
    }

    async fn take(&mut self, ask: Ask) {
        self.note(|activity| activity.last = SystemTime::now());
        match ask {
            Ask::Attach {
                kernel,
                attached,
                detached,
            } => {
                self.attach(kernel, detached).await;
                // The caller may have gone.
                let _ = attached.send(());
            }
            Ask::Join {
                session,
                seat,
                joined,
            } => self.join(session, seat, joined).await,
            Ask::Leave { session, seat } => {
                if self.clients.get(&session).is_some_and(|it| it.id == seat) {
                    self.leave(&session);
                }
            }
            Ask::Request {
                session,
                channel,
                message,
            } => self.request(session, channel, message).await,
            Ask::Abort(request) => {
                let content = json!({"status": "aborted"});
                self.answer(Channel::Shell, "execute_reply", content, &request)
                    .await;
            }
            Ask::Restarting => self.publish_state("restarting").await,
            Ask::Close => {}
        }
    }

    async fn attach(&mut self, kernel: Kernel, detached: oneshot::Sender<()>) {
        let tap = match self.owner {
            HubOwner::Nobody => kernel.tap().await,
            HubOwner::Session(_) => kernel.tap_with_cells().await,
        };
        // If the kernel is already gone, `detached` is dropped.
        if let Ok(tap) = tap
            && let Ok(about) = kernel.about().await
        {
            let (messages, sender) = tap.split();
            self.kernel = Some(Attached {
                messages,
                sender,
                kernel,
                interrupt_mode: about.interrupt_mode,
                _detached: detached,
            });
            let state = if about.busy { "busy" } else { "idle" };
            self.publish_state(state).await;
        }
    }

    async fn join(&mut self, session: String, seat: Seat, joined: oneshot::Sender<()>) {
        // Sent before anything new.
        let missed = self.parked.take();
        let missed = missed.filter(|parked| parked.session == session);
        self.clients.insert(session.clone(), seat);
        self.count();
        let _ = joined.send(());
        let own = self.own.clone();
        for (channel, message) in missed.into_iter().flat_map(|it| it.replay(&own)) {
            self.deliver(&session, channel, message).await;
        }
    }

    fn leave(&mut self, session: &str) {
        self.clients.remove(session);
        if self.clients.is_empty() {
            self.parked = Some(Parked::new(session));
        }
        self.count();
    }

    async fn request(&mut self, session: String, channel: Channel, message: RawMessage) {
        let header = match message.header() {
            Ok(header) => header,
            Err(error) => {
                tracing::warn!(channel = channel.name(), %error, "dropped a client's message");
                return;
            }
        };
        self.routes.note(&header, vec![Bytes::from(session)]);
        match (channel, header.msg_type.as_str()) {
            (Channel::Shell, "execute_request") => self.execute(header, message).await,
            (Channel::Stdin, "input_reply") => self.input(message).await,
            (Channel::Control, "interrupt_request") => self.interrupt(message).await,
            (Channel::Control | Channel::Shell, "shutdown_request") => {
                self.shut_down(channel, message).await;
            }
            _ => self.forward(channel, message).await,
        }
    }

    /// The owner runs code, except silent code.
    async fn execute(&mut self, header: Header, request: RawMessage) {
        let HubOwner::Session(owner) = &self.owner else {
            return self.forward(Channel::Shell, request).await;
        };
        let content = serde_json::from_slice::<Wanted>(&request.content);
        let Ok(content) = content else {
            return self.forward(Channel::Shell, request).await;
        };
        if content.silent {
            return self.forward(Channel::Shell, request).await;
        }
        let wanted = OwnerRequest::Execute {
            request: request.clone(),
            msg_id: header.msg_id,
            code: content.code,
            stops_on_error: content.stop_on_error,
        };
        if owner.capacity() <= RESERVED || owner.try_send(wanted).is_err() {
            let content = json!({"status": "aborted"});
            self.answer(Channel::Shell, "execute_reply", content, &request)
                .await;
        }
    }

    async fn input(&mut self, reply: RawMessage) {
        let HubOwner::Session(owner) = &self.owner else {
            return self.forward(Channel::Stdin, reply).await;
        };
        let value = serde_json::from_slice::<serde_json::Value>(&reply.content).ok();
        let value = value.and_then(|it| Some(it.get("value")?.as_str()?.to_owned()));
        // If it is full or closed, drop the line: at most one is awaited at a time.
        let _ = owner.try_send(OwnerRequest::Input(value.unwrap_or_default()));
    }

    async fn interrupt(&mut self, request: RawMessage) {
        let by_message = |kernel: &Attached| kernel.interrupt_mode == InterruptMode::Message;
        match &self.owner {
            HubOwner::Session(owner) => {
                // As above.
                let _ = owner.try_send(OwnerRequest::Interrupt);
            }
            HubOwner::Nobody if self.kernel.as_ref().is_some_and(by_message) => {
                return self.forward(Channel::Control, request).await;
            }
            HubOwner::Nobody => {
                if let Some(kernel) = &self.kernel {
                    // A dead kernel has nothing to interrupt.
                    let _ = kernel.sender.interrupt().await;
                }
            }
        }
        let content = json!({"status": "ok"});
        self.answer(Channel::Control, "interrupt_reply", content, &request)
            .await;
    }

    async fn shut_down(&mut self, channel: Channel, request: RawMessage) {
        let content = match (&self.owner, &self.kernel) {
            (HubOwner::Session(_), _) => json!({
                "status": "error",
                "ename": "PermissionError",
                "evalue": "this kernel belongs to a session of Sponde: end the session",
                "traceback": [],
            }),
            (HubOwner::Nobody, kernel) => {
                let content = serde_json::from_slice::<serde_json::Value>(&request.content).ok();
                let restart = content.and_then(|it| it.get("restart")?.as_bool());
                let restart = restart.unwrap_or(false);
                if let Some(kernel) = kernel.as_ref().map(|it| it.kernel.clone()) {
                    task::spawn("kernel end", async move {
                        if restart {
                            // Clients see whether it is running again.
                            let _ = kernel.restart().await;
                        } else {
                            kernel.shutdown().await;
                        }
                    })
                    .detach();
                }
                json!({"status": "ok", "restart": restart})
            }
        };
        self.answer(channel, "shutdown_reply", content, &request)
            .await;
    }

    async fn forward(&mut self, channel: Channel, message: RawMessage) {
        if let Some(kernel) = &self.kernel {
            // A kernel that has ended is reported as dead.
            let _ = kernel.sender.send(channel, message).await;
        }
    }

    async fn pass_on(&mut self, tapped: Tapped) {
        // Drop the permit: the bytes are counted again where they are queued.
        let Tapped {
            channel, message, ..
        } = tapped;
        self.note(|activity| activity.last = SystemTime::now());
        if channel == Channel::IoPub {
            if let Some(state) = state_of(&message) {
                self.note(|activity| activity.state = state);
            }
            return self.publish(message).await;
        }
        let Some(parent) = message.parent() else {
            return;
        };
        let session = self.routes.find(&parent).and_then(|it| it.first().cloned());
        if channel == Channel::Shell && session.is_some() {
            self.tell_owner(&parent, &message);
        }
        if let Some(session) = session.and_then(|it| String::from_utf8(it.into()).ok()) {
            self.deliver(&session, channel, message).await;
        }
    }

    /// Tells the owner when a client's code is done.
    fn tell_owner(&self, parent: &Header, reply: &RawMessage) {
        let HubOwner::Session(owner) = &self.owner else {
            return;
        };
        if let Ok(Content::ExecuteReply(content)) = reply.decode().map(|it| it.content) {
            let failed = content.status != ReplyStatus::Ok;
            let msg_id = parent.msg_id.clone();
            // There is room: one runs at a time, and code leaves some slots free.
            let _ = owner.try_send(OwnerRequest::Replied { msg_id, failed });
        }
    }

    async fn died(&mut self) {
        self.kernel = None;
        self.publish_state("dead").await;
    }

    /// Answers a request ourselves, between the busy and idle states that clients wait for.
    async fn answer(
        &mut self,
        channel: Channel,
        msg_type: &str,
        content: serde_json::Value,
        request: &RawMessage,
    ) {
        let Ok(header) = request.header() else {
            return;
        };
        self.publish(self.own.status("busy", Some(request))).await;
        let reply = self.own.message(msg_type, content, Some(request));
        let session = self.routes.find(&header).and_then(|it| it.first().cloned());
        if let Some(session) = session.and_then(|it| String::from_utf8(it.into()).ok()) {
            self.deliver(&session, channel, reply).await;
        }
        self.publish(self.own.status("idle", Some(request))).await;
    }

    async fn publish_state(&mut self, state: &'static str) {
        self.note(|activity| activity.state = state);
        self.publish(self.own.status(state, None)).await;
    }

    async fn publish(&mut self, message: RawMessage) {
        if let Some(parked) = &mut self.parked {
            return parked.keep(Channel::IoPub, message);
        }
        let sessions: Vec<String> = self.clients.keys().cloned().collect();
        for session in sessions {
            self.deliver(&session, Channel::IoPub, message.clone())
                .await;
        }
    }

    /// Gives a message to the client of `session`, or keeps it if it is away.
    async fn deliver(&mut self, session: &str, channel: Channel, message: RawMessage) {
        let Some(seat) = self.clients.get(session) else {
            if let Some(parked) = self.parked.as_mut().filter(|it| it.session == session) {
                parked.keep(channel, message);
            }
            return;
        };
        let patience = match self.owner {
            HubOwner::Nobody => PATIENCE,
            HubOwner::Session(_) => Duration::ZERO,
        };
        if !seat.give(channel, message, patience).await {
            tracing::warn!(session, "a client that read nothing was cut off");
            self.leave(session);
        }
    }

    fn count(&self) {
        let connections = self.clients.len();
        self.note(|activity| activity.connections = connections);
    }

    fn note(&self, change: impl FnOnce(&mut HubActivity)) {
        let activity = self.activity.lock();
        change(&mut activity.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The fields of an execute_request that we need.
#[derive(Deserialize)]
struct Wanted {
    code: String,
    #[serde(default)]
    silent: bool,
    /// Kernels treat a missing field as true.
    #[serde(default = "yes")]
    stop_on_error: bool,
}

fn yes() -> bool {
    true
}

/// The next message of the kernel; pending for ever if there is none.
async fn next(kernel: &mut Option<Attached>) -> Option<Tapped> {
    match kernel {
        Some(kernel) => kernel.messages.recv().await,
        None => std::future::pending().await,
    }
}

fn state_of(message: &RawMessage) -> Option<&'static str> {
    // Most messages are outputs; do not parse their content.
    if message.header().ok()?.msg_type != "status" {
        return None;
    }
    match message.decode().ok()?.content {
        Content::Status(ExecutionState::Idle) => Some("idle"),
        Content::Status(ExecutionState::Busy) => Some("busy"),
        Content::Status(ExecutionState::Starting) => Some("starting"),
        _ => None,
    }
}
