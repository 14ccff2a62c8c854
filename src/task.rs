//! The only way to spawn a task: named, logged when it panics, aborted when its handle is dropped.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// A running task that ends with its owner.
#[derive(Debug)]
#[must_use = "the task is aborted when this is dropped"]
pub(crate) struct Task {
    handle: Option<JoinHandle<()>>,
}

/// Spawns `future` on the current runtime.
pub(crate) fn spawn<F>(name: &'static str, future: F) -> Task
where
    F: Future<Output = ()> + Send + 'static,
{
    // Boxed, so that the runtime's code for tasks is compiled once and not for each future.
    watched(name, Box::pin(future))
}

fn watched(name: &'static str, future: Pin<Box<dyn Future<Output = ()> + Send>>) -> Task {
    let inner = tokio::spawn(future);
    let abort = inner.abort_handle();
    let handle = tokio::spawn(async move {
        let _abort = AbortOnDrop(abort);
        if let Err(error) = inner.await
            && error.is_panic()
        {
            tracing::error!(task = name, %error, "a task panicked");
        }
    });
    Task {
        handle: Some(handle),
    }
}

impl Task {
    /// Lets the task run to its own end; it must watch its channels and stop by itself.
    pub(crate) fn detach(mut self) {
        self.handle = None;
    }

    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the task has ended.
    pub(crate) async fn join(mut self) {
        if let Some(handle) = self.handle.take() {
            let _ = handle.await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(handle) = &self.handle {
            handle.abort();
        }
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::spawn;

    #[tokio::test]
    async fn dropping_the_handle_ends_the_task() {
        let (held, mut gone) = tokio::sync::oneshot::channel::<()>();
        let task = spawn("test", async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert!(gone.try_recv().is_err());
        drop(task);
        // The sender goes with the task.
        assert!(gone.await.is_err());
    }
}
