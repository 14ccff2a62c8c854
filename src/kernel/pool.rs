//! Kernels started in advance: one spare for each way to start one.
//!
//! A spare has already imported what most cells import first. It is used for the next kernel, or restart, with the same
//! kernelspec, environment and directory. Its replacement starts a little later, so that it does not compete with the
//! first cell for the processor. A spare that has died is not handed out.
//!
//! Deliberately not here: the decision to keep spares. Each costs the memory of a kernel.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{ExecuteOptions, Kernel, KernelError, KernelState, LaunchOptions};
use crate::task::{self, Task};

/// Most spares at the same time; a further one replaces the oldest.
const SPARES: usize = 4;
/// Delay between taking a spare and starting the next.
const REFILL_AFTER: Duration = Duration::from_secs(2);
/// How long the imports may take.
const WARM_UP_WITHIN: Duration = Duration::from_mins(1);
/// Leaves no names behind and ignores missing packages.
const PYTHON_WARM_UP: &str = "for _sponde_module in ('numpy', 'pandas', 'matplotlib.pyplot'):
    try:
        __import__(_sponde_module)
    except Exception:
        pass
del _sponde_module";

/// Spare kernels.
#[derive(Debug, Default)]
pub struct Pool {
    spares: Mutex<Vec<Spare>>,
}

#[derive(Debug)]
struct Spare {
    options: LaunchOptions,
    ready: oneshot::Receiver<Result<Kernel, KernelError>>,
    /// Aborted with the spare.
    _task: Task,
}

impl Pool {
    /// No spares yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A kernel for `options`: the spare, even if it is still starting, or else a new one. Then starts another spare.
    ///
    /// # Errors
    /// As [`Kernel::launch`].
    pub async fn take(&self, options: LaunchOptions) -> Result<Kernel, KernelError> {
        let spare = self.remove(&options);
        let kernel = match spare {
            Some(spare) => usable(spare).await,
            None => None,
        };
        let kernel = match kernel {
            Some(kernel) => kernel,
            None => Kernel::launch(options.clone()).await?,
        };
        self.prepare_after(options, REFILL_AFTER);
        Ok(kernel)
    }

    /// Starts a spare in the background, unless there is one.
    pub fn prepare(&self, options: LaunchOptions) {
        self.prepare_after(options, Duration::ZERO);
    }

    fn prepare_after(&self, options: LaunchOptions, delay: Duration) {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        if spares.iter().any(|spare| spare.options == options) {
            return;
        }
        if spares.len() >= SPARES {
            spares.remove(0);
        }
        let (sender, ready) = oneshot::channel();
        let launch = options.clone();
        let task = task::spawn("spare kernel", async move {
            tokio::time::sleep(delay).await;
            // If the pool is gone, the kernel is dropped, which shuts it down.
            let _ = sender.send(warm(launch).await);
        });
        spares.push(Spare {
            options,
            ready,
            _task: task,
        });
    }

    fn remove(&self, options: &LaunchOptions) -> Option<Spare> {
        let mut spares = self.spares.lock().unwrap_or_else(PoisonError::into_inner);
        let at = spares.iter().position(|spare| spare.options == *options)?;
        Some(spares.remove(at))
    }
}

/// The kernel of a spare, unless it failed to start or has died.
async fn usable(spare: Spare) -> Option<Kernel> {
    let Spare { ready, _task, .. } = spare;
    let kernel = ready.await.ok()?.ok()?;
    match kernel.state() {
        KernelState::Idle | KernelState::Busy => Some(kernel),
        KernelState::Starting | KernelState::Dead(_) => None,
    }
}

async fn warm(options: LaunchOptions) -> Result<Kernel, KernelError> {
    let python = options.kernel.spec.language.eq_ignore_ascii_case("python");
    let kernel = Kernel::launch(options).await?;
    if python {
        let warm_up = ExecuteOptions::aside(PYTHON_WARM_UP, WARM_UP_WITHIN);
        kernel.execute(warm_up).await?.collect().await;
    }
    Ok(kernel)
}
