//! Our handle on running namespaces. Processes in them are not our children, so their first process reports to us how
//! they ended ([`super::confine`]).

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{oneshot, watch};

use super::tier::CageKind;
use crate::child::{Group, Lifetime, Supervised};
use crate::kernel::host::ExitReason;
use crate::task::{self, Task};

/// How long creating the namespaces may take.
const START_WITHIN: Duration = Duration::from_secs(20);

/// Namespaces with a kernel in them. Dropping this ends everything in them, unless it is kept.
#[derive(Debug)]
pub(in crate::kernel) struct Cage {
    ended: Arc<watch::Sender<Ended>>,
    /// Process id of their first process, outside.
    first: Pid,
    kept: AtomicBool,
    /// Stdin of the first process for signals to the kernel, if they cannot be sent from outside.
    orders: Option<Mutex<ChildStdin>>,
    _reader: Task,
    // Killed and reaped with the cage.
    _bubblewrap: Supervised,
}

/// What has ended inside.
#[derive(Debug, Default)]
struct Ended {
    /// By process id inside; only watched processes.
    watched: HashMap<i32, Option<ExitReason>>,
    /// All processes, because the first one ended.
    all: bool,
}

/// One process of a cage.
#[derive(Debug)]
pub(in crate::kernel) struct Member {
    cage: Arc<Cage>,
    /// Its process id inside.
    inside: i32,
}

impl Cage {
    /// Runs bubblewrap and waits until the kernel's process exists. Returns the cage, the kernel's process id outside,
    /// and its stderr.
    ///
    /// # Errors
    /// Everything that bubblewrap or the program inside wrote to stderr.
    pub(in crate::kernel) async fn start(
        mut command: Command,
        lifetime: Lifetime,
        kind: CageKind,
    ) -> Result<(Member, Pid, Option<ChildStderr>), String> {
        command.stdout(Stdio::piped());
        if kind == CageKind::Gvisor {
            command.stdin(Stdio::piped());
        }
        let started = Supervised::spawn(command, lifetime);
        let mut process = started.map_err(|error| error.to_string())?;
        let mut starting = Starting(Some(process.group().clone()));
        let child = &mut process.child;
        let mut stderr = child.stderr.take();
        let stdout = child.stdout.take().ok_or("it has no stdout")?;
        let ended = Arc::new(watch::Sender::new(Ended::default()));
        let (sender, started) = oneshot::channel();
        let reader = task::spawn("cage", read(stdout, Arc::clone(&ended), sender));
        let started = tokio::time::timeout(START_WITHIN, started).await;
        let Ok(Ok(inside)) = started else {
            return Err(complaint(child, &mut stderr).await);
        };
        let (first, kernel) = match kind {
            CageKind::Namespaces => {
                let first = child.id().and_then(|id| children(id).into_iter().next());
                let first = first.ok_or("its processes cannot be found in /proc")?;
                let kernel = children(first.as_raw_nonzero().get().unsigned_abs())
                    .into_iter()
                    .find(|&pid| number_inside(pid) == Some(inside));
                (first, kernel.ok_or("the kernel ended at once")?)
            }
            // Everything inside ends with `runsc`, which stands for the kernel.
            CageKind::Gvisor => {
                let own = child.id().and_then(|id| i32::try_from(id).ok());
                let own = own.and_then(Pid::from_raw).ok_or("it ended at once")?;
                (own, own)
            }
        };
        starting.0 = None;
        let cage = Arc::new(Self {
            ended,
            first,
            kept: AtomicBool::new(lifetime == Lifetime::Itself),
            orders: child.stdin.take().map(Mutex::new),
            _reader: reader,
            _bubblewrap: process,
        });
        let member = match kind {
            CageKind::Namespaces => cage.member(kernel).ok_or("the kernel ended at once")?,
            CageKind::Gvisor => cage.watch(inside),
        };
        Ok((member, kernel, stderr))
    }

    /// Sends a signal to the kernel's process group, if that cannot be done from outside. Returns whether it was sent.
    pub(in crate::kernel) fn order(&self, signal: Signal) -> bool {
        let Some(orders) = &self.orders else {
            return false;
        };
        let stdin = orders.lock().unwrap_or_else(PoisonError::into_inner);
        // If the pipe is full, nobody reads it any more.
        let line = format!("signal {}\n", signal.as_raw());
        rustix::io::write(&*stdin, line.as_bytes()).is_ok()
    }

    /// Process id outside of the first process, with which all others end.
    pub(in crate::kernel) fn first(&self) -> u32 {
        self.first.as_raw_nonzero().get().unsigned_abs()
    }

    /// Marks the cage as no longer kept, because its kernel has ended.
    pub(in crate::kernel) fn release(&self) {
        self.kept.store(false, Ordering::Relaxed);
    }

    /// The process with id `pid` outside, if it runs in this cage.
    pub(in crate::kernel) fn member(self: &Arc<Self>, pid: Pid) -> Option<Member> {
        let inside = number_inside(pid).filter(|_| self.orders.is_none())?;
        let member = self.watch(inside);
        // If it ended before it was watched, it no longer exists.
        (number_inside(pid) == Some(inside) && member.is_alive()).then_some(member)
    }

    fn watch(self: &Arc<Self>, inside: i32) -> Member {
        self.ended.send_modify(|ended| {
            ended.watched.insert(inside, None);
        });
        Member {
            cage: Arc::clone(self),
            inside,
        }
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        if !*self.kept.get_mut() && !self.ended.borrow().all {
            // It has not been reaped: only bubblewrap, our child, does that.
            let _ = kill_process(self.first, Signal::KILL);
        }
    }
}

/// A bubblewrap that is still starting. Its child waits for it for ever and does not die with it yet, so both are
/// killed as a group.
struct Starting(Option<Group>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(group) = &self.0 {
            // It may have exited by itself.
            group.signal(Signal::KILL);
        }
    }
}

impl Member {
    pub(in crate::kernel) fn cage(&self) -> &Arc<Cage> {
        &self.cage
    }

    pub(in crate::kernel) fn is_alive(&self) -> bool {
        self.end_in(&self.cage.ended.borrow()).is_none()
    }

    /// Waits for its end. Cancel-safe.
    pub(in crate::kernel) async fn wait(&self) -> ExitReason {
        let mut ended = self.cage.ended.subscribe();
        let told = ended.wait_for(|ended| self.end_in(ended).is_some()).await;
        told.ok()
            .and_then(|ended| self.end_in(&ended))
            .unwrap_or(ExitReason::Unknown)
    }

    fn end_in(&self, ended: &Ended) -> Option<ExitReason> {
        let own = ended.watched.get(&self.inside).cloned().flatten();
        own.or_else(|| ended.all.then_some(ExitReason::Signalled(9)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let inside = self.inside;
        self.cage.ended.send_modify(|ended| {
            ended.watched.remove(&inside);
        });
    }
}

/// Reads the reports until the first process ends.
async fn read(
    stdout: ChildStdout,
    ended: Arc<watch::Sender<Ended>>,
    started: oneshot::Sender<i32>,
) {
    let mut lines = BufReader::new(stdout).lines();
    let mut started = Some(started);
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<i32>().ok();
        match words[..] {
            ["started", pid] => {
                if let (Some(started), Some(pid)) = (started.take(), number(pid)) {
                    let _ = started.send(pid);
                }
            }
            [pid, how, what] => {
                let (Some(pid), Some(what)) = (number(pid), number(what)) else {
                    continue;
                };
                let reason = match how {
                    "exited" => ExitReason::Exited(what),
                    _ => ExitReason::Signalled(what),
                };
                ended.send_if_modified(|ended| {
                    let watched = ended.watched.get_mut(&pid);
                    let is_watched = watched.is_some();
                    if let Some(watched) = watched {
                        *watched = Some(reason);
                    }
                    is_watched
                });
            }
            _ => {}
        }
    }
    ended.send_modify(|ended| ended.all = true);
}

/// Why starting failed, from stderr.
async fn complaint(child: &mut Child, stderr: &mut Option<ChildStderr>) -> String {
    use tokio::io::AsyncReadExt as _;
    let _ = child.start_kill();
    let mut text = Vec::new();
    if let Some(stderr) = stderr {
        let mut stderr = stderr.take(4096);
        let reading = stderr.read_to_end(&mut text);
        let _ = tokio::time::timeout(Duration::from_secs(2), reading).await;
    }
    let _ = child.wait().await;
    match String::from_utf8_lossy(&text).trim() {
        "" => "could not create the sandbox".to_owned(),
        text => text.to_owned(),
    }
}

/// The children of a process (proc(5), `/proc/pid/task/tid/children`).
fn children(pid: u32) -> Vec<Pid> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let text = text.unwrap_or_default();
    let numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}

/// Id of a process in the innermost pid namespace, if that is not ours and the process runs.
fn number_inside(pid: Pid) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    if field("State:").is_none_or(|state| state.trim_start().starts_with(['Z', 'X'])) {
        return None;
    }
    let numbers = field("NSpid:")?.split_whitespace().skip(1);
    numbers.last()?.parse().ok()
}
