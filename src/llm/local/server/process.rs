//! A child process that cannot outlive Sponde unnoticed: one thread stands guard over it from its
//! start to its end.
//!
//! The thread, not a task, because Linux ties `PR_SET_PDEATHSIG` to the *thread* that forked: a child
//! started from a runtime's worker would be killed when that worker retires. The guard waits without
//! reaping, closes the window in which the process id could be someone else's, takes the rest of the
//! process group along, and only then reaps.
//!
//! Nothing here knows what the process is for.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, test_kill_process_group};
use tokio::sync::{mpsc, oneshot, watch};

/// How long a killed group may take to be gone.
const GROUP_LIMIT: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerExit {
    /// It exited with this status.
    Status(i32),
    /// This signal killed it.
    Signal(i32),
    /// The system would not say.
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

/// A running process under guard. Dropping it kills the process's whole group.
pub(super) struct Guarded {
    /// Lines of the process's stdout, where that is a pipe. Lines nobody takes are lost.
    pub(super) lines: mpsc::Receiver<String>,
    exit: watch::Receiver<Option<ServerExit>>,
    group: Group,
}

impl Guarded {
    /// Starts `command` in a process group of its own and writes `input` to its stdin. A piped stdin
    /// stays open until the process has ended or Sponde has.
    pub(super) async fn spawn(command: Command, input: Vec<u8>) -> io::Result<Self> {
        let (started, start) = oneshot::channel();
        thread::Builder::new()
            .name("model-server".to_owned())
            .spawn(move || guard(command, &input, started))?;
        start
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the guarding thread ended")))
    }

    /// The process id, which is its group's id too.
    pub(super) fn pid(&self) -> i32 {
        self.group.leader.as_raw_nonzero().get()
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

/// The thread: starts the process, passes its lines on, waits for its end.
fn guard(mut command: Command, input: &[u8], started: oneshot::Sender<io::Result<Guarded>>) {
    let mut child = match command.process_group(0).spawn() {
        Ok(child) => child,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let Some(leader) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return;
    };
    let group = Group {
        leader,
        present: Arc::new(Mutex::new(true)),
    };
    let (line, lines) = mpsc::channel(16);
    let (exit, exit_seen) = watch::channel(None);
    let (mut stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let guarded = Guarded {
        lines,
        exit: exit_seen,
        group: group.clone(),
    };
    // Nobody waits any more: the value comes back, is dropped, and kills what was started.
    drop(started.send(Ok(guarded)));

    if let Some(stdin) = &mut stdin {
        // A process that does not read ends or is killed in the end, and this with it.
        let _ = stdin.write_all(input);
    }
    if let Some(stdout) = stdout {
        for text in BufReader::new(stdout).lines().map_while(Result::ok) {
            // Never waits: a full or closed channel must not hide the process's end.
            let _ = line.try_send(text);
        }
    }
    let _ = exit.send(Some(group.wait(&mut child)));
}

/// A process group whose leader has not been reaped yet.
#[derive(Clone)]
struct Group {
    leader: Pid,
    /// False once the leader's id may belong to someone else.
    present: Arc<Mutex<bool>>,
}

impl Group {
    fn signal(&self, signal: Signal) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if *present {
            // The group may be empty but for a dead leader: nothing to do about it then.
            let _ = rustix::process::kill_process_group(self.leader, signal);
        }
    }

    fn wait(&self, child: &mut Child) -> ServerExit {
        let ended = loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            match rustix::process::waitid(WaitId::Pid(self.leader), options) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other.ok().flatten(),
            }
        };
        // The leader is dead and still ours: whoever it left behind goes with it.
        self.signal(Signal::KILL);
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = false;
        let _ = child.wait();
        // A killed process needs a moment to give its memory back. Bounded, because where nobody reaps
        // orphans they stay in the group.
        let deadline = Instant::now() + GROUP_LIMIT;
        while test_kill_process_group(self.leader).is_ok() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        match ended.map(|status| (status.exit_status(), status.terminating_signal())) {
            Some((Some(status), _)) => ServerExit::Status(status),
            Some((None, Some(signal))) => ServerExit::Signal(signal),
            Some((None, None)) | None => ServerExit::Unknown,
        }
    }
}
