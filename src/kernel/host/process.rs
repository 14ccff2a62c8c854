//! The kernel's process, in its own process group: started, watched, interrupted, ended. No orphans, no zombies.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{ChildStderr, Command};

use super::{Adopted, ExitReason};
use crate::child::{self, Lifetime, Supervised};
use crate::kernel::sandbox::{Cage, Confined};
use crate::task::{self, Task};

/// How much of a kernel's own stderr is kept for error messages.
const LOG_BYTES: usize = 8 * 1024;

/// How long a kernel may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// How long a kernel woken from a checkpoint may take to exit: some wait for threads that were not copied.
const WOKEN_GRACE: Duration = Duration::from_secs(1);

/// When a process ends if nobody ends it before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) enum EndOf {
    /// With us.
    Parent,
    /// By itself. Its stderr goes to a file, because nobody may be there to read a pipe.
    Itself {
        /// Which file.
        log: PathBuf,
    },
}

/// A kernel's process.
#[derive(Debug)]
pub(in crate::kernel) struct Process {
    running: Running,
    group: Option<Pid>,
    log: Log,
    /// Whether it keeps running after we exit.
    kept: bool,
}

/// Where the process's stderr goes.
#[derive(Debug)]
enum Log {
    Memory {
        bytes: Arc<Mutex<Vec<u8>>>,
        reader: Option<Task>,
    },
    File(PathBuf),
}

/// How the process became ours.
#[derive(Debug)]
enum Running {
    /// We started it.
    Started(Supervised),
    /// One of our kernels forked it.
    Adopted(Adopted),
    /// The first process of its namespaces, which we started.
    Caged(Adopted),
}

/// The command of a kernel, without what only namespaces need.
fn prepare(
    command: &[String],
    env: &[(String, String)],
    cwd: &Path,
    groups: &[PathBuf],
    end: &EndOf,
) -> std::io::Result<(Command, Lifetime)> {
    let [program, args @ ..] = command else {
        return Err(std::io::Error::other("empty command"));
    };
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    child::join_groups(&mut command, groups)?;
    let lifetime = match end {
        EndOf::Parent => {
            command.stderr(Stdio::piped());
            Lifetime::Parent
        }
        EndOf::Itself { log } => {
            command.stderr(std::fs::File::create(log)?);
            Lifetime::Itself
        }
    };
    Ok((command, lifetime))
}

impl Process {
    /// A process that a kernel forked; its stderr is read from `stderr`.
    pub(in crate::kernel) fn adopted(
        adopted: Adopted,
        stderr: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        Self {
            group: Some(adopted.group()),
            running: Running::Adopted(adopted),
            log: Log::of(stderr),
            kept: false,
        }
    }

    /// Starts `command` in `cwd` with exactly `env`; it first joins the control groups of these files.
    pub(in crate::kernel) fn spawn(
        command: &[String],
        env: &[(String, String)],
        cwd: &Path,
        groups: &[PathBuf],
        end: EndOf,
    ) -> std::io::Result<Self> {
        let (command, lifetime) = prepare(command, env, cwd, groups, &end)?;
        let mut started = Supervised::spawn(command, lifetime)?;
        let stderr = started.child.stderr.take();
        Ok(Self {
            group: started.group().leader(),
            running: Running::Started(started),
            kept: end != EndOf::Parent,
            log: Log::of_kernel(end, stderr),
        })
    }

    /// The same for a command that confines the kernel, in a cage or by itself.
    pub(in crate::kernel) async fn spawn_confined(
        confined: &Confined,
        cwd: &Path,
        end: EndOf,
    ) -> std::io::Result<Self> {
        let Confined {
            command,
            env,
            cage,
            groups,
        } = confined;
        let Some(kind) = *cage else {
            return Self::spawn(command, env, cwd, groups, end);
        };
        let kept = end != EndOf::Parent;
        // The working directory of a kernel in a cage is among its arguments.
        let (command, lifetime) = prepare(command, env, Path::new("/"), groups, &end)?;
        let (member, pid, stderr) = Cage::start(command, lifetime, kind)
            .await
            .map_err(std::io::Error::other)?;
        Ok(Self {
            running: Running::Caged(Adopted::caged(pid, member, kept)),
            group: Some(pid),
            kept,
            log: Log::of_kernel(end, stderr),
        })
    }

    /// The namespaces that it runs in.
    pub(super) fn cage(&self) -> Option<&Arc<Cage>> {
        match &self.running {
            Running::Started(_) => None,
            Running::Adopted(process) | Running::Caged(process) => process.cage(),
        }
    }

    /// Whether it keeps running after we exit.
    pub(in crate::kernel) fn is_kept(&self) -> bool {
        self.kept
    }

    /// SIGINT to the whole group, as jupyter_client does.
    pub(in crate::kernel) fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    /// SIGKILL to the whole group.
    pub(in crate::kernel) fn kill(&self) {
        self.signal_group(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if !self.cage().is_some_and(|cage| cage.order(signal)) {
            self.signal_group(signal);
        }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that has already gone is what we want.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Its process id, while it runs.
    pub(in crate::kernel) fn id(&self) -> Option<u32> {
        match &self.running {
            Running::Started(process) => process.child.id(),
            Running::Adopted(process) | Running::Caged(process) => {
                (!process.has_ended()).then(|| process.id())
            }
        }
    }

    /// Waits for the process to end. Cancel-safe.
    pub(in crate::kernel) async fn wait(&mut self) -> ExitReason {
        let reason = match &mut self.running {
            Running::Started(process) => match process.wait().await {
                Ok(status) => ExitReason::from(status),
                Err(_) => return ExitReason::Unknown,
            },
            Running::Adopted(process) | Running::Caged(process) => process.wait().await,
        };
        // The kernel's children must not outlive it.
        self.kill();
        if let Some(cage) = self.cage() {
            cage.release();
        }
        reason
    }

    /// Gives the process `grace` to exit by itself, then sends SIGTERM, then SIGKILL.
    pub(in crate::kernel) async fn end(&mut self, grace: Duration) -> ExitReason {
        let grace = match &self.running {
            Running::Started(_) | Running::Caged(_) => grace,
            Running::Adopted(_) => grace.min(WOKEN_GRACE),
        };
        if let Ok(reason) = tokio::time::timeout(grace, self.wait()).await {
            return reason;
        }
        self.signal(Signal::TERM);
        if let Ok(reason) = tokio::time::timeout(TERM_GRACE, self.wait()).await {
            return reason;
        }
        self.kill();
        self.wait().await
    }

    /// The last lines of the process's stderr.
    pub(in crate::kernel) async fn log(&mut self) -> String {
        self.log.tail().await
    }
}

impl Log {
    fn of_kernel(end: EndOf, stderr: Option<ChildStderr>) -> Self {
        match (end, stderr) {
            (EndOf::Itself { log }, _) => Self::File(log),
            (EndOf::Parent, Some(pipe)) => Self::of(pipe),
            (EndOf::Parent, None) => Self::of(tokio::io::empty()),
        }
    }

    fn of(stderr: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let reader = task::spawn("kernel stderr", keep_tail(stderr, Arc::clone(&bytes)));
        Self::Memory {
            bytes,
            reader: Some(reader),
        }
    }

    async fn tail(&mut self) -> String {
        let bytes = match self {
            Self::Memory { bytes, reader } => {
                if let Some(reader) = reader.take() {
                    // The pipe closes with the process; a surviving grandchild must not delay us.
                    let _ = tokio::time::timeout(Duration::from_millis(200), reader.join()).await;
                }
                bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
            }
            Self::File(path) => {
                let mut bytes = std::fs::read(path).unwrap_or_default();
                let excess = bytes.len().saturating_sub(LOG_BYTES);
                bytes.drain(..excess);
                bytes
            }
        };
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let runs = match &mut self.running {
            Running::Started(process) => matches!(process.child.try_wait(), Ok(None)),
            Running::Adopted(process) | Running::Caged(process) => !process.has_ended(),
        };
        if runs && !self.kept {
            self.kill();
        }
    }
}

async fn keep_tail(mut pipe: impl AsyncRead + Unpin, log: Arc<Mutex<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(buffer.get(..read).unwrap_or_default());
        let excess = log.len().saturating_sub(LOG_BYTES);
        log.drain(..excess);
    }
}
