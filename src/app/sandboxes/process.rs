//! Commands of a sandbox: they run next to its kernels, with the same files and rules, until they end or the sandbox
//! does.
//!
//! A follower of a command gets its output from then on; a command without followers keeps running.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::Receiver;
use tokio::process::{ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::language::check_variables;
use super::lock;
use super::machine::{HOME, Machine};
use super::terminal::{Ends, Terminal, TerminalSize, end_session};
use crate::child::{Group, Lifetime, Supervised};
use crate::kernel::{CommandInput, folder};
use crate::task::{self, Task};

/// Maximum commands of a sandbox at a time.
const PROCESSES: usize = 64;
/// How many events may wait for a follower.
const EVENTS: usize = 16;
/// Bytes read at once.
const PIECE: usize = 32 << 10;
/// How long pipes may stay open after a command's end: other processes may hold them.
const PIPES: Duration = Duration::from_millis(500);
/// How long a command may take to read its stdin.
const INPUT: Duration = Duration::from_secs(30);

/// How long killed commands may take to end, and how often to check.
const END_WITHIN: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(10);

/// A command to run.
#[derive(Debug, Clone, Default)]
pub struct ProcessRequest {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Environment variables, in addition to the sandbox's.
    pub variables: Vec<(String, String)>,
    /// Its working directory.
    pub cwd: Option<String>,
    /// Its tag, chosen by the program.
    pub tag: Option<String>,
    /// Whether its stdin is a pipe.
    pub stdin: bool,
    /// Its terminal, instead of pipes.
    pub terminal: Option<TerminalSize>,
    /// Its time limit, after which it is killed.
    pub limit: Option<Duration>,
}

/// The description of a command.
#[derive(Debug, Clone)]
pub struct ProcessInfo {
    /// Its process number.
    pub pid: u32,
    /// The original request.
    pub request: ProcessRequest,
}

/// An event of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessEvent {
    /// Output and its stream.
    Output(Stream, Bytes),
    /// It exited with this status.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
    /// It reached its time limit.
    TimedOut,
}

/// The stream of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// stdout.
    Stdout,
    /// stderr.
    Stderr,
    /// Its terminal.
    Terminal,
}

/// The destination of input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// Its stdin pipe.
    Stdin,
    /// Its terminal, as if typed.
    Terminal,
}

/// Why an operation on a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such command.
    #[error("process with pid or tag {0} not found")]
    Unknown(String),
    /// There are too many commands.
    #[error("a sandbox runs at most {PROCESSES} commands at a time")]
    TooMany,
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// It could not be started, or did not accept input.
    #[error("{0}")]
    Failed(String),
}

/// The running commands.
#[derive(Default)]
pub struct Processes {
    running: Arc<Mutex<BTreeMap<u32, Running>>>,
}

struct Running {
    info: ProcessInfo,
    group: Group,
    is_apart: bool,
    stdin: Option<Arc<tokio::sync::Mutex<Option<ChildStdin>>>>,
    terminal: Option<Arc<Terminal>>,
    followers: Followers,
    ends: Option<oneshot::Sender<()>>,
}

/// The events that a follower gets.
pub type Events = mpsc::Receiver<ProcessEvent>;

type Followers = Arc<Mutex<Vec<mpsc::Sender<ProcessEvent>>>>;

/// Watches a command to its end.
async fn watch(
    mut process: Supervised,
    shown: Option<Receiver>,
    followers: &Followers,
    limit: Option<Duration>,
    end: oneshot::Receiver<()>,
) -> ProcessEvent {
    let has_terminal = shown.is_some();
    let stdout = process.child.stdout.take();
    let stderr = process.child.stderr.take();
    let reading = [
        stdout.map(|it| read(it, Stream::Stdout, followers)),
        stderr.map(|it| read(it, Stream::Stderr, followers)),
        shown.map(|it| read(it, Stream::Terminal, followers)),
    ];
    let over = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let mut is_late = false;
    let status = tokio::select! {
        status = process.wait() => status.ok(),
        () = over => {
            process.group().signal(Signal::KILL);
            let _ = process.wait().await;
            is_late = true;
            None
        }
        _ = end => {
            process.group().signal(Signal::KILL);
            let _ = process.wait().await;
            None
        }
    };
    if has_terminal && let Some(leader) = process.group().leader() {
        end_session(leader);
    }
    if is_late {
        return ProcessEvent::TimedOut;
    }
    for task in reading.into_iter().flatten() {
        let _ = timeout(PIPES, task.join()).await;
    }
    ended(status)
}

fn ended(status: Option<ExitStatus>) -> ProcessEvent {
    match status {
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEvent::Exited(code),
            (None, signal) => ProcessEvent::Signalled(signal.unwrap_or(9)),
        },
        None => ProcessEvent::Signalled(9),
    }
}

fn read<R: AsyncRead + Unpin + Send + 'static>(
    mut from: R,
    stream: Stream,
    followers: &Followers,
) -> Task {
    let followers = Arc::clone(followers);
    task::spawn("output of a command", async move {
        let mut buffer = vec![0; PIECE];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let piece = buffer.get(..count).unwrap_or_default();
                    let event = ProcessEvent::Output(stream, Bytes::copy_from_slice(piece));
                    tell(&followers, event).await;
                }
            }
        }
    })
}

/// Sends an event to all followers. A slow reader slows the command down; one that is gone is dropped.
async fn tell(followers: &Followers, event: ProcessEvent) {
    let all = lock(followers).clone();
    for follower in &all {
        let _ = follower.send(event.clone()).await;
    }
    lock(followers).retain(|it| !it.is_closed());
}

impl Processes {
    /// Starts a command with the common settings, and follows it from its beginning.
    pub(super) fn spawn(
        &self,
        machine: &Machine,
        variables: &[(String, String)],
        request: ProcessRequest,
    ) -> Result<(u32, Events), ProcessError> {
        check_variables(&request.variables).map_err(ProcessError::Invalid)?;
        if lock(&self.running).len() >= PROCESSES {
            return Err(ProcessError::TooMany);
        }
        let wanted = request.cwd.as_deref().unwrap_or(HOME);
        let cwd = match machine.place(wanted) {
            Some(place) => {
                let path = place.path();
                let is_there = folder::open(&path).is_ok();
                is_there.then_some(path)
            }
            None if machine.is_apart() => Some(wanted.into()),
            None => None,
        };
        let cwd = cwd.ok_or_else(|| {
            ProcessError::Invalid(format!("cwd '{wanted}' does not exist in the sandbox"))
        })?;
        let mut variables = variables.to_vec();
        variables.retain(|(name, _)| !request.variables.iter().any(|(new, _)| new == name));
        variables.extend(request.variables.iter().cloned());
        let (input, lifetime) = match request.terminal {
            Some(_) => (CommandInput::Terminal, Lifetime::Terminal),
            None => (CommandInput::Pipes, Lifetime::Parent),
        };
        let command = machine.command(&request.argv, &variables, &cwd, input);
        let mut command = command.map_err(|error| ProcessError::Failed(error.to_string()))?;
        let failed = |error: std::io::Error| {
            let program = request.argv.first().map_or("", String::as_str);
            ProcessError::Failed(format!("`{program}` could not be started: {error}"))
        };
        let (terminal, shown) = connect(&mut command, &request).map_err(failed)?;
        let mut process = Supervised::spawn(command, lifetime).map_err(failed)?;
        let pid = process.child.id().unwrap_or_default();
        let (sender, events) = mpsc::channel(EVENTS);
        let followers: Followers = Arc::new(Mutex::new(vec![sender]));
        let (ends, end) = oneshot::channel();
        let limit = request.limit;
        let stdin = process.child.stdin.take();
        let running = Running {
            info: ProcessInfo { pid, request },
            group: process.group().clone(),
            is_apart: machine.is_apart(),
            stdin: stdin.map(|it| Arc::new(tokio::sync::Mutex::new(Some(it)))),
            terminal,
            followers: Arc::clone(&followers),
            ends: Some(ends),
        };
        lock(&self.running).insert(pid, running);
        let all = Arc::clone(&self.running);
        task::spawn("command of a program", async move {
            let last = watch(process, shown, &followers, limit, end).await;
            lock(&all).remove(&pid);
            tell(&followers, last).await;
        })
        .detach();
        Ok((pid, events))
    }

    /// The running commands.
    pub fn list(&self) -> Vec<ProcessInfo> {
        let running = lock(&self.running);
        running.values().map(|it| it.info.clone()).collect()
    }

    /// Their process numbers.
    pub(super) fn roots(&self) -> Vec<u32> {
        lock(&self.running).keys().copied().collect()
    }

    /// Follows a command from now on. Also returns its process number.
    ///
    /// # Errors
    /// [`ProcessError::Unknown`].
    pub fn follow(&self, which: &Which) -> Result<(u32, Events), ProcessError> {
        self.with(which, |running| {
            let (sender, events) = mpsc::channel(EVENTS);
            lock(&running.followers).push(sender);
            (running.info.pid, events)
        })
    }

    /// Sends input to a command.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn write(&self, which: &Which, to: Input, bytes: &[u8]) -> Result<(), ProcessError> {
        let (stdin, terminal) = self.with(which, |running| {
            (running.stdin.clone(), running.terminal.clone())
        })?;
        let failed = |error: std::io::Error| ProcessError::Failed(error.to_string());
        let closed = || ProcessError::Failed("its stdin is closed".to_owned());
        let writing = async {
            match (to, terminal) {
                (Input::Terminal, Some(terminal)) => {
                    terminal.write_all(bytes).await.map_err(failed)
                }
                (Input::Terminal, None) => Err(no_terminal()),
                (Input::Stdin, Some(_)) => Err(ProcessError::Invalid(
                    "the command has a terminal (PTY) and no stdin: send the input to that"
                        .to_owned(),
                )),
                (Input::Stdin, None) => {
                    let stdin = stdin.ok_or_else(closed)?;
                    let mut stdin = stdin.lock().await;
                    let stdin = stdin.as_mut().ok_or_else(closed)?;
                    stdin.write_all(bytes).await.map_err(failed)
                }
            }
        };
        let wrote = timeout(INPUT, writing).await;
        wrote.map_err(|_| ProcessError::Failed("it does not read its input".to_owned()))?
    }

    /// Resizes a command's terminal.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn resize(&self, which: &Which, size: TerminalSize) -> Result<(), ProcessError> {
        let terminal = self.with(which, |running| running.terminal.clone())?;
        let resized = terminal.ok_or_else(no_terminal)?.resize(size);
        resized.map_err(|error| ProcessError::Failed(error.to_string()))
    }

    /// Closes a command's stdin.
    ///
    /// # Errors
    /// [`ProcessError::Unknown`].
    pub async fn close_stdin(&self, which: &Which) -> Result<(), ProcessError> {
        let stdin = self.with(which, |running| running.stdin.clone())?;
        if let Some(stdin) = stdin {
            stdin.lock().await.take();
        }
        Ok(())
    }

    /// Asks a command to end, or kills it.
    ///
    /// # Errors
    /// [`ProcessError::Unknown`].
    pub fn signal(&self, which: &Which, kills: bool) -> Result<(), ProcessError> {
        self.with(which, |running| {
            if kills {
                if let Some(ends) = running.ends.take() {
                    let _ = ends.send(());
                }
            } else if !(running.is_apart && ask_inside(running.info.pid)) {
                running.group.signal(Signal::TERM);
            }
        })
    }

    /// Kills all commands, and waits until they have ended.
    pub(super) async fn end(&self) {
        for running in lock(&self.running).values_mut() {
            if let Some(ends) = running.ends.take() {
                let _ = ends.send(());
            }
        }
        let until = Instant::now() + END_WITHIN;
        while !lock(&self.running).is_empty() && Instant::now() < until {
            sleep(AGAIN).await;
        }
    }

    fn with<T>(
        &self,
        which: &Which,
        get: impl FnOnce(&mut Running) -> T,
    ) -> Result<T, ProcessError> {
        let mut running = lock(&self.running);
        let found = match which {
            Which::Pid(pid) => running.get_mut(pid),
            Which::Tag(tag) => running
                .values_mut()
                .find(|it| it.info.request.tag.as_ref() == Some(tag)),
        };
        found.map(get).ok_or_else(|| {
            ProcessError::Unknown(match which {
                Which::Pid(pid) => pid.to_string(),
                Which::Tag(tag) => tag.clone(),
            })
        })
    }
}

/// Connects a command to pipes or a terminal, and returns our ends.
fn connect(
    command: &mut Command,
    request: &ProcessRequest,
) -> std::io::Result<(Option<Arc<Terminal>>, Option<Receiver>)> {
    let Some(size) = request.terminal else {
        let stdin = if request.stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        return Ok((None, None));
    };
    let Ends {
        terminal,
        shown,
        theirs,
    } = Terminal::open(size)?;
    command
        .stdout(theirs.try_clone()?)
        .stderr(theirs.try_clone()?)
        .stdin(theirs);
    Ok((Some(Arc::new(terminal)), Some(shown)))
}

fn no_terminal() -> ProcessError {
    ProcessError::Invalid("the command has no terminal (PTY)".to_owned())
}

/// Identifies a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// By process number.
    Pid(u32),
    /// By its tag.
    Tag(String),
}

/// Sends SIGTERM to the command in the namespaces that the process `bubblewrap` holds: to its child's children.
fn ask_inside(bubblewrap: u32) -> bool {
    let children = |pid: u32| -> Vec<u32> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let text = text.unwrap_or_default();
        text.split_whitespace()
            .filter_map(|it| it.parse().ok())
            .collect()
    };
    let inside = children(bubblewrap).into_iter().flat_map(children);
    let inside = inside.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
    let mut asked = false;
    for pid in inside {
        asked |= kill_process(pid, Signal::TERM).is_ok();
    }
    asked
}
