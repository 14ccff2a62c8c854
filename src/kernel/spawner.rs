//! The one thread that starts kernels. Linux ties the signal that a child gets with its parent's death to the *thread* that
//! forked: this one lives as long as the process, whatever becomes of runtimes and their workers (docs/adr/0008).

use std::io;
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;

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
                // Whoever gave up has its process killed with the answer.
                let _ = answer.send(command.spawn());
            }
        });
    Mutex::new(started.ok().map(|_| jobs))
});

/// Starts `command`; its process dies with this process.
pub(super) fn spawn(command: Command) -> io::Result<Child> {
    let gone = || io::Error::other("the thread that starts kernels is gone");
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
