//! A context: a kernel in which one piece of code runs after the other. It starts with its first code, or when it is warmed up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::language::Language;
use super::lock;
use super::machine::Machine;
use crate::error::Failure;
use crate::kernel::{ExecuteOptions, Kernel, KernelError, KernelSource, KernelState, Verdict};
use crate::task;

/// How long code of ours may take in a kernel.
const ASIDE: Duration = Duration::from_secs(30);

/// A context.
pub struct CodeContext {
    /// Its name.
    pub id: String,
    /// The language, in E2B's words.
    pub language: String,
    /// Where its code works, as programs say it.
    pub cwd: String,
    pub(super) machine: Arc<Machine>,
    source: KernelSource,
    variables: Mutex<Vec<(String, String)>>,
    kernel: Mutex<Option<Kernel>>,
    /// Whose turn it is. What is in there: what the kernel has learnt.
    turn: Arc<tokio::sync::Mutex<Taught>>,
}

/// What programs are told of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextInfo {
    /// Its name.
    pub id: String,
    /// The language, in E2B's words.
    pub language: String,
    /// Where its code works, as programs say it.
    pub cwd: String,
}

/// What a kernel has learnt of what it needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Taught {
    /// Nothing since its start.
    #[default]
    Nothing,
    /// What all of its language learn.
    Language,
    /// Its sandbox's variables and its directory too.
    All,
}

/// Why code could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// There is no such context.
    #[error("Context {0} not found")]
    Unknown(String),
    /// There are too many.
    #[error("a sandbox has at most {0} contexts")]
    TooMany(usize),
    /// Its language has no kernel here.
    #[error("{0}")]
    NoKernel(Failure),
    /// Its kernel did not start.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its kernel does not take what we need of it.
    #[error("{what}: {name}: {value}")]
    Refused {
        /// What was tried.
        what: String,
        /// The exception.
        name: String,
        /// Its words.
        value: String,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl CodeContext {
    pub(super) fn new(
        id: String,
        language: String,
        cwd: String,
        machine: Arc<Machine>,
        variables: Vec<(String, String)>,
    ) -> Result<Self, ContextError> {
        let source = machine.kernel_of(&language);
        Ok(Self {
            id,
            source: source.map_err(ContextError::NoKernel)?,
            language,
            cwd,
            machine,
            variables: Mutex::new(variables),
            kernel: Mutex::default(),
            turn: Arc::default(),
        })
    }

    /// What programs are told of it.
    pub fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: self.language.clone(),
            cwd: self.cwd.clone(),
        }
    }

    /// Starts its kernel, in its directory.
    ///
    /// # Errors
    /// [`ContextError`].
    pub async fn start(&self) -> Result<(), ContextError> {
        let mut turn = self.turn().await;
        self.ready(&mut turn).await.map(|_| ())
    }

    /// Starts its kernel anew; what runs ends, and all variables are lost.
    ///
    /// # Errors
    /// [`ContextError`].
    pub async fn restart(&self) -> Result<(), ContextError> {
        if let Some(kernel) = self.kernel() {
            kernel.restart().await?;
        }
        let mut turn = self.turn().await;
        *turn = Taught::Nothing;
        self.ready(&mut turn).await.map(|_| ())
    }

    /// Ends its kernel for good.
    pub(super) async fn end(&self) {
        let kernel = lock(&self.kernel).take();
        if let Some(kernel) = kernel {
            kernel.shutdown().await;
        }
    }

    pub(super) async fn turn(&self) -> OwnedMutexGuard<Taught> {
        Arc::clone(&self.turn).lock_owned().await
    }

    pub(super) fn kernel(&self) -> Option<Kernel> {
        lock(&self.kernel).clone()
    }

    pub(super) fn language(&self) -> Language {
        Language::of(&self.source.spec.language)
    }

    /// Its kernel, which is started and told what it needs.
    pub(super) async fn ready(&self, taught: &mut Taught) -> Result<Kernel, ContextError> {
        let kernel = if let Some(kernel) = self.kernel() {
            if matches!(kernel.state(), KernelState::Dead(_)) {
                *taught = Taught::Nothing;
                kernel.restart().await?;
            }
            kernel
        } else {
            *taught = Taught::Nothing;
            let options = self.machine.launch_options(self.source.clone());
            let kernel = Kernel::launch(options).await?;
            *lock(&self.kernel) = Some(kernel.clone());
            kernel
        };
        self.teach(&kernel, taught).await?;
        Ok(kernel)
    }

    async fn teach(&self, kernel: &Kernel, taught: &mut Taught) -> Result<(), ContextError> {
        if *taught == Taught::All {
            return Ok(());
        }
        let language = self.language();
        if *taught == Taught::Nothing
            && let Some(code) = language.beginning()
        {
            // Code runs without it: only tables and charts have no data then.
            let taught = aside(kernel, code.to_owned(), "the kernel could not be prepared").await;
            if let Err(error) = taught {
                tracing::warn!(%error, language = self.language, "a kernel did not learn what E2B's clients expect");
            }
        }
        *taught = Taught::Language;
        let variables = lock(&self.variables).clone();
        if !variables.is_empty()
            && let Some(code) = language.set(&variables, false)
        {
            aside(kernel, code, "environment variables could not be set").await?;
        }
        let cwd = self.machine.for_code(&self.cwd);
        if cwd != self.machine.for_code(super::HOME)
            && let Some(code) = language.change_directory(&cwd)
        {
            aside(kernel, code, "the working directory could not be set").await?;
        }
        *taught = Taught::All;
        Ok(())
    }

    /// Its kernel, which may run already, gets these variables before the next code.
    pub(super) async fn set_variables(&self, variables: Vec<(String, String)>) {
        if variables.is_empty() {
            return;
        }
        let mut turn = self.turn().await;
        *lock(&self.variables) = variables;
        if *turn == Taught::All {
            *turn = Taught::Language;
        }
    }

    /// Starts it in the background, so that its first code need not wait.
    pub(super) fn warm_up(self: &Arc<Self>) {
        let context = Arc::clone(self);
        task::spawn("warm context", async move {
            if let Err(error) = context.start().await {
                // Its first code says it.
                tracing::info!(%error, "a context could not be started ahead");
            }
        })
        .detach();
    }
}

/// Runs code of ours.
pub(super) async fn aside(kernel: &Kernel, code: String, what: &str) -> Result<(), ContextError> {
    let execution = kernel.execute(ExecuteOptions::aside(code, ASIDE)).await?;
    let refused = |name: String, value: String| ContextError::Refused {
        what: what.to_owned(),
        name,
        value,
    };
    match execution.outcome().await.verdict {
        Verdict::Ok => Ok(()),
        Verdict::Error { ename, evalue } => Err(refused(ename, evalue)),
        Verdict::Interrupted | Verdict::TimedOut | Verdict::Aborted => Err(refused(
            "Interrupted".to_owned(),
            "it was stopped".to_owned(),
        )),
        Verdict::KernelDied(reason) => Err(refused("KernelDied".to_owned(), reason.to_string())),
    }
}
