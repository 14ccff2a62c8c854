//! One sandbox: its contexts, commands and files, and what is known of it.

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

/// Contexts of a sandbox.
const CONTEXTS: usize = 32;
/// The contexts that each sandbox begins with.
const DEFAULTS: [&str; 2] = ["python", "javascript"];

/// What a sandbox does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxState {
    /// It can be used.
    Running,
    /// Its time and its processes stand still, in memory.
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
    /// In the order in which they were made; a default one may have no kernel here.
    contexts: Mutex<Vec<Listed>>,
    files: Files,
    processes: Processes,
    watches: Watches,
    /// While it is paused.
    stopped: tokio::sync::Mutex<Stopped>,
    /// When what it takes was asked last, and the time of processors until then.
    measured: Mutex<(Instant, Duration)>,
    ended: CancellationToken,
    _slot: OwnedSemaphorePermit,
}

/// A context in the list.
#[derive(Clone)]
pub(super) enum Listed {
    Made {
        context: Arc<CodeContext>,
        /// Whether code goes there that names no context.
        is_default: bool,
    },
    /// Made when its language is wanted first.
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

    /// The files that code can write to.
    pub(super) fn dirs(&self) -> Dirs {
        self.machine.dirs().clone()
    }

    /// What a fork of it is made with.
    pub(super) fn like(&self, lifetime: Duration) -> NewSandbox {
        NewSandbox {
            lifetime: Some(lifetime),
            id: None,
            ..self.new.clone()
        }
    }

    /// Its name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What a program shows to use it.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What its program called the kind of sandbox.
    pub fn template(&self) -> &str {
        &self.new.template
    }

    /// What its program wants to remember.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.new.metadata
    }

    /// Variables of the environment of its code.
    pub fn variables(&self) -> &[(String, String)] {
        &self.new.variables
    }

    /// When it was made.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// When its time is over; of a paused one, when it would have been.
    pub fn ends(&self) -> SystemTime {
        self.clock.shown()
    }

    /// What it does.
    pub fn state(&self) -> SandboxState {
        if self.clock.is_paused() {
            SandboxState::Paused
        } else {
            SandboxState::Running
        }
    }

    /// Whether it is paused when its time is over, instead of ended.
    pub fn pauses(&self) -> bool {
        self.new.pauses
    }

    /// Is cancelled when it ends.
    pub fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Its files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Directories that its program watches.
    pub fn watches(&self) -> &Watches {
        &self.watches
    }

    /// Its time is over so long from now on.
    pub fn set_lifetime(&self, lifetime: Duration) {
        self.clock.set(Some(lifetime));
    }

    /// Its time is over so long from now on, or later. One that is paused goes on. True: it was paused.
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

    /// Its time stands still, and so do its kernels and commands, which keep their memory. False: it is paused already.
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

    /// The numbers of the processes that all others of it come from.
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

    /// Only one that runs can be used.
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

    /// The first context of a language, which is made if it is not there.
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

    /// A new context, whose kernel runs.
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
            // A sandbox has no context that was never there.
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

    /// Starts a command, and follows it from its beginning. Returns its number too.
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

    /// What its kernels and commands take: bytes of memory, and the percentage of all processors since this was asked last.
    pub async fn usage(&self) -> (u64, f64) {
        let roots = self.roots().await;
        let taken = tokio::task::spawn_blocking(move || processes::taken(&roots)).await;
        let taken = taken.unwrap_or_default();
        let now = Instant::now();
        let (then, before) = std::mem::replace(&mut *lock(&self.measured), (now, taken.cpu));
        // What has ended meanwhile is not counted any more.
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

    /// What it has of the machine.
    pub fn size(&self) -> Size {
        self.machine.size()
    }

    /// Ends all that runs in it, and removes its files.
    pub(super) async fn end(&self) {
        self.ended.cancel();
        // What stands still does not end by itself.
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

    /// Whether code of the language goes there if no context was named.
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
