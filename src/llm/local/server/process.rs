//! The model server's process, watched from start to exit.
//!
//! Independent of what the process does.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, test_kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::child::{Group, Lifetime, Supervised};
use crate::task::{self, Task};

/// How long to wait for a killed group to disappear.
const GROUP_LIMIT: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerExit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
    /// The exit status is unknown.
    Unknown,
}

impl fmt::Display for ServerExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("unknown status"),
        }
    }
}

impl From<ExitStatus> for ServerExit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(status), _) => Self::Status(status),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }
}

/// A running process. Dropping it kills its whole process group.
pub(super) struct Guarded {
    /// Lines of the process's stdout, if piped. Lines that are not received are lost.
    pub(super) lines: mpsc::Receiver<String>,
    exit: watch::Receiver<Option<ServerExit>>,
    group: Group,
}

impl Guarded {
    /// Starts `command` in its own process group and writes `input` to its stdin, which stays open until the process or
    /// Sponde exits.
    pub(super) fn spawn(command: Command, input: Vec<u8>) -> io::Result<Self> {
        let mut process = Supervised::spawn(command, Lifetime::Stdin)?;
        let group = process.group().clone();
        let (line, lines) = mpsc::channel(16);
        let (exit, exit_seen) = watch::channel(None);
        let reading = process
            .child
            .stdout
            .take()
            .map(|stdout| task::spawn("model server's stdout", pass_on(stdout, line)));
        task::spawn("model server", async move {
            guard(process, &input, reading, &exit).await;
        })
        .detach();
        Ok(Self {
            lines,
            exit: exit_seen,
            group,
        })
    }

    /// The process id, which is its group's id too.
    pub(super) fn pid(&self) -> i32 {
        let leader = self.group.leader();
        leader.map_or(0, |leader| leader.as_raw_nonzero().get())
    }

    /// Sends `signal` to the whole group, if it is still there.
    pub(super) fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Resolves once the process and its group are gone.
    pub(super) fn exited(&self) -> impl Future<Output = ServerExit> + Send + 'static {
        let mut exit = self.exit.clone();
        async move {
            let seen = exit.wait_for(Option::is_some).await;
            seen.ok()
                .and_then(|exit| *exit)
                .unwrap_or(ServerExit::Unknown)
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.group.signal(Signal::KILL);
    }
}

/// Waits for the process to exit and reports how.
async fn guard(
    mut process: Supervised,
    input: &[u8],
    _reading: Option<Task>,
    exit: &watch::Sender<Option<ServerExit>>,
) {
    let mut stdin = process.child.stdin.take();
    if let Some(stdin) = &mut stdin {
        // A process that does not read its stdin exits, or is killed eventually.
        tokio::select! {
            _ = stdin.write_all(input) => {}
            _ = process.child.wait() => {}
        }
    }
    let ended = process.wait().await;
    if let Some(leader) = process.group().leader() {
        wait_for_group(leader).await;
    }
    let _ = exit.send(Some(ended.map_or(ServerExit::Unknown, ServerExit::from)));
}

/// A killed process needs a moment to release its memory. Bounded, because orphans stay in the group where nothing
/// reaps them.
async fn wait_for_group(leader: Pid) {
    let deadline = Instant::now() + GROUP_LIMIT;
    while test_kill_process_group(leader).is_ok() && Instant::now() < deadline {
        sleep(Duration::from_millis(5)).await;
    }
}

async fn pass_on(stdout: ChildStdout, line: mpsc::Sender<String>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        // Never blocks: the server must not wait for us.
        let _ = line.try_send(text);
    }
}
