//! A context: a kernel that runs one piece of code after the other. The kernel starts with the first code, or when it
//! is warmed up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::language::Language;
use super::lock;
use super::machine::Machine;
use crate::error::Failure;
use crate::kernel::{ExecuteOptions, Kernel, KernelError, KernelSource, KernelState, Verdict};
use crate::task;

/// How long our own code may take in a kernel.
const ASIDE: Duration = Duration::from_secs(30);

/// A context.
pub struct CodeContext {
    /// Its id.
    pub id: String,
    /// The language, by E2B's name.
    pub language: String,
    /// The working directory, as programs write it.
    pub cwd: String,
    pub(super) machine: Arc<Machine>,
    source: KernelSource,
    variables: Mutex<Vec<(String, String)>>,
    kernel: Mutex<Option<Kernel>>,
    /// The lock for the running code. Its value: how the kernel has been set up.
    turn: Arc<tokio::sync::Mutex<Taught>>,
}

/// The description of a context for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextInfo {
    /// Its id.
    pub id: String,
    /// The language, by E2B's name.
    pub language: String,
    /// The working directory, as programs write it.
    pub cwd: String,
}

/// How a kernel has been set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Taught {
    /// Not at all since its start.
    #[default]
    Nothing,
    /// With the common code for its language.
    Language,
    /// Also with its sandbox's variables and directory.
    All,
}

/// Why code could not run.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// There is no such context.
    #[error("Context {0} not found")]
    Unknown(String),
    /// There are too many.
    #[error("a sandbox has at most {0} contexts")]
    TooMany(usize),
    /// No kernel here supports its language.
    #[error("{0}")]
    NoKernel(Failure),
    /// Its kernel could not be started.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its kernel rejected our setup code.
    #[error("{what}: {name}: {value}")]
    Refused {
        /// The attempted step.
        what: String,
        /// The exception.
        name: String,
        /// Its message.
        value: String,
    },
    /// The request is invalid.
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

    /// Its description for programs.
    pub fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: self.language.clone(),
            cwd: self.cwd.clone(),
        }
    }

    /// Starts its kernel in its directory.
    ///
    /// # Errors
    /// [`ContextError`].
    pub async fn start(&self) -> Result<(), ContextError> {
        let mut turn = self.turn().await;
        self.ready(&mut turn).await.map(|_| ())
    }

    /// Restarts its kernel: running code ends, and all variables are lost.
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

    /// Ends its kernel permanently.
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

    /// Its kernel, started and set up if necessary.
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
            // Code runs without it: only tables and charts lack data then.
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

    /// Sets these variables in its kernel, which may already be running, before the next code.
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

    /// Starts it in the background, so that its first code does not have to wait.
    pub(super) fn warm_up(self: &Arc<Self>) {
        let context = Arc::clone(self);
        task::spawn("warm context", async move {
            if let Err(error) = context.start().await {
                // Its first code will report the error.
                tracing::info!(%error, "a context could not be started ahead");
            }
        })
        .detach();
    }
}

/// Runs our own code.
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
