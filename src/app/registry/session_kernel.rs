//! A session's kernel for other front ends. Their code runs as the person's own cell in that session, and waits until
//! the session has time for it, as it would wait in the kernel.
//!
//! Nothing here runs until the first front end connects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::LiveSession;
use crate::agent::stream::snapshot::PendingRequest;
use crate::agent::stream::{Body, ItemId, Received, Rejection};
use crate::agent::{Command, EventKind};
use crate::jupyter::raw::RawMessage;
use crate::kernel::{Hub, HubActivity, HubOwner, Kernel, KernelError, OwnerRequest};
use crate::task;

/// The name of these front ends, as other clients see it.
const CLIENT: &str = "jupyter";

/// How many requests may wait for the session's task.
const REQUESTS: usize = 64;
/// How much code may wait for the session; more is rejected.
const WAITING: usize = 256;
/// How often to check a busy session or a missing kernel, in addition to its events.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long code waits for a missing kernel.
const KERNEL_WITHIN: Duration = Duration::from_mins(2);
/// How long a session may take to notice that its code asks for input.
const ASKED_WITHIN: Duration = Duration::from_secs(3);
/// How often to check that; see [`ASKED_WITHIN`].
const ASKED_EVERY: Duration = Duration::from_millis(10);
/// How long after the end of its turn the kernel's reply to a cell may come: they take different paths.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The kernel of a session at `index`.
pub(super) struct SessionKernel {
    session: Arc<LiveSession>,
    index: usize,
    requests: std::sync::Mutex<Option<mpsc::Receiver<OwnerRequest>>>,
    is_shared: AtomicBool,
}

impl SessionKernel {
    pub(super) fn new(session: Arc<LiveSession>, index: usize, username: &str) -> (Hub, Self) {
        let (owner, requests) = mpsc::channel(REQUESTS);
        let hub = Hub::start(username, HubOwner::Session(owner));
        let kernel = Self {
            session,
            index,
            requests: std::sync::Mutex::new(Some(requests)),
            is_shared: AtomicBool::new(false),
        };
        (hub, kernel)
    }

    pub(super) fn session(&self) -> &LiveSession {
        &self.session
    }

    pub(super) fn activity(&self, hub: &Hub) -> HubActivity {
        let mut activity = hub.activity();
        if !self.is_shared.load(Ordering::Relaxed) {
            let is_busy = self.session.activity().is_busy;
            activity.state = if is_busy { "busy" } else { "idle" };
        }
        activity
    }

    /// Carries out a front end's command.
    pub(super) async fn command(&self, command: Command) -> Result<(), KernelError> {
        self.session.touch();
        let sent = self.session.handle().send(CLIENT, command).await;
        sent.map(|_| ()).map_err(|_| KernelError::Closed)
    }

    /// Gives front ends access to the kernel, from the first call on.
    pub(super) fn share(&self, hub: &Hub) {
        self.session.touch();
        let Some(requests) = super::lock(&self.requests).take() else {
            return;
        };
        self.is_shared.store(true, Ordering::Relaxed);
        let session = Arc::clone(&self.session);
        let language = session.kernels.get(self.index);
        let language = language.map(|it| it.language.clone()).unwrap_or_default();
        let (attaching, told) = (hub.clone(), language.clone());
        let (attached, heard) = watch::channel(None);
        task::spawn("shared kernel", async move {
            tokio::select! {
                () = attach(&session, &language, &attaching, &attached) => {}
                () = attaching.closed() => {}
            }
        })
        .detach();
        let cells = Cells {
            session: Arc::clone(&self.session),
            language: told,
            is_main: self.index == 0,
            hub: hub.clone(),
            waiting: VecDeque::new(),
            current: None,
            heard,
            since: None,
        };
        let hub = hub.clone();
        task::spawn("shared kernel's cells", async move {
            cells.run(requests).await;
            // The session has ended: we must not keep its resources alive.
            hub.close().await;
        })
        .detach();
    }
}

/// Gives the hub the session's kernel, and each new kernel that replaces it, until the session ends.
async fn attach(
    session: &LiveSession,
    language: &str,
    hub: &Hub,
    heard: &watch::Sender<Option<Kernel>>,
) {
    loop {
        let Ok(ready) = session.handle().kernels().await else {
            return hub.close().await;
        };
        let of = |(name, kernel): (String, Kernel)| (name == language).then_some(kernel);
        match ready.into_iter().find_map(of) {
            Some(kernel) => {
                let ends = hub.attach(kernel.clone()).await;
                heard.send_replace(Some(kernel));
                // Waits for this kernel's end without holding a handle, which would keep it alive.
                let _ = ends.await;
                heard.send_replace(None);
            }
            None => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

/// Code that front ends want to run in a session.
struct Cells {
    session: Arc<LiveSession>,
    language: String,
    is_main: bool,
    hub: Hub,
    waiting: VecDeque<Waiting>,
    current: Option<Current>,
    /// The kernel that the hub listens to: code in any other kernel would get no reply.
    heard: watch::Receiver<Option<Kernel>>,
    /// When code began to wait for a kernel.
    since: Option<Instant>,
}

struct Waiting {
    request: RawMessage,
    msg_id: String,
    code: String,
    stops_on_error: bool,
}

/// Code that the session has accepted.
struct Current {
    waiting: Waiting,
    /// Earlier items belong to other turns.
    after: ItemId,
    /// The turn ended at this time, and its reply has not been seen yet.
    overdue: Option<Instant>,
}

impl Cells {
    async fn run(mut self, mut requests: mpsc::Receiver<OwnerRequest>) {
        let handle = self.session.handle().clone();
        let Ok((_, mut client)) = handle.join(CLIENT).await else {
            return;
        };
        let _guard = self.session.client();
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            let is_waiting = self.current.is_some() || !self.waiting.is_empty();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.take(request).await,
                    None => return,
                },
                received = client.next() => match received {
                    Some(received) => self.see(&received),
                    None => return,
                },
                _ = look.tick(), if is_waiting => {}
            }
            self.go_on().await;
        }
    }

    async fn take(&mut self, request: OwnerRequest) {
        match request {
            OwnerRequest::Execute {
                request,
                msg_id,
                code,
                stops_on_error,
            } => {
                let is_known = |it: &Waiting| it.msg_id == msg_id;
                let mut all = self.waiting.iter();
                let current = self.current.as_ref().map(|it| &it.waiting);
                // The kernel's replies could not be told apart.
                let is_twice = all.any(is_known) || current.is_some_and(is_known);
                if is_twice || self.waiting.len() >= WAITING {
                    return self.hub.abort(request).await;
                }
                self.waiting.push_back(Waiting {
                    request,
                    msg_id,
                    code,
                    stops_on_error,
                });
            }
            OwnerRequest::Replied { msg_id, failed } => {
                let current = self
                    .current
                    .take_if(|current| current.waiting.msg_id == msg_id);
                if current.is_some_and(|it| failed && it.waiting.stops_on_error) {
                    self.abort_waiting().await;
                }
            }
            OwnerRequest::Input(value) => self.reply(value).await,
            OwnerRequest::Interrupt => {
                // A session that has ended runs nothing.
                let _ = self.session.handle().send(CLIENT, Command::Interrupt).await;
            }
        }
    }

    /// Handles a turn that ended without a reply to its cell: the kernel died, or never received it.
    fn see(&mut self, received: &Received) {
        let (Received::Item(item), Some(current)) = (received, &mut self.current) else {
            return;
        };
        let is_over = matches!(
            &item.body,
            Body::Event {
                event: EventKind::TurnFinished { .. }
            }
        );
        if is_over && item.id.sequence > current.after.sequence {
            current.overdue = Some(Instant::now() + ANSWER_WITHIN);
        }
    }

    async fn go_on(&mut self) {
        let is_overdue = |current: &mut Current| {
            let overdue = current.overdue;
            overdue.is_some_and(|at| at <= Instant::now())
        };
        if let Some(lost) = self.current.take_if(is_overdue) {
            self.hub.abort(lost.waiting.request).await;
            self.abort_waiting().await;
        }
        if self.current.is_some() {
            return;
        }
        if self.waiting.is_empty() || self.is_heard().await {
            self.since = None;
        } else {
            let since = *self.since.get_or_insert_with(Instant::now);
            if since.elapsed() > KERNEL_WITHIN {
                self.abort_waiting().await;
            }
            return;
        }
        let Some(first) = self.waiting.front() else {
            return;
        };
        self.session.touch();
        let language = (!self.is_main).then(|| self.language.clone());
        let code = first.code.clone();
        let handle = self.session.handle();
        let sent = handle.run_sent(CLIENT, code, language, first.request.clone());
        match sent.await {
            Ok(after) => {
                let waiting = self.waiting.pop_front();
                self.current = waiting.map(|waiting| Current {
                    waiting,
                    after,
                    overdue: None,
                });
            }
            // Tried again later.
            Err(Rejection::Busy | Rejection::Restoring) => {}
            Err(Rejection::Ended | Rejection::AlreadyAnswered { .. } | Rejection::NotWaiting) => {
                self.abort_waiting().await;
            }
        }
    }

    /// Whether the session would run code in the kernel that the hub listens to.
    async fn is_heard(&self) -> bool {
        let Some(heard) = self.heard.borrow().clone() else {
            return false;
        };
        let ready = self.session.handle().kernels().await.unwrap_or_default();
        let is_it =
            |(name, kernel): &(String, Kernel)| *name == self.language && kernel.is_same(&heard);
        ready.iter().any(is_it)
    }

    async fn abort_waiting(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.hub.abort(waiting.request).await;
        }
    }

    /// Answers an input request, as any client of the session would.
    async fn reply(&self, value: String) {
        let handle = self.session.handle();
        let by = Instant::now() + ASKED_WITHIN;
        // The session reports the request after the output before it, so the front end knows it earlier.
        while Instant::now() < by {
            let Ok(snapshot) = handle.snapshot().await else {
                return;
            };
            let cell = snapshot.state.pending.iter().find_map(|it| match it {
                PendingRequest::Input { cell, .. } => Some(cell.clone()),
                _ => None,
            });
            if let Some(cell) = cell {
                // Another client may have answered first.
                let _ = handle.send(CLIENT, Command::Reply { cell, value }).await;
                return;
            }
            tokio::time::sleep(ASKED_EVERY).await;
        }
    }
}
