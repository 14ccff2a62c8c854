//! The session's kernel: on its way, there, or not to be had.

use tokio::sync::oneshot;

use crate::kernel::task::{self, Task};
use crate::kernel::{Kernel, KernelError, LaunchOptions};

/// The kernel of a session.
pub(super) enum KernelSlot {
    /// Starting or restarting.
    Starting {
        ready: oneshot::Receiver<Result<Kernel, KernelError>>,
        /// Aborted with the slot.
        _task: Task,
    },
    /// There.
    Ready(Kernel),
    /// Not to be had.
    Failed(KernelError),
}

impl KernelSlot {
    /// Starts a kernel in the background.
    pub(super) fn starting(options: LaunchOptions) -> Self {
        Self::when(async move { Kernel::launch(options).await })
    }

    /// Restarts `kernel` in the background.
    pub(super) fn restarting(kernel: Kernel) -> Self {
        Self::when(async move { kernel.restart().await.map(|()| kernel) })
    }

    fn when(future: impl Future<Output = Result<Kernel, KernelError>> + Send + 'static) -> Self {
        let (sender, ready) = oneshot::channel();
        let task = task::spawn("kernel start", async move {
            // A session that ended drops the kernel, which shuts it down.
            let _ = sender.send(future.await);
        });
        Self::Starting { ready, _task: task }
    }

    /// Waits until a kernel that is starting is there or has failed, and says so once.
    pub(super) async fn changed(&mut self) -> Result<(), KernelError> {
        let Self::Starting { ready, .. } = self else {
            return std::future::pending().await;
        };
        let result = ready.await.unwrap_or(Err(KernelError::Closed));
        match result {
            Ok(kernel) => {
                *self = Self::Ready(kernel);
                Ok(())
            }
            Err(error) => {
                *self = Self::Failed(error.clone());
                Err(error)
            }
        }
    }

    pub(super) fn ready(&self) -> Option<&Kernel> {
        match self {
            Self::Ready(kernel) => Some(kernel),
            Self::Starting { .. } | Self::Failed(_) => None,
        }
    }

    pub(super) async fn shutdown(self) {
        match self {
            Self::Ready(kernel) => kernel.shutdown().await,
            // A start that nobody wants any more is given up; the process goes with its task.
            Self::Starting { .. } | Self::Failed(_) => {}
        }
    }
}
