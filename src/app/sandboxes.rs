//! Sandboxes for programs that bring their own model: a directory, and the kernels and commands that share it, for a
//! limited time.
//!
//! The term is E2B's. Code in a sandbox runs in contexts, each with its own kernel. It has no session, so no notebook
//! is written. Code has the same permissions as in sessions of programs. Nothing here knows a wire.
//!
//! Invariants: a sandbox cannot reach the directory, kernels or processes of another one; all parts of a sandbox end
//! with it.

mod context;
mod execution;
mod files;
mod language;
mod machine;
mod process;
mod running;
mod sandbox;
mod snapshots;
mod spares;
mod terminal;
mod watching;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;

use super::{Context, SessionSettings};
use crate::error::Failure;
use crate::kernel::{KernelState, remove_tree};
use crate::task;
pub use context::{CodeContext, ContextError, ContextInfo};
pub use execution::{CodeRun, RunEvent};
pub use files::{Entry, EntryType, FileError, Files, Upload};
use machine::Machine;
pub use machine::{HOME, Size};
pub use process::{
    Events, Input, ProcessError, ProcessEvent, ProcessInfo, ProcessRequest, Processes, Stream,
    Which,
};
pub use sandbox::{ProgramSandbox, SandboxState};
use snapshots::{Snapshot, Snapshots};
pub use snapshots::{SnapshotError, SnapshotInfo};
use spares::{Pace, Spare, Spares};
pub use terminal::TerminalSize;
pub use watching::{Change, ChangeType, Watch, Watches};

/// The name of this process's directories: its number, and a unique part.
static RUN: LazyLock<String> = LazyLock::new(|| {
    let run = uuid::Uuid::new_v4().simple();
    format!("{}-{run}", std::process::id())
});

/// Maximum lifetime that can be set at once.
pub const LONGEST: Duration = Duration::from_hours(24);
/// Maximum characters of all names and values in metadata and variables.
const TEXT: usize = 64 << 10;

/// The sandboxes of a process; clones share them.
#[derive(Clone)]
pub struct Sandboxes {
    shared: Arc<Shared>,
}

struct Shared {
    context: Context,
    settings: SessionSettings,
    /// The directory for this process's sandboxes.
    root: PathBuf,
    most: usize,
    slots: Arc<Semaphore>,
    all: Mutex<BTreeMap<String, Arc<ProgramSandbox>>>,
    snapshots: Arc<Snapshots>,
    spares: Arc<Spares<SpareSandbox>>,
}

/// A directory with a running Python kernel.
struct SpareSandbox {
    /// The future id of its sandbox, which is the name of its directory.
    id: String,
    machine: Arc<Machine>,
    context: Arc<CodeContext>,
}

impl Spare for SpareSandbox {
    fn lives(&self) -> bool {
        let kernel = self.context.kernel();
        kernel.is_some_and(|it| !matches!(it.state(), KernelState::Dead(_)))
    }

    async fn end(&self) {
        self.context.end().await;
        self.machine.remove().await;
    }
}

/// The parameters of a new sandbox.
#[derive(Debug, Clone, Default)]
pub struct NewSandbox {
    /// The program's name for its kind: a snapshot, otherwise all kinds are alike.
    pub template: String,
    /// Its lifetime; `None`: unlimited.
    pub lifetime: Option<Duration>,
    /// Data that its program attaches to it.
    pub metadata: BTreeMap<String, String>,
    /// Environment variables for its code.
    pub variables: Vec<(String, String)>,
    /// Whether it is paused at the end of its lifetime, instead of ended.
    pub pauses: bool,
    /// Its id, if a certain one is wanted.
    pub id: Option<String>,
}

/// Why a sandbox could not be created or used.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There are too many sandboxes.
    #[error("{limit} sandboxes run already, and no more are allowed at a time")]
    Full {
        /// How many may run.
        limit: usize,
    },
    /// The process is ending.
    #[error("the server is shutting down")]
    Closing,
    /// It does not exist, or its lifetime is over.
    #[error("sandbox \"{0}\" doesn't exist or has ended")]
    Unknown(String),
    /// It is already paused.
    #[error("sandbox \"{0}\" is paused")]
    Paused(String),
    /// The snapshot to start from does not exist.
    #[error("snapshot \"{0}\" doesn't exist")]
    NoSnapshot(String),
    /// Its files could not be stored or copied.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// It could not be started.
    #[error("{0}")]
    Failed(Failure),
}

impl Sandboxes {
    /// Sandboxes with the permissions of `settings`, at most `most` at a time.
    pub fn new(context: Context, settings: SessionSettings, most: usize) -> Self {
        let dir = context.paths.data.join("sandboxes");
        let root = dir.join(&*RUN);
        // Nobody waits for it, and the next process retries what failed.
        drop(tokio::task::spawn_blocking(move || remove_stale(&dir)));
        let snapshots = Arc::new(Snapshots::new(root.join("snapshots")));
        Self {
            shared: Arc::new(Shared {
                context,
                settings,
                root,
                snapshots,
                spares: Arc::new(Spares::new(Pace::default())),
                most,
                slots: Arc::new(Semaphore::new(most)),
                all: Mutex::default(),
            }),
        }
    }

    /// Creates a sandbox. Its Python kernel starts in the background.
    ///
    /// # Errors
    /// [`SandboxError`].
    pub async fn create(&self, new: NewSandbox) -> Result<Arc<ProgramSandbox>, SandboxError> {
        check(&new)?;
        let files = self.shared.snapshots.get(&new.template);
        if files.is_none() && new.template.ends_with(snapshots::TAG) {
            return Err(SandboxError::NoSnapshot(new.template));
        }
        self.begin(new, files).await
    }

    async fn begin(
        &self,
        new: NewSandbox,
        files: Option<Arc<Snapshot>>,
    ) -> Result<Arc<ProgramSandbox>, SandboxError> {
        let slots = Arc::clone(&self.shared.slots);
        let slot = slots.try_acquire_owned().map_err(|error| match error {
            tokio::sync::TryAcquireError::Closed => SandboxError::Closing,
            tokio::sync::TryAcquireError::NoPermits => SandboxError::Full {
                limit: self.shared.most,
            },
        })?;
        let is_only_one = new.id.is_some();
        let spare = if is_only_one {
            None
        } else {
            self.shared.spares.take().await
        };
        let (id, machine, warm) = if let Some(it) = spare {
            (it.id, it.machine, Some(it.context))
        } else {
            let id = new.id.clone().unwrap_or_else(new_id);
            (id.clone(), self.shared.machine(&id).await?, None)
        };
        if let Some(context) = &warm {
            context.set_variables(new.variables.clone()).await;
        }
        let sandbox = ProgramSandbox::new(id, new, Arc::clone(&machine), warm.as_ref(), slot);
        if let Some(files) = files {
            let dirs = machine.dirs().clone();
            let restored = blocking(move || files.restore(&dirs)).await;
            if let Err(error) = restored {
                sandbox.end().await;
                return Err(error);
            }
        }
        let sandbox = Arc::new(sandbox);
        let (known, is_closing) = {
            let mut all = self.all();
            let known = all.get(sandbox.id()).cloned();
            if known.is_none() {
                all.insert(sandbox.id().to_owned(), Arc::clone(&sandbox));
            }
            (known, self.shared.slots.is_closed())
        };
        if is_closing {
            self.kill(sandbox.id()).await;
            return Err(SandboxError::Closing);
        }
        // Two requests for the same id came at once.
        if let Some(known) = known {
            return Ok(known);
        }
        self.watch(&sandbox);
        sandbox.warm_up();
        if !is_only_one {
            let shared = Arc::downgrade(&self.shared);
            self.shared.spares.refill(move || {
                let shared = shared.clone();
                async move { shared.upgrade()?.spare().await }
            });
        }
        Ok(sandbox)
    }

    /// Creates sandboxes with a copy of the files of the sandbox `id`, which keeps running.
    ///
    /// # Errors
    /// [`SandboxError`], also for each new one.
    pub async fn fork(
        &self,
        id: &str,
        count: usize,
        lifetime: Duration,
    ) -> Result<Vec<Result<Arc<ProgramSandbox>, SandboxError>>, SandboxError> {
        if count == 0 || count > self.shared.most {
            let most = self.shared.most;
            let message = format!("a sandbox has between 1 and {most} forks at a time");
            return Err(SandboxError::Invalid(message));
        }
        let of = self.get(id)?;
        let info = SnapshotInfo {
            id: String::new(),
            name: None,
            of: id.to_owned(),
        };
        let (snapshots, dirs) = (Arc::clone(&self.shared.snapshots), of.dirs());
        let files = Arc::new(blocking(move || snapshots.copy(&dirs, info)).await?);
        // Its directories were removed with it.
        self.get(id)?;
        let mut forks = Vec::new();
        for _ in 0..count {
            let made = self.begin(of.like(lifetime), Some(Arc::clone(&files)));
            forks.push(made.await);
        }
        // Removal takes as long as copying.
        drop(tokio::task::spawn_blocking(move || drop(files)));
        Ok(forks)
    }

    /// Stores the current files of the sandbox `id`, so that others can start from them.
    ///
    /// # Errors
    /// [`SandboxError`].
    pub async fn snapshot(
        &self,
        id: &str,
        name: Option<String>,
    ) -> Result<SnapshotInfo, SandboxError> {
        let of = self.get(id)?;
        let snapshots = Arc::clone(&self.shared.snapshots);
        let made = blocking(move || snapshots.make(&of.dirs(), of.id(), name)).await?;
        if let Err(gone) = self.get(id) {
            self.delete_snapshot(&made.id).await;
            return Err(gone);
        }
        Ok(made)
    }

    /// The snapshots, by name.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.shared.snapshots.list()
    }

    /// Removes a snapshot; sandboxes that started from it stay. Returns `false` if there is no such snapshot.
    pub async fn delete_snapshot(&self, id: &str) -> bool {
        let (snapshots, id) = (Arc::clone(&self.shared.snapshots), id.to_owned());
        let deleted = tokio::task::spawn_blocking(move || snapshots.delete(&id));
        deleted.await.unwrap_or(false)
    }

    /// The sandbox `id`, whatever its state.
    ///
    /// # Errors
    /// [`SandboxError::Unknown`].
    pub fn get(&self, id: &str) -> Result<Arc<ProgramSandbox>, SandboxError> {
        let found = self.all().get(id).cloned();
        found.ok_or_else(|| SandboxError::Unknown(id.to_owned()))
    }

    /// All sandboxes, latest first.
    pub fn list(&self) -> Vec<Arc<ProgramSandbox>> {
        let mut all: Vec<_> = self.all().values().cloned().collect();
        all.sort_by_key(|it| (it.started(), it.id().to_owned()));
        all.reverse();
        all
    }

    /// Ends a sandbox with all its processes and files. Returns `false` if there is no such sandbox.
    pub async fn kill(&self, id: &str) -> bool {
        let removed = self.all().remove(id);
        let Some(sandbox) = removed else {
            return false;
        };
        sandbox.end().await;
        true
    }

    /// Ends all sandboxes, and creates no more.
    pub async fn close(&self) {
        self.shared.slots.close();
        self.shared.spares.close().await;
        let all = std::mem::take(&mut *self.all());
        futures_util::future::join_all(all.values().map(|it| it.end())).await;
        let snapshots = Arc::clone(&self.shared.snapshots);
        let _ = tokio::task::spawn_blocking(move || snapshots.clear()).await;
        // This only removes an empty directory.
        let _ = std::fs::remove_dir(&self.shared.root);
    }

    /// Pauses or ends a sandbox at the end of its lifetime.
    fn watch(&self, sandbox: &Arc<ProgramSandbox>) {
        let shared = Arc::downgrade(&self.shared);
        let sandbox = Arc::downgrade(sandbox);
        task::spawn("sandbox's time", async move {
            loop {
                let Some(ending) = sandbox.upgrade().map(|it| it.ending()) else {
                    return;
                };
                if !ending.wait().await {
                    return;
                }
                let (Some(shared), Some(sandbox)) = (shared.upgrade(), sandbox.upgrade()) else {
                    return;
                };
                if !sandbox.is_over() {
                    continue;
                }
                if sandbox.pauses() {
                    sandbox.pause().await;
                    continue;
                }
                tracing::info!(id = sandbox.id(), "a sandbox's time is over");
                Self { shared }.kill(sandbox.id()).await;
                return;
            }
        })
        .detach();
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<ProgramSandbox>>> {
        lock(&self.shared.all)
    }
}

impl Shared {
    /// The parts of the sandbox `id`.
    async fn machine(&self, id: &str) -> Result<Arc<Machine>, SandboxError> {
        let directory = self.root.join(id);
        let made = Machine::make(&self.context, &self.settings, &directory).await;
        Ok(Arc::new(made.map_err(SandboxError::Failed)?))
    }

    /// Makes a spare sandbox with its kernel.
    async fn spare(&self) -> Option<SpareSandbox> {
        let id = new_id();
        let machine = self.machine(&id).await.ok()?;
        let name = uuid::Uuid::new_v4().to_string();
        let (language, home) = (language::normal(None), HOME.to_owned());
        let own = Arc::clone(&machine);
        let context = CodeContext::new(name, language, home, own, Vec::new());
        // The first code of a sandbox reports why it fails.
        let Ok(context) = context else {
            machine.remove().await;
            return None;
        };
        let spare = SpareSandbox {
            id,
            machine,
            context: Arc::new(context),
        };
        if let Err(error) = spare.context.start().await {
            tracing::info!(%error, "a spare sandbox could not be started");
            spare.end().await;
            return None;
        }
        Some(spare)
    }
}

/// Copies files on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SnapshotError> + Send + 'static,
) -> Result<T, SandboxError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.map_err(|error| SnapshotError::Failed(std::io::Error::other(error)))?;
    Ok(done?)
}

/// Removes the sandbox directories of processes that were killed.
fn remove_stale(dir: &Path) {
    let own = rustix::process::getpid();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|it| it.split_once('-')?.0.parse().ok());
        let Some(process) = process.and_then(rustix::process::Pid::from_raw) else {
            continue;
        };
        // The next process of a container may have the same number as the one before.
        let is_gone = if process == own {
            name.to_str() != Some(&*RUN)
        } else {
            rustix::process::test_kill_process(process) == Err(rustix::io::Errno::SRCH)
        };
        if is_gone {
            remove(&entry.path());
        }
    }
}

fn remove(dir: &Path) {
    // Links are removed, not followed.
    if let Err(error) = remove_tree(dir)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "a sandbox's directory could not be removed");
    }
}

fn check(new: &NewSandbox) -> Result<(), SandboxError> {
    let metadata = new.metadata.iter();
    let variables = new.variables.iter().map(|(name, value)| (name, value));
    let length = |(name, value): (&String, &String)| name.len() + value.len();
    if metadata.chain(variables).map(length).sum::<usize>() > TEXT {
        return Err(SandboxError::Invalid(format!(
            "metadata and environment variables have more than {TEXT} characters"
        )));
    }
    language::check_variables(&new.variables).map_err(SandboxError::Invalid)
}

/// As long as E2B's ids, and unguessable.
fn new_id() -> String {
    let id = uuid::Uuid::new_v4().simple().to_string();
    format!("i{id}")
}

/// Consistent after every change, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A time in ISO 8601, with microseconds.
pub fn moment(time: SystemTime) -> String {
    let time = jiff::Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}
