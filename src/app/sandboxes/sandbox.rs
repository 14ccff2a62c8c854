//! One sandbox: its contexts, commands, files and metadata.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::context::{CodeContext, ContextError, ContextInfo};
use super::files::Files;
use super::language::normal;
use super::machine::{Dirs, HOME, Machine, Size};
use super::process::{Events, ProcessError, ProcessRequest, Processes};
use super::running::{Clock, Ending};
use super::watching::Watches;
use super::{NewSandbox, SandboxError, lock};
use crate::error::{Failure, FailureKind};
use crate::kernel::Kernel;
use crate::kernel::processes::{self, Stopped};

/// Maximum contexts of a sandbox.
const CONTEXTS: usize = 32;
/// The contexts that each sandbox has from the start.
const DEFAULTS: [&str; 2] = ["python", "javascript"];

/// The state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    /// It can be used.
    Running,
    /// Its clock and processes are stopped, and stay in memory.
    Paused,
}

/// A sandbox.
pub struct ProgramSandbox {
    id: String,
    token: String,
    new: NewSandbox,
    started: SystemTime,
    clock: Clock,
    machine: Arc<Machine>,
    /// In order of creation; a default one may have no kernel here.
    contexts: Mutex<Vec<Listed>>,
    files: Files,
    processes: Processes,
    watches: Watches,
    /// Its stopped processes, while it is paused.
    stopped: tokio::sync::Mutex<Stopped>,
    /// When its usage was last asked for, and the processor time until then.
    measured: Mutex<(Instant, Duration)>,
    ended: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

/// An entry in the list of contexts.
#[derive(Clone)]
pub(super) enum Listed {
    Made {
        context: Arc<CodeContext>,
        /// Whether it gets code that names no context.
        is_default: bool,
    },
    /// Created when its language is first needed.
    Planned { id: String, language: &'static str },
}

impl ProgramSandbox {
    pub(super) fn new(
        id: String,
        new: NewSandbox,
        machine: Arc<Machine>,
        warm: Option<&Arc<CodeContext>>,
        slot: OwnedSemaphorePermit,
    ) -> Self {
        let planned = DEFAULTS.map(|language| match warm {
            Some(context) if context.language == language => Listed::Made {
                context: Arc::clone(context),
                is_default: true,
            },
            Some(_) | None => Listed::Planned {
                id: uuid::Uuid::new_v4().to_string(),
                language,
            },
        });
        let half = || uuid::Uuid::new_v4().simple().to_string();
        Self {
            id,
            token: half() + &half(),
            started: SystemTime::now(),
            clock: Clock::new(new.lifetime),
            files: Files::new(Arc::clone(&machine)),
            processes: Processes::default(),
            watches: Watches::default(),
            stopped: tokio::sync::Mutex::default(),
            measured: Mutex::new((Instant::now(), Duration::ZERO)),
            contexts: Mutex::new(planned.into()),
            ended: CancellationToken::new(),
            machine,
            new,
            _slot: slot,
        }
    }

    /// The directories that code can write to.
    pub(super) fn dirs(&self) -> Dirs {
        self.machine.dirs().clone()
    }

    /// The parameters of a fork.
    pub(super) fn like(&self, lifetime: Duration) -> NewSandbox {
        NewSandbox {
            lifetime: Some(lifetime),
            id: None,
            ..self.new.clone()
        }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The token that a program needs to use it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The program's name for its kind.
    pub fn template(&self) -> &str {
        &self.new.template
    }

    /// Data that its program attached to it.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.new.metadata
    }

    /// Environment variables of its code.
    pub fn variables(&self) -> &[(String, String)] {
        &self.new.variables
    }

    /// When it was created.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// When its lifetime ends; for a paused one, when it would have ended.
    pub fn ends(&self) -> SystemTime {
        self.clock.shown()
    }

    /// Its state.
    pub fn state(&self) -> SandboxState {
        if self.clock.is_paused() {
            SandboxState::Paused
        } else {
            SandboxState::Running
        }
    }

    /// Whether it is paused at the end of its lifetime, instead of ended.
    pub fn pauses(&self) -> bool {
        self.new.pauses
    }

    /// Cancelled when it ends.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Its files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The directories that its program watches.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Sets its lifetime to this long from now.
    pub fn set_lifetime(&self, lifetime: Duration) {
        self.clock.set(Some(lifetime));
    }

    /// Extends its lifetime to at least this long from now, and resumes a paused one. Returns whether it was paused.
    pub async fn connect(&self, lifetime: Duration) -> bool {
        let mut stopped = self.stopped.lock().await;
        let was_paused = self.clock.is_paused();
        if was_paused {
            std::mem::take(&mut *stopped).go_on();
            self.clock.pause(Some(lifetime));
        } else {
            self.clock.extend(lifetime);
        }
        was_paused
    }

    /// Stops its clock, kernels and commands, which keep their memory. Returns `false` if it is already paused.
    pub async fn pause(&self) -> bool {
        let mut stopped = self.stopped.lock().await;
        if self.clock.is_paused() {
            return false;
        }
        self.clock.pause(None);
        let roots = self.roots().await;
        let stopping = tokio::task::spawn_blocking(move || processes::stop(&roots));
        *stopped = stopping.await.unwrap_or_default();
        true
    }

    /// The numbers of its top-level processes.
    async fn roots(&self) -> Vec<u32> {
        let kernels = self.kernels().into_iter();
        let kernels = kernels.map(|kernel| async move { kernel.pid().await });
        let kernels = futures_util::future::join_all(kernels).await;
        let mut roots = self.processes.roots();
        roots.extend(kernels.into_iter().flatten());
        roots
    }

    fn kernels(&self) -> Vec<Kernel> {
        let contexts = lock(&self.contexts);
        let kernels = contexts.iter().filter_map(|it| match it {
            Listed::Made { context, .. } => context.kernel(),
            Listed::Planned { .. } => None,
        });
        kernels.collect()
    }

    pub(super) fn is_over(&self) -> bool {
        self.clock.is_over()
    }

    pub(super) fn ending(&self) -> Ending {
        self.clock.ending()
    }

    /// Checks that it is running, as every use requires.
    ///
    /// # Errors
    /// [`SandboxError::Paused`].
    pub fn running(&self) -> Result<&Self, SandboxError> {
        match self.state() {
            SandboxState::Running => Ok(self),
            SandboxState::Paused => Err(SandboxError::Paused(self.id.clone())),
        }
    }

    /// Starts the kernel that most programs use first.
    pub(super) fn warm_up(&self) {
        if let Ok(context) = self.of_language(None) {
            context.warm_up();
        }
    }

    /// The contexts.
    pub fn contexts(&self) -> Vec<ContextInfo> {
        let contexts = lock(&self.contexts).clone();
        let shown = contexts.into_iter().map(|it| match it {
            Listed::Made { context, .. } => context.info(),
            Listed::Planned { id, language } => ContextInfo {
                id,
                language: language.to_owned(),
                cwd: HOME.to_owned(),
            },
        });
        shown.collect()
    }

    /// The context `id`.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn context(&self, id: &str) -> Result<Arc<CodeContext>, ContextError> {
        let mut contexts = lock(&self.contexts);
        let found = contexts.iter_mut().find(|it| it.id() == id);
        let found = found.ok_or_else(|| ContextError::Unknown(id.to_owned()))?;
        self.made(found)
    }

    /// The first context of a language, created if there is none.
    ///
    /// # Errors
    /// [`ContextError`].
    pub fn of_language(&self, language: Option<&str>) -> Result<Arc<CodeContext>, ContextError> {
        let language = normal(language);
        let mut contexts = lock(&self.contexts);
        let is_default = |it: &&mut Listed| it.is_default(&language);
        if let Some(found) = contexts.iter_mut().find(is_default) {
            return self.made(found);
        }
        self.make(&mut contexts, language, HOME.to_owned(), true)
    }

    /// Creates a context with a running kernel.
    ///
    /// # Errors
    /// [`ContextError`].
    pub async fn new_context(
        &self,
        language: Option<&str>,
        cwd: Option<String>,
    ) -> Result<Arc<CodeContext>, ContextError> {
        let cwd = cwd.unwrap_or_else(|| HOME.to_owned());
        let made = self.make(&mut lock(&self.contexts), normal(language), cwd, false)?;
        if let Err(error) = made.start().await {
            // A context that failed to start is not listed.
            let _ = self.remove_context(&made.id).await;
            return Err(error);
        }
        Ok(made)
    }

    /// Ends a context.
    ///
    /// # Errors
    /// [`ContextError::Unknown`].
    pub async fn remove_context(&self, id: &str) -> Result<(), ContextError> {
        let removed = {
            let mut contexts = lock(&self.contexts);
            let at = contexts.iter().position(|it| it.id() == id);
            at.map(|at| contexts.remove(at))
        };
        match removed {
            Some(Listed::Made { context, .. }) => context.end().await,
            Some(Listed::Planned { .. }) => {}
            None => return Err(ContextError::Unknown(id.to_owned())),
        }
        Ok(())
    }

    fn made(&self, listed: &mut Listed) -> Result<Arc<CodeContext>, ContextError> {
        let (id, language) = match listed {
            Listed::Made { context, .. } => return Ok(Arc::clone(context)),
            Listed::Planned { id, language } => (id.clone(), (*language).to_owned()),
        };
        let context = self.new_one(id, language, HOME.to_owned())?;
        *listed = Listed::Made {
            context: Arc::clone(&context),
            is_default: true,
        };
        Ok(context)
    }

    fn make(
        &self,
        contexts: &mut Vec<Listed>,
        language: String,
        cwd: String,
        is_default: bool,
    ) -> Result<Arc<CodeContext>, ContextError> {
        if contexts.len() >= CONTEXTS {
            return Err(ContextError::TooMany(CONTEXTS));
        }
        let id = uuid::Uuid::new_v4().to_string();
        let context = self.new_one(id, language, cwd)?;
        contexts.push(Listed::Made {
            context: Arc::clone(&context),
            is_default,
        });
        Ok(context)
    }

    fn new_one(
        &self,
        id: String,
        language: String,
        cwd: String,
    ) -> Result<Arc<CodeContext>, ContextError> {
        if self.ended.is_cancelled() {
            let failure = Failure::new(FailureKind::Failed, "the sandbox has ended");
            return Err(ContextError::NoKernel(failure));
        }
        let (machine, variables) = (Arc::clone(&self.machine), self.new.variables.clone());
        Ok(Arc::new(CodeContext::new(
            id, language, cwd, machine, variables,
        )?))
    }

    /// Its commands.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Starts a command, and follows it from its beginning. Also returns its process number.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn spawn(&self, request: ProcessRequest) -> Result<(u32, Events), ProcessError> {
        if self.ended.is_cancelled() {
            return Err(ProcessError::Failed("the sandbox has ended".to_owned()));
        }
        self.processes
            .spawn(&self.machine, &self.new.variables, request)
    }

    /// The resource usage of its kernels and commands: bytes of memory, and the percentage of all processors since the
    /// last call.
    pub async fn usage(&self) -> (u64, f64) {
        let roots = self.roots().await;
        let taken = tokio::task::spawn_blocking(move || processes::taken(&roots)).await;
        let taken = taken.unwrap_or_default();
        let now = Instant::now();
        let (then, before) = std::mem::replace(&mut *lock(&self.measured), (now, taken.cpu));
        // Processes that ended meanwhile are no longer counted.
        let spent = taken.cpu.saturating_sub(before).as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        #[expect(clippy::cast_precision_loss, reason = "a number of processors")]
        let possible = (now - then).as_secs_f64() * processors as f64;
        let percent = if possible > 0.0 {
            spent / possible * 100.0
        } else {
            0.0
        };
        (taken.memory, percent.min(100.0))
    }

    /// Its share of the machine.
    pub fn size(&self) -> Size {
        self.machine.size()
    }

    /// Ends all its processes, and removes its files.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        // Stopped processes do not end by themselves.
        std::mem::take(&mut *self.stopped.lock().await).go_on();
        self.processes.end().await;
        let contexts = std::mem::take(&mut *lock(&self.contexts));
        let ending = contexts.iter().map(|it| async move {
            if let Listed::Made { context, .. } = it {
                context.end().await;
            }
        });
        futures_util::future::join_all(ending).await;
        self.machine.remove().await;
    }
}

impl Listed {
    fn id(&self) -> &str {
        match self {
            Self::Made { context, .. } => &context.id,
            Self::Planned { id, .. } => id,
        }
    }

    /// Whether it gets code in this language that names no context.
    fn is_default(&self, wanted: &str) -> bool {
        match self {
            Self::Made {
                context,
                is_default,
            } => *is_default && context.language == wanted,
            Self::Planned { language, .. } => *language == wanted,
        }
    }
}
