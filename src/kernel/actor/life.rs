//! One life of a kernel: from the moment it answers to its end.

mod ending;

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::asked::Asked;
use super::gap::Gap;
use super::inbox::Inbox;
use super::limits::{Because, LimitWatch};
use super::numbers::Numbers;
use super::open::{Opened, Target};
use super::worker::{self, Worker};
use super::{About, Command, End, Restore, passed, refuse, refused};
use crate::jupyter::content::{Content, ExecutionState, KernelInfo};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Header, Message};
use crate::jupyter::raw::RawMessage;
use crate::jupyter::wire::WireError;
use crate::kernel::KernelError;
use crate::kernel::KernelState;
use crate::kernel::checkpoint::Confined;
use crate::kernel::command::{Hearer, Tapped};
use crate::kernel::files::KernelFiles;
use crate::kernel::host::{ExitReason, Host};
use crate::kernel::link::{Incoming, Link, LinkLoss};
use crate::kernel::oversize;
use crate::kernel::ready::{now, set_up_request};
use crate::kernel::routing::{Action, Table};
use crate::kernel::sandbox::limits::HIT;
use crate::kernel::tap::Listener;

/// A kernel that closes its sockets is about to exit; one still running after this long never will.
const DISCONNECT_GRACE: Duration = Duration::from_secs(2);

/// One life of the kernel: from start to exit.
pub(super) struct Life {
    kernel: String,
    interrupt_mode: InterruptMode,
    username: String,
    can_be_copied: bool,
    session: String,
    info: KernelInfo,
    table: Table,
    asked: Asked,
    /// Receives messages that belong to no request of ours.
    listener: Listener,
    /// `msg_id` of the fence in flight.
    fence: Option<String>,
    /// Set after a reconnect, until we know which messages were lost.
    gap: Option<Gap>,
    /// Only for a gateway's kernel, whose connection may break.
    numbers: Option<Numbers>,
    /// When the process must have ended, once a socket was closed.
    disconnected: Option<Instant>,
    /// Messages that were emptied because of their size and will arrive unreadable.
    emptied: u32,
    worker: Option<Worker>,
    limits: Option<LimitWatch>,
    adopted: bool,
    // In drop order.
    link: Link,
    host: Host,
    files: Option<KernelFiles>,
}

impl Life {
    /// The life of a kernel that answers. `tap` is the listener of the previous life.
    pub(super) fn of(target: &Target, opened: Opened, tap: Option<Hearer>) -> Self {
        Self {
            kernel: target.name().to_owned(),
            username: target.username().to_owned(),
            can_be_copied: target.can_be_copied() && !opened.adopted,
            interrupt_mode: opened.interrupt_mode,
            session: opened.session,
            info: opened.info,
            table: Table::new(opened.quirks),
            asked: Asked::default(),
            listener: Listener::new(tap),
            fence: None,
            gap: None,
            numbers: matches!(opened.host, Host::Gateway(_)).then(Numbers::default),
            disconnected: None,
            emptied: 0,
            worker: Worker::of(&opened.quirks, opened.host.pid()),
            limits: LimitWatch::of(target, opened.host.pid()),
            adopted: opened.adopted,
            link: opened.link,
            host: opened.host,
            files: opened.files,
        }
    }

    pub(super) async fn serve(
        &mut self,
        inbox: &mut Inbox,
        state: &watch::Sender<KernelState>,
    ) -> End {
        let mut look = tokio::time::interval(worker::EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let busy = if self.table.is_empty() {
                KernelState::Idle
            } else {
                KernelState::Busy
            };
            state.send_if_modified(|state| {
                let changed = *state != busy;
                *state = busy;
                changed
            });
            if let Some(code) = self.table.take_set_up() {
                let request = self.request(set_up_request(code));
                self.send(Channel::Shell, request);
            }
            let wake = self.table.next_wake();
            let runs = !self.table.is_empty();
            let idle = self
                .limits
                .as_ref()
                .and_then(LimitWatch::idle_end)
                .filter(|_| !runs);
            tokio::select! {
                command = inbox.recv() => match command {
                    None => return End::Shutdown(None),
                    Some(command) => {
                        self.limits.iter_mut().for_each(|limits| limits.note(runs));
                        if let Some(end) = self.handle(command) {
                            return end;
                        }
                    }
                },
                () = self.listener.make_room(), if self.listener.is_full() => {}
                incoming = self.link.incoming.recv(), if !self.listener.is_full() => {
                    let Some(incoming) = incoming else {
                        return End::Died(self.kill(ExitReason::Unknown).await);
                    };
                    match self.take(incoming) {
                        Some(LinkLoss::Gone(what)) => return End::Died(ExitReason::Gone(what)),
                        Some(LinkLoss::Hostile(what)) => {
                            return End::Died(self.kill(ExitReason::Hostile(what)).await);
                        }
                        Some(LinkLoss::Closed) => {
                            // We cannot wait on a process that is not our child.
                            let grace = if self.host.is_ours() { DISCONNECT_GRACE } else { Duration::ZERO };
                            self.disconnected.get_or_insert_with(|| Instant::now() + grace);
                        }
                        None => {}
                    }
                }
                reason = self.host.wait() => return End::Died(reason),
                words = refused::some(self.files.as_ref(), &self.table) => refused::tell(&mut self.table, &words),
                _ = look.tick(), if (self.worker.is_some() || self.limits.is_some()) && runs => {
                    if let Some(reason) = self.look_at_limits() {
                        return End::Died(self.kill(reason).await);
                    }
                    if self.worker.as_mut().is_some_and(Worker::is_gone) {
                        return End::Died(self.kill(ExitReason::WorkerEnded).await);
                    }
                }
                () = passed(idle) => {
                    let reason = self.limits.as_ref().map_or(ExitReason::Unknown, LimitWatch::idle);
                    return End::Died(self.kill(reason).await);
                }
                () = passed(self.disconnected) => {
                    return End::Died(self.kill(ExitReason::Disconnected).await);
                }
                () = passed(wake) => {
                    let more_waits = !self.link.incoming.is_empty();
                    for action in self.table.wake(Instant::now(), more_waits) {
                        match action {
                            Action::Fence => {
                                let request = self.request(Content::KernelInfoRequest);
                                self.fence = Some(request.header.msg_id.clone());
                                self.send(Channel::Shell, request);
                            }
                            Action::Interrupt => self.interrupt(),
                            Action::EmptyLine(asked) => {
                                self.answer(asked, String::new());
                            }
                            Action::Kill if self.host.is_ours() => {
                                return End::Died(self.kill(ExitReason::KilledAfterTimeout).await);
                            }
                            Action::Kill => return End::Died(ExitReason::Abandoned),
                        }
                    }
                }
            }
        }
    }

    /// Carries out a command; `Some` ends this life.
    fn handle(&mut self, command: Command) -> Option<End> {
        match command {
            Command::Execute { events, reply, .. } if !self.link.has_room(Channel::Shell) => {
                refuse(&self.kernel, &events, reply);
            }
            Command::Execute {
                mut options,
                id,
                events,
                reply,
            } => {
                let sent = options.sent.take();
                let content = Content::ExecuteRequest(options.take_request());
                let (session, username) = (&self.session, &self.username);
                let mut request =
                    Message::request_named(id.clone(), content, session, username, now());
                request.header.subshell_id = options.subshell.take();
                // If the caller has gone, nobody reads the execution; it still runs to its end.
                self.table.insert(id, events, &options, Instant::now());
                match sent {
                    Some(sent) => self.forward(Channel::Shell, &sent),
                    None => self.send(Channel::Shell, request),
                }
                if let Some(reply) = reply {
                    let _ = reply.send(Ok(()));
                }
            }
            Command::Reply { execution, value } => {
                if let Some(header) = self.table.take_input(&execution, Instant::now()) {
                    self.answer(header, value);
                }
            }
            Command::RefuseInput { execution, why } => {
                self.table.refuse_input(&execution, &why, Instant::now());
            }
            Command::Interrupt { reply } => {
                if self.table.interrupt(Instant::now()) {
                    self.interrupt();
                }
                let _ = reply.send(Ok(()));
            }
            Command::InterruptAnyway => self.interrupt(),
            Command::Restart { reply } if !self.host.is_ours() => {
                let kernel = self.kernel.clone();
                let _ = reply.send(Err(KernelError::NotOurs { kernel }));
            }
            Command::Restart { reply } => return Some(End::Restart(reply)),
            Command::Restore { reply, .. } if !self.table.is_empty() => {
                let _ = reply.send(Err(KernelError::NotRestored {
                    kernel: self.kernel.clone(),
                    reason: "a cell is running".to_owned(),
                }));
            }
            Command::Restore {
                checkpoints,
                id,
                reply,
            } => {
                return Some(End::Restore(Restore {
                    checkpoints,
                    id,
                    reply,
                }));
            }
            Command::Shutdown { reply } => return Some(End::Shutdown(Some(reply))),
            Command::Ask {
                channel,
                content,
                reply,
            } => {
                let request = self.request(content);
                self.asked.insert(request.header.msg_id.clone(), reply);
                self.send(channel, request);
            }
            Command::Tap { hearer } => self.listener = Listener::new(Some(hearer)),
            Command::Late { outputs } => self.table.late.listen(outputs),
            Command::Forward { channel, message } => self.forward(channel, &message),
            Command::About { reply } => {
                let _ = reply.send(About {
                    info: self.info.clone(),
                    connection_file: self
                        .files
                        .as_ref()
                        .map(|files| files.connection_file.clone()),
                    pid: self.host.pid(),
                    can_be_copied: self.can_be_copied,
                    confined: Confined::of(self.files.as_ref(), &self.host),
                    adopted: self.adopted,
                    busy: !self.table.is_empty(),
                    interrupt_mode: self.interrupt_mode,
                });
            }
        }
        None
    }

    /// Handles what came from the kernel; returns the loss of a connection.
    fn take(&mut self, incoming: Incoming) -> Option<LinkLoss> {
        match incoming {
            Incoming::Message {
                channel,
                message,
                raw,
                permit,
            } => {
                if let Some(numbers) = &mut self.numbers
                    && numbers.see(channel, &message)
                {
                    self.table.lost_output(
                        "the connection to the gateway broke while this cell ran: some of its output may be missing",
                    );
                }
                // Must precede the routing that may end the cell that caused them.
                refused::tell_waiting(&mut self.table, self.files.as_ref());
                let behind = match (&self.limits, &message.content) {
                    (Some(limits), Content::Error(error)) => limits.behind(error),
                    _ => None,
                };
                if channel == Channel::Shell {
                    // Must precede the end of the cell: a limit hit now belongs to it.
                    let _ = self.look_at_limits();
                }
                let heard = self.listener.hears_cells() && self.table.is_cell(message.parent_id());
                let copy = heard.then(|| raw.clone());
                let routed = self.table.route(channel, *message, permit, Instant::now());
                if let Err((stray, permit)) = routed {
                    self.stray(channel, *stray, raw, permit);
                } else {
                    if let Some(message) = copy {
                        self.listener.offer(Tapped {
                            channel,
                            message,
                            permit: None,
                        });
                    }
                    let runs = !self.table.is_empty();
                    self.limits.iter_mut().for_each(|limits| limits.note(runs));
                    if let Some(words) = behind {
                        self.table.lost_output(&words);
                    }
                }
                None
            }
            Incoming::Emptied { bytes, file } => {
                self.emptied += 1;
                self.lost_large(&oversize::too_large(bytes, file.as_deref()));
                None
            }
            Incoming::TooLarge { bytes, file } => {
                self.lost_large(&oversize::too_large(bytes, file.as_deref()));
                None
            }
            Incoming::Truncated(words) => {
                self.table.lost_output(&words);
                None
            }
            Incoming::Reconnected => {
                if !self.table.is_empty() {
                    let request = self.request(Content::KernelInfoRequest);
                    let asked = request.header.msg_id.clone();
                    if let Some(numbers) = &mut self.numbers {
                        numbers.broke(self.table.ids());
                    }
                    self.gap = Some(Gap::new(asked, self.table.ids()));
                    self.send(Channel::Shell, request);
                }
                None
            }
            Incoming::Unreadable(_, WireError::BadSignature) if self.emptied > 0 => {
                self.emptied -= 1;
                None
            }
            Incoming::Unreadable(channel, error) => {
                tracing::warn!(kernel = self.kernel, channel = channel.name(), %error, "dropped an unreadable message");
                self.table.lost_output(&format!(
                    "dropped a kernel message that is unreadable or has a bad signature: {error}"
                ));
                None
            }
            Incoming::Lost(loss) => Some(loss),
        }
    }

    /// Reports limits and interrupts where needed; returns the reason if the kernel must end.
    fn look_at_limits(&mut self) -> Option<ExitReason> {
        for because in self.limits.as_mut()?.look() {
            match because {
                Because::Tell(hit) => self.table.lost_output(&format!("{HIT}{hit}")),
                Because::Interrupt(hit) => {
                    self.table
                        .lost_output(&format!("{HIT}{hit}, so it was interrupted"));
                    if self.table.interrupt_at_limit(Instant::now()) {
                        self.interrupt();
                    }
                }
                Because::End(hit) => return Some(ExitReason::Limit(hit.to_string())),
            }
        }
        None
    }

    fn lost_large(&mut self, words: &str) {
        if self.listener.is_there() {
            // The message may have been for the listener, but we cannot tell which one it was.
            tracing::error!(kernel = self.kernel, "{words}");
        }
        self.table.lost_output(words);
    }

    /// Handles a message that belongs to no execution: a reply that a caller waits for, a fence's `idle`, or one for
    /// the listener.
    fn stray(
        &mut self,
        channel: Channel,
        message: Message,
        raw: RawMessage,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        if channel == Channel::IoPub
            && message.content == Content::Status(ExecutionState::Idle)
            && self.fence.is_some()
            && message.parent_id() == self.fence.as_deref()
        {
            self.fence = None;
            self.table.fence_passed();
        }
        if let Some(before) = self
            .gap
            .take_if(|gap| gap.is_passed_by(channel, &message))
            .map(Gap::before)
        {
            self.table.gap_passed(&before);
        }
        let message = match channel {
            Channel::Shell | Channel::Control => self.asked.answer(message),
            Channel::Stdin | Channel::IoPub => Some(message),
        };
        // Side effects of our own requests concern nobody.
        if message.is_some_and(|message| !message.is_child_of(&self.session)) {
            self.listener.offer(Tapped {
                channel,
                message: raw,
                permit,
            });
        }
    }

    /// Sends the line that an input request asked for.
    fn answer(&self, asked: Header, value: String) {
        let reply = self.request(Content::InputReply { value }).answering(asked);
        self.send(Channel::Stdin, reply);
    }

    fn interrupt(&self) {
        match self.interrupt_mode {
            InterruptMode::Signal => self.host.interrupt(),
            InterruptMode::Message => {
                let request = self.request(Content::InterruptRequest);
                self.send(Channel::Control, request);
            }
        }
    }

    async fn kill(&mut self, reason: ExitReason) -> ExitReason {
        self.host.kill().await;
        reason
    }

    fn request(&self, content: Content) -> Message {
        Message::request(content, &self.session, &self.username, now())
    }

    fn forward(&self, channel: Channel, message: &RawMessage) {
        if let Err(error) = self.link.forward(channel, message) {
            tracing::warn!(kernel = self.kernel, %error, "dropped a message to it");
        }
    }

    fn send(&self, channel: Channel, message: Message) {
        self.link.send(channel, message);
    }
}
