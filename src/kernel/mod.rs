//! Floor 1a: a running Jupyter kernel as a handle.
//!
//! [`Kernel`] is all that the floors above use. Behind it one task (`actor`) owns the process (`host`), the sockets
//! (`link`) and the table of running executions. This module knows nothing of models, notebooks or screens.

mod actor;
mod aside;
pub mod attach;
pub mod checkpoint;
mod comm;
mod command;
pub mod discover;
mod execution;
mod exit_reason;
mod figures;
mod file_names;
mod files;
pub mod folder;
mod frames;
pub mod gateway;
pub mod guard;
mod handle;
mod host;
mod lane;
mod late;
mod launch;
mod link;
mod oversize;
mod pool;
pub mod probe;
pub mod processes;
mod program;
mod proxy;
pub mod quirks;
mod ready;
pub mod reap;
pub mod redact;
mod remove;
pub mod requests;
mod routing;
pub mod sandbox;
pub mod secrets;
mod source;
mod tap;
mod zmtp;

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

pub use attach::AttachOptions;
pub use checkpoint::{Checkpoint, CheckpointId, Checkpoints, NoCheckpoint};
pub use comm::{Comm, CommKind};
pub use command::Tapped;
pub use discover::{FoundKernel, SearchPath, SearchPaths};
pub(crate) use execution::stdout_of;
pub use execution::{Execution, ExecutionEvent, Outcome, OutputEvent, Verdict, plain_traceback};
pub use figures::with_figures;
pub use frames::{FrameAnswer, FramePart, FramePiece, FrameRequest};
pub use gateway::{Dialect, Frame, GatewayOptions};
pub use host::ExitReason;
pub use late::{Late, late_outputs};
pub use launch::{KeptKernelChoice, LaunchOptions};
pub use oversize::Oversize;
pub use pool::Pool;
pub use program::command_beside;
pub use proxy::hub::{Hub, HubActivity, HubClient, HubOwner, HubSender, OwnerRequest, Queued};
pub use proxy::{Proxy, ProxyAsk, ProxyEnd, ProxyError};
pub use redact::Redactor;
pub use remove::remove_tree;
pub use requests::{Completeness, Completions, Usage, Variable};
pub use sandbox::{
    AllowList, CommandError, CommandInput, Confinement, Connection, ConnectionEnd, Connections,
    Extent, Guest, Level, LevelChoice, Network, NetworkContext, Pace, Registry, Resolve, Resolver,
    Rule, Sandbox,
};
pub use source::KernelSource;
pub use tap::{Tap, TapSender};

use crate::jupyter::content::{ExecuteRequest, KernelInfo};
use crate::jupyter::message::new_id;
use crate::jupyter::raw::RawMessage;
use actor::Target;
use gateway::GatewayError;
use guard::GuardLimits;

/// A handle to a running kernel. Cheap to clone; the kernel is shut down when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Kernel {
    commands: mpsc::Sender<command::Command>,
    state: watch::Receiver<KernelState>,
}

/// What a kernel is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelState {
    /// Not ready for code: starting or restarting.
    Starting,
    /// Ready.
    Idle,
    /// Running at least one execution.
    Busy,
    /// Ended; only [`Kernel::restart`] helps.
    Dead(ExitReason),
}

impl KernelState {
    fn is_alive(&self) -> bool {
        matches!(self, Self::Idle | Self::Busy)
    }
}

/// Why an operation on a kernel failed. An exception in a cell is not an error but an output.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KernelError {
    /// The command could not be started.
    #[error("could not start kernel `{kernel}` (`{command}`): {reason}")]
    Spawn {
        /// The kernelspec's name.
        kernel: String,
        /// The program.
        command: String,
        /// The operating system's error.
        reason: String,
    },
    /// Sockets or files for the kernel could not be prepared.
    #[error("could not prepare kernel `{kernel}`: {reason}")]
    Prepare {
        /// The kernelspec's name.
        kernel: String,
        /// What went wrong, with the path.
        reason: String,
    },
    /// The process ended before it answered.
    #[error("kernel `{kernel}` exited before it was ready ({reason})")]
    DiedAtStart {
        /// The kernelspec's name.
        kernel: String,
        /// How it ended.
        reason: ExitReason,
        /// The last lines it wrote to its own stderr.
        log: String,
    },
    /// It runs but did not answer in time.
    #[error("kernel `{kernel}` was not ready after {} s", .after.as_secs())]
    NotReady {
        /// The kernelspec's name.
        kernel: String,
        /// How long we waited.
        after: Duration,
        /// The last lines it wrote to its own stderr.
        log: String,
    },
    /// It was running before and is still busy with earlier code.
    #[error("kernel `{kernel}` is still busy with an earlier cell and did not answer within {} s", .after.as_secs())]
    StillBusy {
        /// The kernelspec's name.
        kernel: String,
        /// How long we waited.
        after: Duration,
    },
    /// It died earlier.
    #[error("kernel `{kernel}` is not running ({reason})")]
    Dead {
        /// The kernelspec's name.
        kernel: String,
        /// How it ended.
        reason: ExitReason,
    },
    /// A request to a gateway failed.
    #[error("kernel `{kernel}`: {error}")]
    Gateway {
        /// The kernelspec's name.
        kernel: String,
        /// What was tried, and what happened.
        error: GatewayError,
    },
    /// Only the process that started it may end or restart it.
    #[error("kernel `{kernel}` was started by another program; Sponde cannot restart it")]
    NotOurs {
        /// The kernelspec's name.
        kernel: String,
    },
    /// A request other than an execution was not answered.
    #[error("kernel `{kernel}` did not answer a {request} within {} s", .after.as_secs_f32())]
    NoAnswer {
        /// The kernelspec's name.
        kernel: String,
        /// The message type.
        request: &'static str,
        /// How long we waited.
        after: Duration,
    },
    /// It cannot do this, or not in a way that we know.
    #[error("kernel `{kernel}` cannot {what}")]
    Unsupported {
        /// Its implementation name.
        kernel: String,
        /// What was requested.
        what: &'static str,
    },
    /// It could not go back to a checkpoint and stays as it was.
    #[error("kernel `{kernel}` could not go back to a checkpoint: {reason}")]
    NotRestored {
        /// The kernelspec's name.
        kernel: String,
        /// What went wrong.
        reason: String,
    },
    /// The kernel was shut down while this handle existed.
    #[error("kernel was shut down")]
    Closed,
}

impl KernelError {
    /// What the kernel's process wrote before it failed, if anything.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::DiedAtStart { log, .. } | Self::NotReady { log, .. } => {
                Some(log.as_str()).filter(|log| !log.is_empty())
            }
            Self::Spawn { .. }
            | Self::Prepare { .. }
            | Self::StillBusy { .. }
            | Self::Dead { .. }
            | Self::Gateway { .. }
            | Self::NotOurs { .. }
            | Self::NoAnswer { .. }
            | Self::Unsupported { .. }
            | Self::NotRestored { .. }
            | Self::Closed => None,
        }
    }
}

/// How to run one piece of code.
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that do not depend on each other, as in execute_request"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteOptions {
    /// The source.
    pub code: String,
    /// Run without outputs, history or number.
    pub silent: bool,
    /// Keep it in the kernel's history, which also gives it a number.
    pub history: bool,
    /// The subshell to run it in, in parallel to the main one (JEP 91).
    pub subshell: Option<String>,
    /// Whether somebody can answer `input()`. If not, a kernel that asks anyway is refused as by
    /// [`Kernel::refuse_input`].
    pub allow_stdin: bool,
    /// After this long the cell is interrupted, then again, and then the kernel is killed.
    pub timeout: Option<Duration>,
    /// Whether [`ExecutionEvent::Started`] is wanted.
    pub tell_start: bool,
    /// Whether it is our own code whose answer stands between U+001E and U+001F. Any other output meanwhile or later
    /// belongs to the latest cell, and is delivered as its late output ([`Kernel::send_late`]).
    pub aside: bool,
    /// The request as another client sent it. The kernel gets it unchanged, so its answers name that client's message.
    /// No other running execution has its `msg_id`. `code` is the same code.
    pub sent: Option<Box<RawMessage>>,
}

impl ExecuteOptions {
    /// A cell as a user would run it, with nobody to answer `input()` and no timeout.
    pub fn cell(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            silent: false,
            history: true,
            subshell: None,
            allow_stdin: false,
            timeout: None,
            tell_start: true,
            aside: false,
            sent: None,
        }
    }

    /// Our own code, which leaves no trace in history and numbers; it encloses its answer ([`Self::aside`]).
    pub fn aside(code: impl Into<String>, timeout: Duration) -> Self {
        Self {
            silent: true,
            history: false,
            timeout: Some(timeout),
            tell_start: false,
            aside: true,
            ..Self::cell(code)
        }
    }

    /// Builds the execute_request; moves the code out.
    fn take_request(&mut self) -> ExecuteRequest {
        ExecuteRequest {
            code: std::mem::take(&mut self.code),
            silent: self.silent,
            store_history: self.history && !self.silent,
            user_expressions: serde_json::Map::new(),
            allow_stdin: self.allow_stdin,
            stop_on_error: true,
        }
    }
}

impl Kernel {
    /// Starts a kernel, here or through [`LaunchOptions::gateway`], and waits until it answers on shell and iopub.
    ///
    /// # Errors
    /// [`KernelError`], with the process already cleaned up.
    pub async fn launch(options: LaunchOptions) -> Result<Self, KernelError> {
        Self::launch_within(options, GuardLimits::default()).await
    }

    /// The same with other limits for what it may send at once.
    async fn launch_within(
        options: LaunchOptions,
        limits: GuardLimits,
    ) -> Result<Self, KernelError> {
        Self::open(Target::launch(options, limits)).await
    }

    /// Connects to a kernel that somebody else started. We never shut it down and cannot restart it.
    ///
    /// # Errors
    /// [`KernelError`].
    pub async fn attach(options: AttachOptions) -> Result<Self, KernelError> {
        Self::open(Target::Attach(options)).await
    }

    async fn open(target: Target) -> Result<Self, KernelError> {
        let (commands, inbox) = mpsc::channel(64);
        let (state_tx, state) = watch::channel(KernelState::Starting);
        let (ready_tx, ready) = oneshot::channel();
        crate::task::spawn(
            "kernel actor",
            actor::run(target, inbox, state_tx, ready_tx),
        )
        .detach();
        ready.await.map_err(|_| KernelError::Closed)??;
        Ok(Self { commands, state })
    }

    /// Sends code to the kernel. Executions run in the order in which they were sent. If the kernel dies at this very
    /// moment, the execution ends with that.
    ///
    /// # Errors
    /// [`KernelError::Dead`] or [`KernelError::Closed`]; nothing ran.
    pub async fn execute(&self, options: ExecuteOptions) -> Result<Execution, KernelError> {
        let sent = options.sent.as_ref().and_then(|sent| sent.header().ok());
        let msg_id = sent.map_or_else(new_id, |header| header.msg_id);
        let (execution, events) = Execution::new(msg_id);
        let id = execution.id.clone();
        let command = |reply| command::Command::Execute {
            options,
            id,
            events,
            reply,
        };
        if self.state.borrow().is_alive() {
            let sent = self.commands.send(command(None)).await;
            sent.map_err(|_| KernelError::Closed)?;
        } else {
            self.ask(|reply| command(Some(reply))).await??;
        }
        Ok(execution)
    }

    /// Answers an [`ExecutionEvent::InputRequested`] of `execution` ([`Execution::id`]); `value` has no newline.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn reply(&self, execution: &str, value: String) -> Result<(), KernelError> {
        let execution = execution.to_owned();
        self.commands
            .send(command::Command::Reply { execution, value })
            .await
            .map_err(|_| KernelError::Closed)
    }

    /// Refuses the [`ExecutionEvent::InputRequested`] of `execution`: the code is interrupted, given an empty line if
    /// that does not help, and finally killed with its kernel. It ends as an error with the text `why`.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn refuse_input(&self, execution: &str, why: String) -> Result<(), KernelError> {
        let execution = execution.to_owned();
        self.commands
            .send(command::Command::RefuseInput { execution, why })
            .await
            .map_err(|_| KernelError::Closed)
    }

    /// Interrupts the running execution. Does nothing when the kernel is idle.
    ///
    /// # Errors
    /// [`KernelError::Dead`] or [`KernelError::Closed`].
    pub async fn interrupt(&self) -> Result<(), KernelError> {
        self.ask(|reply| command::Command::Interrupt { reply })
            .await?
    }

    /// Ends the kernel and starts it again. All its variables are lost; running executions finish as died.
    ///
    /// # Errors
    /// As [`Kernel::launch`].
    pub async fn restart(&self) -> Result<(), KernelError> {
        self.ask(|reply| command::Command::Restart { reply })
            .await?
    }

    /// Shuts the kernel down: `shutdown_request`, 5 s, SIGTERM to the group, 2 s, SIGKILL; or through its gateway.
    pub async fn shutdown(&self) {
        // If the actor is closed, this has already been done.
        let _ = self.ask(|reply| command::Command::Shutdown { reply }).await;
    }

    /// The kernel's own description of itself.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn info(&self) -> Result<KernelInfo, KernelError> {
        Ok(self.about().await?.info)
    }

    /// Whether it was already running when we came, with its variables in memory.
    ///
    /// # Errors
    /// [`KernelError::Closed`].
    pub async fn was_adopted(&self) -> Result<bool, KernelError> {
        Ok(self.about().await?.adopted)
    }

    /// Path of the connection file, for `jupyter console --existing`; a gateway's kernel has none.
    ///
    /// # Errors
    /// [`KernelError::Unsupported`] or [`KernelError::Closed`].
    pub async fn connection_file(&self) -> Result<std::path::PathBuf, KernelError> {
        let about = self.about().await?;
        about.connection_file.ok_or(KernelError::Unsupported {
            kernel: about.info.implementation,
            what: "be reached by a connection file: it belongs to a gateway",
        })
    }

    /// The process id, if we own the process and it runs.
    pub async fn pid(&self) -> Option<u32> {
        self.about().await.ok()?.pid
    }

    /// Whether both are handles of the same kernel, across restarts.
    pub fn is_same(&self, other: &Self) -> bool {
        self.commands.same_channel(&other.commands)
    }

    /// What the kernel is doing now.
    pub fn state(&self) -> KernelState {
        self.state.borrow().clone()
    }

    /// Waits until the kernel is gone.
    pub async fn ended(&self) -> ExitReason {
        let mut state = self.state.clone();
        let dead = state.wait_for(|state| matches!(state, KernelState::Dead(_)));
        match dead.await.as_deref() {
            Ok(KernelState::Dead(reason)) => reason.clone(),
            Ok(KernelState::Starting | KernelState::Idle | KernelState::Busy) | Err(_) => {
                ExitReason::Unknown
            }
        }
    }

    async fn about(&self) -> Result<command::About, KernelError> {
        self.ask(|reply| command::Command::About { reply }).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> command::Command,
    ) -> Result<T, KernelError> {
        let (reply, answer) = oneshot::channel();
        self.commands
            .send(command(reply))
            .await
            .map_err(|_| KernelError::Closed)?;
        answer.await.map_err(|_| KernelError::Closed)
    }
}
