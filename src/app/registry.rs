//! The sessions of one process: opened, resumed, listed, ended, each with its own directory and one writer.
//!
//! A front end with many sessions holds one [`Registry`]. The registry follows every session, so that a list costs
//! nothing and a session that ended by itself is gone from it. Nothing here knows how clients reach a session.

mod kernels;
mod live;
mod session_kernel;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::place::now;
use super::session;
use super::{Context, Lifetime, Notice, Notify, SessionSettings};
use crate::agent::sessions::{self, Found};
use crate::agent::store::{OpenError, Opened};
use crate::error::Failure;
use crate::task;
pub use kernels::{KernelRegistry, SharedKernel, StartError};
pub use live::{ClientGuard, LiveSession};
pub use watch::Activity;

/// How long a session may take to end before its kernels are killed.
const END_WITHIN: Duration = Duration::from_secs(30);
/// How often idle sessions are looked for, at most.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Sessions that ended are remembered, the latest so many.
const ENDED: usize = 1000;
/// Notices of a start that are kept for the client that started it.
const NOTICES: usize = 50;

/// What a registry keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Sessions at a time.
    pub sessions: usize,
    /// A session that nobody looks at and that does nothing ends after this; `None` is never.
    pub idle: Option<Duration>,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            sessions: 100,
            idle: None,
        }
    }
}

/// What a session is opened with.
#[derive(Debug, Default)]
pub struct OpenRequest {
    /// How it is to be.
    pub settings: SessionSettings,
    /// Where it works; `None` is the process's directory at its start.
    pub directory: Option<PathBuf>,
    /// Variables of its environment, besides those of the process at its start.
    pub variables: Vec<(String, String)>,
    /// The session that goes on; `None` is a new one.
    pub resume: Option<String>,
}

/// Why a session was not opened or ended.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There are too many.
    #[error("{limit} sessions run already, and no more are allowed at a time")]
    Full {
        /// How many may run.
        limit: usize,
    },
    /// The process ends.
    #[error("the server is shutting down")]
    Closing,
    /// No session of this id runs, or is stored.
    #[error("there is no session `{0}`")]
    Unknown(String),
    /// The session's files cannot be used.
    #[error(transparent)]
    NotOpened(#[from] OpenError),
    /// It could not be started.
    #[error("{0}")]
    Failed(Failure),
}

/// The sessions of this process; clones share them.
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

struct Shared {
    context: Context,
    limits: RegistryLimits,
    slots: Arc<Semaphore>,
    live: Mutex<BTreeMap<String, Arc<LiveSession>>>,
    ended: Mutex<VecDeque<EndedSession>>,
}

/// A session that ended while the process goes on, and was not resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSession {
    /// Its id.
    pub id: String,
    /// The client that ended it; `None` if it ended by itself, or because it did nothing for long.
    pub by: Option<String>,
}

impl Registry {
    /// An empty one. `context` is that of the process; each session gets its own with its directory. Raises this process's
    /// limit of open files, for a kernel takes about 28.
    pub fn new(context: Context, limits: RegistryLimits) -> Self {
        if let Err(error) = crate::child::raise_open_files() {
            tracing::warn!(%error, "the limit of open files stays as it is");
        }
        let registry = Self {
            shared: Arc::new(Shared {
                context,
                limits,
                slots: Arc::new(Semaphore::new(limits.sessions)),
                live: Mutex::default(),
                ended: Mutex::default(),
            }),
        };
        if let Some(idle) = limits.idle {
            registry.end_idle_after(idle);
        }
        registry
    }

    /// Opens a session. Returns it with what a person should know about its start. One that is to be resumed and runs here
    /// already is returned as it is.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn open(
        &self,
        request: OpenRequest,
    ) -> Result<(Arc<LiveSession>, Vec<Notice>), RegistryError> {
        if let Some(live) = request.resume.as_deref().and_then(|id| self.get(id)) {
            return Ok((live, Vec::new()));
        }
        let slot = self.slot()?;
        let (context, heard) = self.context_in(request.directory, request.variables);
        let (resumed, title) = match &request.resume {
            None => (None, None),
            Some(id) => {
                let (opened, title) = self.reopen(id).await?;
                (Some(opened), title)
            }
        };
        let settings = SessionSettings {
            lifetime: Lifetime::Conversation,
            ..request.settings
        };
        let started = session::start(&settings, resumed, &context).await;
        let session = started.map_err(RegistryError::Failed)?;
        let notices = heard.take();
        let live = self
            .enter(LiveSession::new(session, title.as_deref(), slot))
            .await?;
        Ok((live, notices))
    }

    /// A place for one more.
    fn slot(&self) -> Result<Slot, RegistryError> {
        let slots = Arc::clone(&self.shared.slots);
        slots.try_acquire_owned().map_err(|error| match error {
            tokio::sync::TryAcquireError::Closed => RegistryError::Closing,
            tokio::sync::TryAcquireError::NoPermits => RegistryError::Full {
                limit: self.shared.limits.sessions,
            },
        })
    }

    /// A session that runs.
    pub fn get(&self, id: &str) -> Option<Arc<LiveSession>> {
        self.live().get(id).cloned()
    }

    /// A session that ended here: whoever followed it is to know that it is over, and does not go on elsewhere.
    pub fn ended(&self, id: &str) -> Option<EndedSession> {
        let ended = lock(&self.shared.ended);
        ended.iter().find(|it| it.id == id).cloned()
    }

    /// All that run, by id.
    pub fn list(&self) -> Vec<Arc<LiveSession>> {
        self.live().values().cloned().collect()
    }

    /// All that are on disk, latest first; also those that run. Reads files: it takes time.
    pub fn stored(&self) -> Vec<Found> {
        sessions::list(&self.shared.context.paths.sessions())
    }

    /// What sessions start from.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// What it keeps to.
    pub fn limits(&self) -> RegistryLimits {
        self.shared.limits
    }

    /// Ends a session in good order; its files stay.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub async fn end(&self, id: &str) -> Result<(), RegistryError> {
        self.end_for(id, None).await
    }

    /// The same for the client `by`.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub async fn end_for(&self, id: &str, by: Option<&str>) -> Result<(), RegistryError> {
        let live = self.shared.leave(id, by);
        let live = live.ok_or_else(|| RegistryError::Unknown(id.to_owned()))?;
        end(&live).await;
        Ok(())
    }

    /// Ends all of them, and opens no more.
    pub async fn close(&self) {
        self.shared.slots.close();
        let live = std::mem::take(&mut *self.live());
        futures_util::future::join_all(live.values().map(|live| end(live))).await;
    }

    /// The context of a session that works in `directory`, and the notices of its start.
    fn context_in(
        &self,
        directory: Option<PathBuf>,
        variables: Vec<(String, String)>,
    ) -> (Context, Heard) {
        let mut context = self.shared.context.clone();
        let environment = &context.paths.environment;
        context.paths.environment = environment.with_variables(variables);
        if let Some(directory) = directory {
            let environment = &context.paths.environment;
            context.paths.environment = environment.in_directory(directory);
        }
        let heard = Heard::default();
        let taking = heard.clone();
        context.notify = Notify::new(move |notice| taking.push(notice));
        (context, heard)
    }

    async fn reopen(&self, id: &str) -> Result<(Opened, Option<String>), RegistryError> {
        let dir = self.shared.context.paths.sessions();
        let limits = self.shared.context.config.limits.resolve();
        let id = id.to_owned();
        let opening = tokio::task::spawn_blocking(move || {
            // An id becomes a file name.
            if !is_id(&id) || sessions::look(&dir, &id).is_none() {
                return Err(RegistryError::Unknown(id));
            }
            let title = sessions::look(&dir, &id);
            let title = title.and_then(|found| found.summary.name().map(str::to_owned));
            let mut opened = Opened::open(&dir, &id, limits, &now())?;
            if opened.mended.notebook_missing && !sessions::was_saved(&dir, &id) {
                // It was killed before there was one: nothing is missing.
                opened.mended.notebook_missing = false;
            }
            Ok((opened, title))
        });
        opening
            .await
            .unwrap_or_else(|error| Err(RegistryError::Failed(panicked(&error))))
    }

    async fn enter(&self, live: LiveSession) -> Result<Arc<LiveSession>, RegistryError> {
        let live = Arc::new(live);
        let is_closing = {
            let mut all = self.live();
            let is_closing = self.shared.slots.is_closed();
            if !is_closing {
                all.insert(live.id.clone(), Arc::clone(&live));
                lock(&self.shared.ended).retain(|it| it.id != live.id);
            }
            is_closing
        };
        if is_closing {
            end(&live).await;
            return Err(RegistryError::Closing);
        }
        let follower = (Arc::downgrade(&self.shared), Arc::clone(&live));
        task::spawn("registry", async move {
            let (shared, live) = follower;
            live.follow().await;
            // It ended by itself, or was ended.
            if let Some(shared) = shared.upgrade() {
                shared.leave(&live.id, None);
            }
            end(&live).await;
        })
        .detach();
        Ok(live)
    }

    fn end_idle_after(&self, idle: Duration) {
        let shared = Arc::downgrade(&self.shared);
        task::spawn("idle sessions", async move {
            loop {
                tokio::time::sleep(LOOK_EVERY.min(idle / 2).max(Duration::from_millis(50))).await;
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                let registry = Self { shared };
                for live in registry.list() {
                    if live.is_idle_for(idle) {
                        tracing::info!(id = %live.id, "an idle session ends");
                        // One that has just ended is what we want.
                        let _ = registry.end(&live.id).await;
                    }
                }
            }
        })
        .detach();
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<String, Arc<LiveSession>>> {
        lock(&self.shared.live)
    }
}

impl Shared {
    /// Takes a session out of those that run. It is remembered as ended, unless all end.
    fn leave(&self, id: &str, by: Option<&str>) -> Option<Arc<LiveSession>> {
        let mut all = lock(&self.live);
        let live = all.remove(id)?;
        if !self.slots.is_closed() {
            let mut ended = lock(&self.ended);
            if ended.len() >= ENDED {
                ended.pop_front();
            }
            ended.push_back(EndedSession {
                id: id.to_owned(),
                by: by.map(str::to_owned),
            });
        }
        Some(live)
    }
}

/// Whether `id` can be that of a session: it becomes a file name.
pub fn is_id(id: &str) -> bool {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !id.is_empty() && id.len() <= 64 && id.chars().all(is_safe)
}

async fn end(live: &LiveSession) {
    if let Some((session, _slot)) = live.take()
        && tokio::time::timeout(END_WITHIN, session.end())
            .await
            .is_err()
    {
        tracing::error!(id = %live.id, "a session did not end in time and was dropped");
    }
}

fn panicked(error: &tokio::task::JoinError) -> Failure {
    Failure::new(
        crate::error::FailureKind::Failed,
        format!("could not read the session: {error}"),
    )
}

/// Whole after every change, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps one of the places that sessions take.
type Slot = OwnedSemaphorePermit;

/// Notices of a start.
#[derive(Debug, Clone, Default)]
struct Heard(Arc<Mutex<Vec<Notice>>>);

impl Heard {
    fn push(&self, notice: Notice) {
        let mut notices = lock(&self.0);
        if notices.len() < NOTICES {
            notices.push(notice);
        }
    }

    fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut *lock(&self.0))
    }
}
