//! The task behind a [`super::Kernel`]: owns process, sockets and the table of executions, as plain locals.
//!
//! It lives through restarts: each life of the kernel is one [`Life`]; commands keep coming meanwhile. When the
//! last handle is gone the kernel is shut down.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::execution::Execution;
use super::host::{ExitReason, Host};
use super::launch::{KernelFiles, LaunchOptions, launch};
use super::link::{self, Incoming, Link, LinkLoss};
use super::ready::{now, wait_ready};
use super::routing::{Action, Table};
use super::{ExecuteOptions, KernelError, KernelState};
use crate::jupyter::content::{Content, ExecuteRequest, ExecutionState, KernelInfo};
use crate::jupyter::kernelspec::InterruptMode;
use crate::jupyter::message::{Channel, Message};
use crate::jupyter::wire::WireError;

/// How long a kernel may take to answer a shutdown_request by exiting.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The same before a restart, where nobody wants its last words.
const RESTART_GRACE: Duration = Duration::from_secs(1);
/// How long we look for what a kernel wrote just before it died.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Silence that tells that there was nothing more.
const LAST_WORDS_QUIET: Duration = Duration::from_millis(50);
/// A kernel whose sockets close is about to exit; one that still lives after this never will.
const DISCONNECT_GRACE: Duration = Duration::from_secs(2);

/// What a handle can ask for.
#[derive(Debug)]
pub(super) enum Command {
    Execute {
        options: ExecuteOptions,
        reply: oneshot::Sender<Result<Execution, KernelError>>,
    },
    Reply {
        execution: String,
        value: String,
    },
    Interrupt {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    Restart {
        reply: oneshot::Sender<Result<(), KernelError>>,
    },
    Shutdown {
        reply: oneshot::Sender<()>,
    },
    Info {
        reply: oneshot::Sender<KernelInfo>,
    },
    ConnectionFile {
        reply: oneshot::Sender<std::path::PathBuf>,
    },
}

/// How a life ended.
enum End {
    /// Nobody wants the kernel any more.
    Shutdown(Option<oneshot::Sender<()>>),
    /// It shall start again.
    Restart(oneshot::Sender<Result<(), KernelError>>),
    /// It died by itself.
    Died(ExitReason),
}

/// Runs until the last handle is gone or the kernel is shut down.
pub(super) async fn run(
    options: LaunchOptions,
    mut inbox: mpsc::Receiver<Command>,
    state: watch::Sender<KernelState>,
    ready: oneshot::Sender<Result<(), KernelError>>,
) {
    let mut waiting = ready;
    loop {
        state.send_replace(KernelState::Starting);
        let end = match Life::start(&options).await {
            Ok(mut life) => {
                state.send_replace(KernelState::Idle);
                // A caller that stopped waiting has dropped its handle too; the inbox tells.
                let _ = waiting.send(Ok(()));
                let end = life.serve(&mut inbox, &state).await;
                life.finish(end).await
            }
            Err(error) => {
                let reason = match &error {
                    KernelError::DiedAtStart { reason, .. } => reason.clone(),
                    _ => ExitReason::Unknown,
                };
                let _ = waiting.send(Err(error));
                End::Died(reason)
            }
        };
        waiting = match end {
            End::Shutdown(reply) => {
                state.send_replace(KernelState::Dead(ExitReason::Requested));
                if let Some(reply) = reply {
                    let _ = reply.send(());
                }
                return;
            }
            End::Restart(reply) => reply,
            End::Died(reason) => {
                state.send_replace(KernelState::Dead(reason.clone()));
                match lie_dead(&options.kernel.name, &reason, &mut inbox).await {
                    Some(reply) => reply,
                    None => return,
                }
            }
        };
    }
}

/// Answers commands for a dead kernel until somebody wants it restarted.
async fn lie_dead(
    kernel: &str,
    reason: &ExitReason,
    inbox: &mut mpsc::Receiver<Command>,
) -> Option<oneshot::Sender<Result<(), KernelError>>> {
    let dead = || KernelError::Dead {
        kernel: kernel.to_owned(),
        reason: reason.clone(),
    };
    loop {
        match inbox.recv().await? {
            Command::Execute { reply, .. } => {
                let _ = reply.send(Err(dead()));
            }
            Command::Interrupt { reply } => {
                let _ = reply.send(Err(dead()));
            }
            Command::Shutdown { reply } => {
                let _ = reply.send(());
                return None;
            }
            Command::Restart { reply } => return Some(reply),
            // The dropped sender answers `Closed`.
            Command::Reply { .. } | Command::Info { .. } | Command::ConnectionFile { .. } => {}
        }
    }
}

/// One life of the kernel: from start to exit.
struct Life {
    kernel: String,
    interrupt_mode: InterruptMode,
    username: String,
    session: String,
    info: KernelInfo,
    table: Table,
    /// `msg_id` of the fence that is on its way.
    fence: Option<String>,
    /// A socket was closed: when the process must be gone.
    disconnected: Option<Instant>,
    /// Messages that were emptied for their size and will not be readable.
    emptied: u32,
    // In the order in which they are to be dropped.
    link: Link,
    host: Host,
    files: KernelFiles,
}

impl Life {
    async fn start(options: &LaunchOptions) -> Result<Self, KernelError> {
        let (files, mut host) = launch(options)?;
        let kernel = options.kernel.name.clone();
        let session = uuid::Uuid::new_v4().to_string();
        let deadline = Instant::now() + options.ready_timeout;
        let ready = async {
            // Longer than the deadline: who waits shall be told that, and not how our own sockets gave up.
            let patience = options.ready_timeout + Duration::from_secs(5);
            let mut link =
                link::connect(&files.info, &session, &files.guard_dir(), patience).await?;
            let info = wait_ready(&mut link, &session, &options.username).await?;
            Ok::<_, String>((link, info))
        };
        let failed = tokio::select! {
            biased;
            ready = ready => match ready {
                Ok((link, info)) => {
                    return Ok(Self {
                        kernel,
                        interrupt_mode: options.kernel.spec.interrupt_mode,
                        username: options.username.clone(),
                        session,
                        info,
                        table: Table::default(),
                        fence: None,
                        disconnected: None,
                        emptied: 0,
                        link,
                        host,
                        files,
                    });
                }
                Err(reason) => Some(reason),
            },
            reason = host.wait() => {
                let log = host.log().await;
                return Err(KernelError::DiedAtStart { kernel, reason, log });
            }
            () = sleep_until(deadline) => None,
        };
        // A kernel that dies while we shake hands breaks the connection first: its own words are better.
        if let Ok(reason) = timeout(LAST_WORDS, host.wait()).await {
            let log = host.log().await;
            return Err(KernelError::DiedAtStart {
                kernel,
                reason,
                log,
            });
        }
        host.kill();
        host.wait().await;
        let log = host.log().await;
        Err(match failed {
            Some(reason) => KernelError::Prepare { kernel, reason },
            None => KernelError::NotReady {
                kernel,
                after: options.ready_timeout,
                log,
            },
        })
    }

    async fn serve(
        &mut self,
        inbox: &mut mpsc::Receiver<Command>,
        state: &watch::Sender<KernelState>,
    ) -> End {
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
            let wake = self.table.next_wake();
            tokio::select! {
                command = inbox.recv() => match command {
                    None => return End::Shutdown(None),
                    Some(command) => {
                        if let Some(end) = self.obey(command).await {
                            return end;
                        }
                    }
                },
                incoming = self.link.incoming.recv() => {
                    let Some(incoming) = incoming else {
                        return End::Died(self.kill(ExitReason::Unknown).await);
                    };
                    match self.take(incoming) {
                        Some(LinkLoss::Hostile(what)) => {
                            return End::Died(self.kill(ExitReason::Hostile(what)).await);
                        }
                        Some(LinkLoss::Closed) => {
                            self.disconnected.get_or_insert_with(|| Instant::now() + DISCONNECT_GRACE);
                        }
                        None => {}
                    }
                }
                reason = self.host.wait() => return End::Died(reason),
                () = sleep_until(self.disconnected.unwrap_or_else(Instant::now)), if self.disconnected.is_some() => {
                    return End::Died(self.kill(ExitReason::Disconnected).await);
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    for action in self.table.wake(Instant::now()) {
                        match action {
                            Action::Fence => {
                                let request = self.request(Content::KernelInfoRequest);
                                self.fence = Some(request.header.msg_id.clone());
                                self.send(Channel::Shell, request).await;
                            }
                            Action::Interrupt => self.interrupt().await,
                            Action::Kill => {
                                return End::Died(self.kill(ExitReason::KilledAfterTimeout).await);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Carries out a command; `Some` ends this life.
    async fn obey(&mut self, command: Command) -> Option<End> {
        match command {
            Command::Execute { options, reply } => {
                let (events_tx, events) = mpsc::unbounded_channel();
                let request = self.request(Content::ExecuteRequest(ExecuteRequest {
                    code: options.code,
                    silent: options.silent,
                    store_history: !options.silent,
                    user_expressions: serde_json::Map::new(),
                    allow_stdin: options.allow_stdin,
                    stop_on_error: true,
                }));
                let id = request.header.msg_id.clone();
                self.table
                    .insert(id.clone(), events_tx, options.timeout, Instant::now());
                self.send(Channel::Shell, request).await;
                // A caller that went away leaves an execution that nobody reads; it still runs to its end.
                let _ = reply.send(Ok(Execution::new(id, events)));
            }
            Command::Reply { execution, value } => {
                if let Some(header) = self.table.take_input(&execution, Instant::now()) {
                    let message = self
                        .request(Content::InputReply { value })
                        .answering(header);
                    self.send(Channel::Stdin, message).await;
                }
            }
            Command::Interrupt { reply } => {
                if self.table.interrupt() {
                    self.interrupt().await;
                }
                let _ = reply.send(Ok(()));
            }
            Command::Restart { reply } => return Some(End::Restart(reply)),
            Command::Shutdown { reply } => return Some(End::Shutdown(Some(reply))),
            Command::Info { reply } => {
                let _ = reply.send(self.info.clone());
            }
            Command::ConnectionFile { reply } => {
                let _ = reply.send(self.files.connection_file.clone());
            }
        }
        None
    }

    /// Handles what came from the kernel; a loss is given back.
    fn take(&mut self, incoming: Incoming) -> Option<LinkLoss> {
        match incoming {
            Incoming::Message(channel, message, permit) => {
                if let Err(stray) = self.table.route(channel, *message, permit, Instant::now()) {
                    self.stray(channel, &stray);
                }
                None
            }
            Incoming::Emptied { bytes } => {
                self.emptied += 1;
                self.table.lost_output(&format!(
                    "an output of {} MB was too large and is not kept; print less at a time",
                    bytes / 1_000_000
                ));
                None
            }
            Incoming::Unreadable(_, WireError::BadSignature) if self.emptied > 0 => {
                self.emptied -= 1;
                None
            }
            Incoming::Unreadable(channel, error) => {
                tracing::warn!(kernel = self.kernel, channel = channel.name(), %error, "dropped an unreadable message");
                self.table.lost_output(&format!(
                    "a message of the kernel was dropped, because it could not be trusted or read: {error}"
                ));
                None
            }
            Incoming::Lost(loss) => Some(loss),
        }
    }

    /// A message without one of our parents: only a fence's `idle` means something to us.
    fn stray(&mut self, channel: Channel, message: &Message) {
        if channel == Channel::IoPub
            && message.content == Content::Status(ExecutionState::Idle)
            && self.fence.is_some()
            && message.parent_id() == self.fence.as_deref()
        {
            self.fence = None;
            self.table.fence_passed();
        }
    }

    async fn interrupt(&mut self) {
        match self.interrupt_mode {
            InterruptMode::Signal => self.host.interrupt(),
            InterruptMode::Message => {
                let request = self.request(Content::InterruptRequest);
                self.send(Channel::Control, request).await;
            }
        }
    }

    /// Ends this life in good order and tells everybody who still waits.
    async fn finish(mut self, end: End) -> End {
        let reason = match &end {
            End::Died(reason) => {
                self.last_words().await;
                reason.clone()
            }
            End::Shutdown(_) => self.shut_down(false, SHUTDOWN_GRACE).await,
            End::Restart(_) => self.shut_down(true, RESTART_GRACE).await,
        };
        self.table.kernel_died(&reason);
        end
    }

    async fn shut_down(&mut self, restart: bool, grace: Duration) -> ExitReason {
        let request = self.request(Content::ShutdownRequest { restart });
        self.send(Channel::Control, request).await;
        let end = self.host.end(grace);
        // Outputs are still taken, or a kernel that writes could not end.
        tokio::pin!(end);
        loop {
            tokio::select! {
                _ = &mut end => return ExitReason::Requested,
                incoming = self.link.incoming.recv() => match incoming {
                    Some(Incoming::Message(channel, message, permit)) => {
                        // Strays have nobody to go to.
                        let _ = self.table.route(channel, *message, permit, Instant::now());
                    }
                    Some(Incoming::Unreadable(..) | Incoming::Emptied { .. } | Incoming::Lost(_)) => {}
                    None => {
                        end.await;
                        return ExitReason::Requested;
                    }
                },
            }
        }
    }

    /// Takes what a dead kernel had written before it died.
    async fn last_words(&mut self) {
        let deadline = Instant::now() + LAST_WORDS;
        while let Ok(Some(incoming)) = timeout(
            LAST_WORDS_QUIET.min(deadline.saturating_duration_since(Instant::now())),
            self.link.incoming.recv(),
        )
        .await
        {
            self.take(incoming);
        }
    }

    async fn kill(&mut self, reason: ExitReason) -> ExitReason {
        self.host.kill();
        self.host.wait().await;
        reason
    }

    fn request(&self, content: Content) -> Message {
        Message::request(content, &self.session, &self.username, now())
    }

    async fn send(&self, channel: Channel, message: Message) {
        // A closed link is noticed by the loop.
        let _ = self.link.outgoing.send((channel, message)).await;
    }
}
