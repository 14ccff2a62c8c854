//! The sessions of one process: opens, resumes, lists and ends them. Each has its own directory and one writer.
//!
//! A front end with many sessions holds one [`Registry`]. The registry follows every session, so a list costs nothing,
//! and a session that ends by itself is removed. Nothing here knows how clients reach a session.

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
/// Maximum time between searches for idle sessions.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How many ended sessions are remembered, latest first.
const ENDED: usize = 1000;
/// How many notices of a start are kept for the client that requested it.
const NOTICES: usize = 50;

/// The limits of a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Maximum sessions at a time.
    pub sessions: usize,
    /// An idle session without viewers ends after this time; `None`: never.
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

/// The parameters of a session to open.
#[derive(Debug, Default)]
pub struct OpenRequest {
    /// Its settings.
    pub settings: SessionSettings,
    /// Its directory; `None`: the process's directory at its start.
    pub directory: Option<PathBuf>,
    /// Environment variables, in addition to those of the process at its start.
    pub variables: Vec<(String, String)>,
    /// The session to resume; `None`: a new one.
    pub resume: Option<String>,
}

/// Why a session could not be opened or ended.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There are too many sessions.
    #[error("{limit} sessions run already, and no more are allowed at a time")]
    Full {
        /// How many may run.
        limit: usize,
    },
    /// The process is ending.
    #[error("the server is shutting down")]
    Closing,
    /// No session with this id is running or stored.
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

/// A session that ended while the process keeps running, and was not resumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedSession {
    /// Its id.
    pub id: String,
    /// The client that ended it; `None` if it ended by itself or because it was idle.
    pub by: Option<String>,
}

impl Registry {
    /// An empty registry. `context` is that of the process; each session gets a copy with its own directory. Raises
    /// this process's limit of open files, because a kernel takes about 28.
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

    /// Opens a session. Returns it with notices about its start. A session to resume that is already running here is
    /// returned as it is.
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

    /// Reserves a place for one more session.
    fn slot(&self) -> Result<Slot, RegistryError> {
        let slots = Arc::clone(&self.shared.slots);
        slots.try_acquire_owned().map_err(|error| match error {
            tokio::sync::TryAcquireError::Closed => RegistryError::Closing,
            tokio::sync::TryAcquireError::NoPermits => RegistryError::Full {
                limit: self.shared.limits.sessions,
            },
        })
    }

    /// The running session `id`.
    pub fn get(&self, id: &str) -> Option<Arc<LiveSession>> {
        self.live().get(id).cloned()
    }

    /// A session that ended here, so that its followers learn that it is over and do not continue it elsewhere.
    pub fn ended(&self, id: &str) -> Option<EndedSession> {
        let ended = lock(&self.shared.ended);
        ended.iter().find(|it| it.id == id).cloned()
    }

    /// All running sessions, by id.
    pub fn list(&self) -> Vec<Arc<LiveSession>> {
        self.live().values().cloned().collect()
    }

    /// All sessions on disk, latest first, including running ones. Reads files, so it takes time.
    pub fn stored(&self) -> Vec<Found> {
        sessions::list(&self.shared.context.paths.sessions())
    }

    /// The context from which sessions start.
    pub fn context(&self) -> &Context {
        &self.shared.context
    }

    /// The registry's limits.
    pub fn limits(&self) -> RegistryLimits {
        self.shared.limits
    }

    /// Ends a session cleanly; its files stay.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub async fn end(&self, id: &str) -> Result<(), RegistryError> {
        self.end_for(id, None).await
    }

    /// The same on behalf of the client `by`.
    ///
    /// # Errors
    /// [`RegistryError::Unknown`].
    pub async fn end_for(&self, id: &str, by: Option<&str>) -> Result<(), RegistryError> {
        let live = self.shared.leave(id, by);
        let live = live.ok_or_else(|| RegistryError::Unknown(id.to_owned()))?;
        end(&live).await;
        Ok(())
    }

    /// Ends all sessions, and opens no more.
    pub async fn close(&self) {
        self.shared.slots.close();
        let live = std::mem::take(&mut *self.live());
        futures_util::future::join_all(live.values().map(|live| end(live))).await;
    }

    /// The context for a session in `directory`, with the collected notices of its start.
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
            // The id becomes a file name.
            if !is_id(&id) || sessions::look(&dir, &id).is_none() {
                return Err(RegistryError::Unknown(id));
            }
            let title = sessions::look(&dir, &id);
            let title = title.and_then(|found| found.summary.name().map(str::to_owned));
            let mut opened = Opened::open(&dir, &id, limits, &now())?;
            if opened.mended.notebook_missing && !sessions::was_saved(&dir, &id) {
                // The session was killed before it had a notebook: nothing is missing.
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
                        // If it has just ended, that is what we want.
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
    /// Removes a session from the running ones. It is remembered as ended, unless all sessions end.
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

/// Whether `id` can be a session's id: it becomes a file name.
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

/// Consistent after every change, even after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reserves one of the places for sessions.
type Slot = OwnedSemaphorePermit;

/// Collects the notices of a start.
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
