//! Kernels for programs that bring their own front end: those of running sessions, and others without a session. The
//! latter start with the same sandbox as the server's sessions, and count towards the same limit.
//!
//! A kernel without a session lives until a client ends it, or until no client was connected for the registry's idle
//! time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::session_kernel::SessionKernel;
use super::{LOOK_EVERY, LiveSession, Registry, RegistryError, Slot, lock};
use crate::agent::Command;
use crate::app::kernels::{find_kernel, launch_options};
use crate::app::remote_kernels::{self, RemoteKernels};
use crate::app::sandbox::{self, CodeOf};
use crate::app::{Context, SessionSettings};
use crate::error::Failure;
use crate::kernel::{
    Hub, HubActivity, HubClient, HubOwner, Kernel, KernelError, KernelSource, LaunchOptions,
    Sandbox,
};
use crate::task;

/// The kernels that programs can connect to; clones share them.
#[derive(Clone)]
pub struct KernelRegistry {
    registry: Registry,
    settings: SessionSettings,
    kernels: Arc<Mutex<BTreeMap<String, Arc<SharedKernel>>>>,
}

/// A kernel that any number of clients can use.
pub struct SharedKernel {
    /// Its id, a UUID. A session's kernel has the same id each time the session runs.
    pub id: String,
    /// Its kernelspec.
    pub name: String,
    hub: Hub,
    kind: KernelOf,
}

enum KernelOf {
    Alone { kernel: Kernel, _slot: Slot },
    OfSession(SessionKernel),
}

/// Why a kernel could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There are too many, or the server is ending.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Something required is missing.
    #[error("{0}")]
    Failed(Failure),
    /// It did not start.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

impl KernelRegistry {
    /// Kernels of the sessions of `registry`, and others that start with `settings`.
    pub fn new(registry: Registry, settings: SessionSettings) -> Self {
        let kernels = Self {
            registry,
            settings,
            kernels: Arc::default(),
        };
        if let Some(idle) = kernels.registry.shared.limits.idle {
            kernels.end_idle_after(idle);
        }
        kernels
    }

    /// The kernels that can be started, the default one first.
    ///
    /// # Errors
    /// A gateway does not answer.
    pub async fn sources(&self) -> Result<Vec<KernelSource>, Failure> {
        let context = self.registry.context();
        let remote = remote_kernels::open(self.settings.gateway.as_deref(), context).await?;
        let mut all: Vec<KernelSource> = if let Some(remote) = &remote {
            remote.all()
        } else {
            let found = context.paths.kernels().list();
            let mut names = std::collections::BTreeSet::new();
            found
                .into_iter()
                .filter(|it| !it.name.contains('/') && names.insert(it.name.clone()))
                .filter_map(|it| it.source.ok())
                .collect()
        };
        if let Ok(usual) = self.find(None, remote.as_ref(), context) {
            all.retain(|it| it.name != usual.name);
            all.insert(0, usual);
        }
        Ok(all)
    }

    fn find(
        &self,
        name: Option<&str>,
        remote: Option<&RemoteKernels>,
        context: &Context,
    ) -> Result<KernelSource, Failure> {
        let usual = self.settings.kernels.first().map(String::as_str);
        let name = name.or(usual).or(context.config.kernel.as_deref());
        match remote {
            Some(remote) => remote.find(name, None),
            None => find_kernel(name, context),
        }
    }

    /// Starts a kernel that belongs to no session. `name` must not be a path.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(
        &self,
        name: Option<&str>,
        directory: PathBuf,
    ) -> Result<Arc<SharedKernel>, StartError> {
        let slot = self.registry.slot()?;
        let options = self.options(name, directory).await;
        let options = options.map_err(StartError::Failed)?;
        let (name, username) = (options.kernel.name.clone(), options.username.clone());
        let kernel = Hub::launch(options).await?;
        let hub = Hub::start(&username, HubOwner::Nobody);
        hub.attach(kernel.clone()).await;
        let shared = Arc::new(SharedKernel {
            id: uuid::Uuid::new_v4().to_string(),
            name,
            hub,
            kind: KernelOf::Alone {
                kernel,
                _slot: slot,
            },
        });
        self.all().insert(shared.id.clone(), Arc::clone(&shared));
        Ok(shared)
    }

    async fn options(
        &self,
        name: Option<&str>,
        directory: PathBuf,
    ) -> Result<LaunchOptions, Failure> {
        let variables = Vec::new();
        let (context, _) = self.registry.context_in(Some(directory.clone()), variables);
        let settings = &self.settings;
        let remote = remote_kernels::open(settings.gateway.as_deref(), &context).await?;
        let source = self.find(name, remote.as_ref(), &context)?;
        let sandbox = if remote.is_some() {
            Sandbox::Full
        } else {
            // Third-party programs run a model's code with it.
            let settings = &settings.sandbox;
            sandbox::sandbox(settings, CodeOf::Model, &directory, &[], &context).await?
        };
        Ok(LaunchOptions {
            sandbox,
            gateway: remote.as_ref().map(RemoteKernels::options),
            ..launch_options(source, directory, &context)
        })
    }

    /// All running kernels, including those of sessions.
    pub async fn list(&self) -> Vec<Arc<SharedKernel>> {
        self.look_at_sessions().await;
        self.all().values().cloned().collect()
    }

    /// The kernel `id`, if it is running.
    pub async fn get(&self, id: &str) -> Option<Arc<SharedKernel>> {
        let known = self.all().get(id).cloned();
        if known.as_ref().is_some_and(|it| it.session().is_none()) {
            return known;
        }
        self.look_at_sessions().await;
        self.all().get(id).cloned()
    }

    /// The main kernel of a session.
    pub async fn of_session(&self, id: &str) -> Option<Arc<SharedKernel>> {
        let live = self.registry.get(id)?;
        let main = live.kernels.first()?;
        self.get(&id_of(&live.id, &main.language)).await
    }

    /// Adds the kernels of new sessions, and drops those of ended sessions.
    async fn look_at_sessions(&self) {
        let live = self.registry.list();
        let gone = {
            let is_gone = |it: &SharedKernel| {
                let session = it.session();
                session.is_some_and(|session| live.iter().all(|live| live.id != session.id))
            };
            let mut all = self.all();
            let ids: Vec<String> = all
                .values()
                .filter(|it| is_gone(it))
                .map(|it| it.id.clone())
                .collect();
            let gone = ids.iter().filter_map(|id| all.remove(id));
            gone.collect::<Vec<_>>()
        };
        for kernel in gone {
            kernel.hub.close().await;
        }
        for session in live {
            // A session that is just ending has none.
            let ready = session.handle().kernels().await.unwrap_or_default();
            for (index, offer) in session.kernels.iter().enumerate() {
                let is_ready = |(language, _): &(String, Kernel)| *language == offer.language;
                if index > 0 && !ready.iter().any(is_ready) {
                    continue;
                }
                let id = id_of(&session.id, &offer.language);
                let mut all = self.all();
                all.entry(id.clone()).or_insert_with(|| {
                    let environment = &self.registry.context().paths.environment;
                    let username = environment.get("USER").unwrap_or("sponde");
                    let (hub, kernel) = SessionKernel::new(Arc::clone(&session), index, username);
                    Arc::new(SharedKernel {
                        id,
                        name: offer.kernel.clone(),
                        hub,
                        kind: KernelOf::OfSession(kernel),
                    })
                });
            }
        }
    }

    /// Ends a kernel that belongs to no session. Returns `false` if there is no such kernel.
    pub async fn end(&self, id: &str) -> bool {
        let kernel = {
            let mut all = self.all();
            let is_alone = all.get(id).is_some_and(|it| it.session().is_none());
            is_alone.then(|| all.remove(id)).flatten()
        };
        let Some(kernel) = kernel else {
            return false;
        };
        kernel.shut_down().await;
        true
    }

    /// Ends all of them. Kernels of sessions end with their session.
    pub async fn close(&self) {
        let all = std::mem::take(&mut *self.all());
        let ending = all.values().map(|kernel| kernel.shut_down());
        futures_util::future::join_all(ending).await;
    }

    fn end_idle_after(&self, idle: Duration) {
        let kernels = Arc::downgrade(&self.kernels);
        let (registry, settings) = (self.registry.clone(), self.settings.clone());
        task::spawn("idle kernels", async move {
            loop {
                tokio::time::sleep(LOOK_EVERY.min(idle / 2).max(Duration::from_millis(50))).await;
                let Some(kernels) = kernels.upgrade() else {
                    return;
                };
                let all = Self {
                    registry: registry.clone(),
                    settings: settings.clone(),
                    kernels,
                };
                let known: Vec<_> = all.all().values().cloned().collect();
                for kernel in known.iter().filter(|it| it.is_idle_for(idle)) {
                    tracing::info!(id = %kernel.id, "an idle kernel ends");
                    all.end(&kernel.id).await;
                }
            }
        })
        .detach();
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Arc<SharedKernel>>> {
        lock(&self.kernels)
    }
}

impl SharedKernel {
    /// The session that it belongs to.
    pub fn session(&self) -> Option<&LiveSession> {
        match &self.kind {
            KernelOf::Alone { .. } => None,
            KernelOf::OfSession(kernel) => Some(kernel.session()),
        }
    }

    /// Its current activity, and for how many clients.
    pub fn activity(&self) -> HubActivity {
        match &self.kind {
            KernelOf::Alone { .. } => self.hub.activity(),
            KernelOf::OfSession(kernel) => kernel.activity(&self.hub),
        }
    }

    /// Adds a client, identified by its own session. `None` if the kernel is permanently gone.
    pub async fn connect(&self, session: &str) -> Option<HubClient> {
        if let KernelOf::OfSession(kernel) = &self.kind {
            kernel.share(&self.hub);
        }
        self.hub.join(session).await
    }

    /// Interrupts the running code.
    ///
    /// # Errors
    /// The kernel is dead, or its session has ended.
    pub async fn interrupt(&self) -> Result<(), KernelError> {
        match &self.kind {
            KernelOf::Alone { kernel, .. } => {
                // Code of clients is not among our executions.
                kernel.tap_sender().interrupt().await
            }
            KernelOf::OfSession(kernel) => kernel.command(Command::Interrupt).await,
        }
    }

    /// Restarts it; all its variables are lost.
    ///
    /// # Errors
    /// Same as [`Kernel::restart`].
    pub async fn restart(&self) -> Result<(), KernelError> {
        match &self.kind {
            KernelOf::Alone { kernel, .. } => {
                self.hub.restarting().await;
                kernel.restart().await?;
                self.hub.attach(kernel.clone()).await;
                Ok(())
            }
            KernelOf::OfSession(kernel) => kernel.command(Command::RestartKernel).await,
        }
    }

    async fn shut_down(&self) {
        if let KernelOf::Alone { kernel, .. } = &self.kind {
            kernel.shutdown().await;
        }
        self.hub.close().await;
    }

    fn is_idle_for(&self, idle: Duration) -> bool {
        let activity = self.activity();
        let since = SystemTime::now().duration_since(activity.last);
        self.session().is_none()
            && activity.connections == 0
            && activity.state != "busy"
            && since.is_ok_and(|since| since >= idle)
    }
}

/// The id of a session's kernel.
fn id_of(session: &str, language: &str) -> String {
    let digest = Sha256::digest(format!("sponde\0{session}\0{language}"));
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(digest) {
        *to = from;
    }
    let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    id.to_string()
}
