//! Processes that live on beside us and are watched: kernels, the model server, the holder of databases.
//!
//! One thread starts them all. Linux ties the signal that a child gets with its parent's death to the *thread* that
//! forked: this one lives as long as the process, whatever becomes of runtimes and their workers (docs/adr/0008).
//!
//! Programs that are asked something and end are in [`crate::program`].

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, mpsc};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getrlimit, ioctl_tiocsctty, kill_process_group, setrlimit,
};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// When a process ends, if nobody ends it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// With us, however we end: the operating system sees to it. Linux only; elsewhere the process has to look for its
    /// parent itself.
    Parent,
    /// The same. It has a session of its own, whose terminal is its stdin. A shell makes groups in there that it does not
    /// end with.
    Terminal,
    /// When it sees its stdin close. Killed when its [`Supervised`] is dropped.
    Stdin,
    /// When it wants to. It has a session of its own, so that it does not go with the terminal either.
    Itself,
}

/// A process in a group of its own. Dropping it kills the group, unless it lives for [`Lifetime::Itself`].
#[derive(Debug)]
pub(crate) struct Supervised {
    /// Its pipes can be taken from it.
    pub(crate) child: Child,
    group: Group,
    lifetime: Lifetime,
}

/// The process group of a [`Supervised`], for others who may signal it.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    leader: Option<Pid>,
    /// Whether its leader has been collected: the id may be another's soon.
    is_over: Arc<AtomicBool>,
}

impl Supervised {
    /// Starts `command`. Takes about a millisecond, in which the thread waits.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn spawn(mut command: Command, lifetime: Lifetime) -> io::Result<Self> {
        command.kill_on_drop(lifetime != Lifetime::Itself);
        match lifetime {
            Lifetime::Parent | Lifetime::Stdin => {
                command.process_group(0);
            }
            // A session begins with a group of its own.
            Lifetime::Terminal | Lifetime::Itself => {}
        }
        before_it_runs(&mut command, lifetime);
        let child = on_the_thread(command)?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok());
        Ok(Self {
            group: Group {
                leader: leader.and_then(Pid::from_raw),
                is_over: Arc::default(),
            },
            child,
            lifetime,
        })
    }

    /// Its group, which has the id of the process.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Waits for its end, and ends what it left in its group. Cancel-safe.
    ///
    /// # Errors
    /// The operating system does not say how it ended.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await;
        self.group.signal(Signal::KILL);
        self.group.is_over.store(true, Ordering::Relaxed);
        status
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let runs = matches!(self.child.try_wait(), Ok(None));
        if runs && self.lifetime != Lifetime::Itself {
            self.group.signal(Signal::KILL);
        }
        self.group.is_over.store(true, Ordering::Relaxed);
    }
}

impl Group {
    /// Its id, as long as its leader was not collected at once.
    pub(crate) fn leader(&self) -> Option<Pid> {
        self.leader
    }

    /// Sends `signal` to all of it. A group that is gone is left alone.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader
            && !self.is_over.load(Ordering::Relaxed)
        {
            let _ = kill_process_group(leader, signal);
        }
    }
}

/// Has the process join control groups before it runs, by these files of theirs. Where that is
/// refused it runs without them.
///
/// # Errors
/// A path has a zero byte.
pub(crate) fn join_groups(command: &mut Command, files: &[PathBuf]) -> io::Result<()> {
    let files = files
        .iter()
        .map(|file| CString::new(file.as_os_str().as_bytes()));
    let files = files.collect::<Result<Vec<_>, _>>()?;
    if !files.is_empty() {
        joins_before_it_runs(command, files);
    }
    Ok(())
}

/// A command, the runtime that watches its process, and where the process goes.
type Job = (Command, Handle, mpsc::SyncSender<io::Result<Child>>);

/// The thread's inbox: bounded in fact, because each sender waits for its answer.
static SPAWNER: LazyLock<Mutex<Option<mpsc::Sender<Job>>>> = LazyLock::new(|| {
    let (jobs, inbox) = mpsc::channel::<Job>();
    let started = std::thread::Builder::new()
        .name("sponde-spawner".to_owned())
        .spawn(move || {
            while let Ok((mut command, runtime, answer)) = inbox.recv() {
                let _runtime = runtime.enter();
                // A caller that gave up has its process killed with the answer.
                let _ = answer.send(command.spawn());
            }
        });
    Mutex::new(started.ok().map(|_| jobs))
});

fn on_the_thread(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts processes is gone");
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let (answer, answered) = mpsc::sync_channel(1);
    {
        let spawner = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        let jobs = spawner.as_ref().ok_or_else(gone)?;
        jobs.send((command, runtime, answer)).map_err(|_| gone())?;
    }
    // A fork: about a millisecond.
    answered.recv().map_err(|_| gone())?
}

#[expect(
    unsafe_code,
    reason = "pre_exec is the only way to join before anything of it runs, without one more program in between"
)]
fn joins_before_it_runs(command: &mut Command, files: Vec<CString>) {
    // SAFETY: between fork and exec only async-signal-safe system calls are made: open, write and close, through
    // rustix, which neither allocate nor lock.
    unsafe {
        command.pre_exec(move || {
            for file in &files {
                let opened = open(
                    file.as_c_str(),
                    OFlags::WRONLY | OFlags::CLOEXEC,
                    Mode::empty(),
                );
                let _ = opened.and_then(|file| rustix::io::write(&file, b"0"));
            }
            Ok(())
        });
    }
}

#[expect(
    unsafe_code,
    reason = "pre_exec is the only way to run prctl, setsid or setrlimit in the child"
)]
fn before_it_runs(command: &mut Command, lifetime: Lifetime) {
    if lifetime == Lifetime::Stdin {
        return;
    }
    let parent = rustix::process::getpid();
    let open_files = OPEN_FILES.get().copied();
    // SAFETY: between fork and exec only async-signal-safe system calls are made: setrlimit, setsid, ioctl, prctl and
    // getppid, through rustix, which neither allocate nor lock.
    unsafe {
        command.pre_exec(move || {
            if let Some(open_files) = open_files {
                setrlimit(Resource::Nofile, open_files)?;
            }
            if lifetime == Lifetime::Itself {
                rustix::process::setsid()?;
                return Ok(());
            }
            if lifetime == Lifetime::Terminal {
                rustix::process::setsid()?;
                ioctl_tiocsctty(rustix::stdio::stdin())?;
            }
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() == Some(parent) {
                Ok(())
            } else {
                // The parent went before the call above could take effect.
                Err(io::Error::from_raw_os_error(
                    rustix::io::Errno::SRCH.raw_os_error(),
                ))
            }
        });
    }
}

/// Open files that are asked for, if the system allows so many.
const MOST_OPEN_FILES: u64 = 1 << 20;

/// The limit of open files that this process was started with, if it was raised since.
static OPEN_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files of this process to the hard one: 1024, the usual one, ends a server at 35 kernels.
/// What is started here gets the old one back, for programs that use `select` cannot count further.
///
/// # Errors
/// What the operating system said; the limit stays as it is then.
pub(crate) fn raise_open_files() -> io::Result<()> {
    let before = getrlimit(Resource::Nofile);
    let most = before
        .maximum
        .map_or(MOST_OPEN_FILES, |hard| hard.min(MOST_OPEN_FILES));
    if before.current.is_none_or(|soft| soft >= most) || OPEN_FILES.set(before).is_err() {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(most),
        ..before
    };
    Ok(setrlimit(Resource::Nofile, raised)?)
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// The signal goes with the thread that forked: a child of one that has ended would be killed at once.
    #[test]
    fn a_process_outlives_the_thread_that_asked_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let handle = runtime.handle().clone();
        let asking = std::thread::spawn(move || {
            let _runtime = handle.enter();
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            Supervised::spawn(command, Lifetime::Parent).unwrap()
        });
        let mut process = asking.join().unwrap();
        let child = &mut process.child;
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        runtime.block_on(async {
            stdin.write_all(b"still here").await.unwrap();
            drop(stdin);
            let mut text = String::new();
            stdout.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "still here");
            assert!(process.wait().await.unwrap().success());
        });
    }

    #[tokio::test]
    async fn what_it_left_in_its_group_ends_with_it() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & echo $!"]);
        command.stdout(Stdio::piped());
        let mut process = Supervised::spawn(command, Lifetime::Stdin).unwrap();
        let mut stdout = process.child.stdout.take().unwrap();
        assert!(process.wait().await.unwrap().success());
        // The pipe is open as long as one of them lives.
        let mut text = String::new();
        stdout.read_to_string(&mut text).await.unwrap();
        assert!(text.trim().parse::<i32>().is_ok(), "{text}");
    }
}
